"""Examples in memory as files. Trainings on such files are in docs/coming_from_pyg.md, which a test runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.records import read_split, write_graph_data

LAYOUT = tfx_gnn.GraphLayout(
    node_sets={"s": {"mass": "mass_s"}, "t": {"mass": "mass_t"}},
    edge_sets={
        "s_bond": tfx_gnn.EdgeLayout(source="s", target="s", index="edge_index_s", features={"order": "order_s"}),
        "t_bond": tfx_gnn.EdgeLayout(source="t", target="t", index="edge_index_t"),
    },
    context={"heat": "heat", "is_even": "same", "name": "name"},
    rules={"name": tfx_gnn.FieldRule(axis=None)},
)


def make_pair(left, right):
    """Two rings, of which the label tells whether they have the same size."""
    return tfx_gnn.GraphData(
        mass_s=np.arange(float(left)),
        edge_index_s=np.array([np.arange(left), np.roll(np.arange(left), -1)]),
        order_s=np.full([left, 2], left, np.int8),
        mass_t=np.arange(float(right)),
        edge_index_t=np.zeros([2, 0], np.int64),
        heat=0.5,
        same=int(left == right),
        name=np.array(["a", "ü"]),
        unused="text",
    )


PAIRS = [make_pair(left, right) for left in range(4) for right in range(3, 6)]


def test_each_example_is_a_record(tmp_path: Path) -> None:
    folder = str(tmp_path / "examples")

    counts = write_graph_data(
        {"train": PAIRS, "eval": PAIRS[:1]}, LAYOUT, folder, label_features=["is_even"], num_shards=1
    )

    assert counts == {"train": 12, "eval": 1}
    schema = tfx_gnn.read_schema(os.path.join(folder, "graph_schema.pbtxt"))
    spec = tfx_gnn.create_graph_spec_from_schema_pb(schema)
    graphs = [tfx_gnn.parse_single_example(spec, record) for record in read_split(folder, "train")]
    for graph, pair in zip(graphs, PAIRS, strict=True):
        assert graph.node_sets["t"]["mass"].numpy().tolist() == pair.mass_t.tolist()
        assert graph.edge_sets["s_bond"].adjacency.target.numpy().tolist() == pair.edge_index_s[1].tolist()
        assert graph.edge_sets["s_bond"]["order"].numpy().tolist() == pair.order_s.tolist()
        assert graph.edge_sets["t_bond"].sizes.numpy().tolist() == [0]
        assert graph.context["is_even"].numpy().tolist() == [pair.same]
        assert graph.context["name"].numpy().tolist() == [[b"a", "ü".encode()]]
    assert [(entry.key, entry.value) for entry in schema.context.metadata.extra] == [("label_feature", "is_even")]


def test_features_that_grow_count_from_the_first_node_of_their_example(tmp_path: Path) -> None:
    layout = tfx_gnn.GraphLayout(
        node_sets={"s": {"mass": "mass", "twin": "twin"}, "t": {tfx_gnn.SIZE_NAME: "num_t"}},
        edge_sets={"bond": tfx_gnn.EdgeLayout(source="s", target="s", features={"between": "between"})},
        context={"root": "root"},
        rules={
            "root": tfx_gnn.FieldRule(increment="mass"),
            "twin": tfx_gnn.FieldRule(increment="s"),
            "between": tfx_gnn.FieldRule(increment=("t", "s")),
        },
    )
    examples = [
        tfx_gnn.GraphData(
            mass=np.ones(size),
            twin=np.arange(size)[::-1],
            num_t=size + 1,
            edge_index=np.zeros([2, 1], np.int64),
            between=np.array([[size, size - 1]]),
            root=np.array([root]),
        )
        for size, root in ((3, 2), (2, -1), (4, 0))
    ]

    write_graph_data({"train": examples}, layout, str(tmp_path / "examples"))

    schema = tfx_gnn.read_schema(str(tmp_path / "examples" / "graph_schema.pbtxt"))
    declared = {"context": {"root": "s"}, "nodes/s": {"twin": "s"}, "edges/bond": {"between": ("t", "s")}}
    assert tfx_gnn.index_features(schema) == declared
    spec = tfx_gnn.create_graph_spec_from_schema_pb(schema)
    records = list(read_split(str(tmp_path / "examples"), "train").as_numpy_iterator())
    for record, example in zip(records, examples, strict=True):
        graph = tfx_gnn.parse_single_example(spec, record)
        assert graph.context["root"].numpy().tolist() == example.root.tolist()
        assert graph.node_sets["s"]["twin"].numpy().tolist() == example.twin.tolist()
        assert graph.edge_sets["bond"]["between"].numpy().tolist() == example.between.tolist()
    merged = tfx_gnn.parse_and_merge(spec, tf.constant(records), index_features=declared)
    batch = tfx_gnn.collate(examples, layout=layout)
    assert merged.context["root"].numpy().tolist() == batch.root.tolist() == [2, -1, 5]
    assert merged.edge_sets["bond"]["between"].numpy().tolist() == batch.between.tolist()


def test_features_that_count_no_node_set_are_refused(tmp_path: Path) -> None:
    layout = tfx_gnn.GraphLayout(
        node_sets={"s": {"mass": "mass"}},
        context={"root": "root"},
        rules={"root": tfx_gnn.FieldRule(increment="order")},
    )
    example = tfx_gnn.GraphData(mass=np.ones(2), order=np.ones(3), root=np.array([0]), num_nodes=2)

    with pytest.raises(ValueError, match="must let features of graphs count the nodes of a node set; got 'order'"):
        write_graph_data({"train": [example]}, layout, str(tmp_path / "examples"))


def test_records_are_the_same_bytes_in_any_number_of_files(tmp_path: Path) -> None:
    one, three = str(tmp_path / "one"), str(tmp_path / "three")
    write_graph_data({"train": PAIRS}, LAYOUT, one)
    write_graph_data({"train": PAIRS}, LAYOUT, three, num_shards=3)

    records = list(read_split(one, "train").as_numpy_iterator())

    assert list(read_split(three, "train").as_numpy_iterator()) == records
    graph = tfx_gnn.collate(PAIRS[5:6], layout=LAYOUT).to_graph_tensor(LAYOUT)
    assert tf.train.Example.FromString(records[5]) == tfx_gnn.write_example(graph)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"examples": {}}, "`examples` must have a split"),
        ({"examples": {"train": []}}, "got 1 for 0 examples of 'train'"),
        ({"num_shards": 13}, "got 13 for 12 examples of 'train'"),
        ({"label_features": ["mass"]}, r"must name features of the context; got \['mass'\]"),
    ],
)
def test_what_cannot_be_written_is_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = tmp_path / "examples"

    with pytest.raises(ValueError, match=message):
        write_graph_data(**{"examples": {"train": PAIRS}, "layout": LAYOUT, "examples_dir": str(folder), **options})
    assert not folder.exists()


def test_splits_with_other_features_are_refused(tmp_path: Path) -> None:
    wide = make_pair(3, 3)
    wide.order_s = np.zeros([3, 5])

    with pytest.raises(ValueError, match=r"must have features of one dtype and shape; got .*for 'order'"):
        write_graph_data({"train": PAIRS, "eval": [wide]}, LAYOUT, str(tmp_path / "examples"))
    assert not (tmp_path / "examples" / "graph_schema.pbtxt").exists()


def test_a_folder_with_content_is_refused(tmp_path: Path) -> None:
    write_graph_data({"train": PAIRS}, LAYOUT, str(tmp_path / "examples"))

    with pytest.raises(ValueError, match="must be a new or empty folder"):
        write_graph_data({"train": PAIRS}, LAYOUT, str(tmp_path / "examples"))
