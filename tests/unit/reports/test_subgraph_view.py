from __future__ import annotations

import tensorflow as tf

from tfx_gnn.graph import Adjacency, Context, EdgeSet, GraphTensor, NodeSet
from tfx_gnn.reports.subgraph_view import viewed_example


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
