"""Hyperedges in tf.Examples."""

import pytest
import tensorflow as tf

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.codec.example_layout import get_io_spec
from tfx_gnn.graph.codec.example_parsing import (
    parse_and_merge,
    parse_example,
    parse_merge_and_pad,
    parse_single_example,
)
from tfx_gnn.graph.codec.example_writing import write_example
from tfx_gnn.graph.tensor.adjacency import HyperAdjacencySpec
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import EdgeSetSpec, NodeSetSpec

SIZE = tf.TensorSpec([1], tf.int32)
HYPER = GraphTensorSpec.from_piece_specs(
    node_sets_spec={name: NodeSetSpec.from_field_specs(sizes_spec=SIZE) for name in "ab"},
    edge_sets_spec={
        "e": EdgeSetSpec.from_field_specs(
            sizes_spec=SIZE,
            adjacency_spec=HyperAdjacencySpec.from_incident_node_sets({0: "a", 1: "b", 3: "a"}),
        )
    },
)


def hyper_example(num_a, num_b, ends, **changes):
    features = {"nodes/a.#size": [num_a], "nodes/b.#size": [num_b], "edges/e.#size": [len(ends)]}
    columns = list(zip(*ends, strict=True)) or [(), (), ()]
    features |= {f"edges/e.#node.{tag}": list(column) for tag, column in zip((0, 1, 3), columns, strict=True)}
    return features | changes


def test_hyper_edges_are_read_merged_and_padded(make_record):
    contents = [hyper_example(2, 1, [(0, 0, 1)]), hyper_example(0, 0, []), hyper_example(3, 2, [(2, 1, 0), (1, 0, 1)])]
    records = tf.constant([make_record(content) for content in contents])
    budget = SizeConstraints(4, {"a": 6, "b": 4}, {"e": 4})

    merged = parse_and_merge(HYPER, records)
    padded, _ = parse_merge_and_pad(HYPER, records, budget)

    ends = {
        tag: index.numpy().tolist() for tag, (_, index) in merged.edge_sets["e"].adjacency.get_indices_dict().items()
    }
    assert ends == {0: [0, 4, 3], 1: [0, 2, 1], 3: [1, 2, 3]}
    again = parse_example(HYPER, records).merge_batch_to_components()
    assert again.edge_sets["e"].adjacency[3].numpy().tolist() == ends[3]
    assert [padded.edge_sets["e"].adjacency[tag].numpy().tolist() for tag in (0, 1, 3)] == [
        [0, 4, 3, 5],
        [0, 2, 1, 3],
        [1, 2, 3, 5],
    ]
    one = parse_single_example(HYPER, records[2])
    assert write_example(one) == tf.train.Example.FromString(records[2].numpy())
    assert set(get_io_spec(HYPER)) == {*contents[0]}


def test_hyper_edges_that_dangle_are_refused(make_record):
    wrong = tf.constant([make_record(hyper_example(2, 1, [(0, 1, 1)]))])

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"edges/e\.#node\.1"):
        parse_and_merge(HYPER, wrong)
