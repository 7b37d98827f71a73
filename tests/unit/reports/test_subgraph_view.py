from __future__ import annotations

import tensorflow as tf

from tfx_gnn.graph import (
    Adjacency,
    Context,
    EdgeSet,
    GraphTensor,
    NodeSet,
    create_schema_pb_from_graph_spec,
    write_example,
)
from tfx_gnn.records.examples_folder import write_split_shard
from tfx_gnn.reports import subgraph_view
from tfx_gnn.reports.subgraph_view import read_viewed_examples, viewed_example


def _wide_graph(num_nodes, num_features):
    features = {f"f{i:02d}": tf.zeros([num_nodes]) for i in range(num_features)}
    ids = tf.strings.as_string(tf.range(num_nodes))
    return GraphTensor.from_pieces(
        node_sets={"a": NodeSet.from_fields(sizes=tf.constant([num_nodes]), features={"#id": ids, **features})}
    )


def test_what_would_make_a_page_too_large_is_left_out_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(subgraph_view, "_MAX_VALUES_IN_ALL", 100)
    graphs = [_wide_graph(30, 5), _wide_graph(2001, 5), _wide_graph(3, 5)]
    write_split_shard(str(tmp_path), "train", 0, 1, [write_example(graph).SerializeToString() for graph in graphs])
    schema = create_schema_pb_from_graph_spec(graphs[0].spec.relax(num_nodes=True))

    examples, notes = read_viewed_examples(str(tmp_path), schema)

    assert [(one["title"], list(one["sets"][0]["features"])) for one in examples] == [
        ("train, example 0", ["#id", "f00", "f01"])
    ]
    assert notes == [
        "train, example 0 has more values than fit here: some features of its nodes are left out.",
        "train, example 1 has 2,001 nodes and is not drawn; 2,000 are the most.",
        "No more than 1 fit here; further examples are not drawn.",
    ]


def test_every_kind_of_feature_becomes_a_short_text():
    graph = GraphTensor.from_pieces(
        context=Context.from_fields(features={"year": tf.constant([2020])}),
        node_sets={
            "a": NodeSet.from_fields(
                sizes=tf.constant([2]),
                features={
                    "float": tf.constant([0.1, float("nan")]),
                    "many": tf.ones([2, 8], tf.int64),
                    "ragged": tf.ragged.constant([["x"], []], dtype=tf.string),
                    "text": tf.constant([b"\xff" * 100, b"short"]),
                },
            ),
            "empty": NodeSet.from_fields(sizes=tf.constant([0]), features={}),
        },
        edge_sets={
            "e": EdgeSet.from_fields(
                sizes=tf.constant([1]),
                features={},
                adjacency=Adjacency.from_indices(("a", tf.constant([1])), ("a", tf.constant([0]))),
            )
        },
    )

    example = viewed_example(graph, "train, example 0")

    features = example["sets"][0]["features"]
    assert features["float"] == ["0.1", "nan"]
    assert features["many"] == ["[1, 1, 1, 1, 1, 1, and 2 more]"] * 2
    assert features["ragged"] == ["[x]", "[]"]
    assert features["text"] == ["\N{REPLACEMENT CHARACTER}" * 59 + "\N{HORIZONTAL ELLIPSIS}", "short"]
    assert example["sets"][1] == {"name": "empty", "size": 0, "features": {}}
    assert example["edges"] == [{"name": "e", "source": 0, "target": 0, "s": [1], "t": [0]}]
    assert example["labels"] == [["year", "2020"]]
    assert example["seeds"] == []
