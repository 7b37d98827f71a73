import pytest
import tensorflow as tf

import tfx_gnn.graph as lib
from tfx_gnn.graph.tensor.graph_checks import (
    check_homogeneous_graph_tensor,
    check_scalar_graph_tensor,
    get_aux_type_prefix,
    get_homogeneous_node_and_edge_set_name,
    is_graph_tensor,
)

NAMES = [
    "a",
    "_a",
    "_readout",
    "_readout/x",
    "_readout:x",
    "_shadow/e",
    "#a",
    "!x",
    "%",
    ".",
    "^q",
    "~q",
    "a_b",
    "__",
    "_a-b",
    "_1",
    "-a",
]


@pytest.mark.parametrize("name", ["", *NAMES])
def test_aux_prefixes_agree_with_the_oracle(oracle, name):
    assert get_aux_type_prefix(name) == oracle.get_aux_type_prefix(name)


def test_an_aux_prefix_ends_at_the_first_other_character():
    assert get_aux_type_prefix("_readout:alt/seed") == "_readout"
    assert get_aux_type_prefix("seed") is None


def make_graph(nodes, edges):
    return lib.GraphTensor.from_pieces(
        node_sets={name: lib.NodeSet.from_fields(sizes=[1]) for name in nodes},
        edge_sets={
            name: lib.EdgeSet.from_fields(
                sizes=[1], adjacency=lib.Adjacency.from_indices((nodes[0], [0]), (nodes[0], [0]))
            )
            for name in edges
        },
    )


def test_the_names_of_a_homogeneous_graph_are_found():
    graph = make_graph(["a", "_readout"], ["e", "_readout/seed"])

    assert get_homogeneous_node_and_edge_set_name(graph) == ("a", "e")
    assert get_homogeneous_node_and_edge_set_name(graph.spec) == ("a", "e")
    assert check_homogeneous_graph_tensor(graph) is None


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [(["a", "b"], ["e"], "2 node sets and 1 edge sets"), (["a"], [], "1 node sets and 0 edge sets")],
)
def test_other_graphs_are_not_homogeneous(nodes, edges, message):
    with pytest.raises(ValueError, match=f"Mean requires a graph with 1 node set and 1 edge set but got {message}"):
        check_homogeneous_graph_tensor(make_graph(nodes, edges), "Mean")


def test_only_graphs_can_be_homogeneous():
    with pytest.raises(ValueError, match="Unsupported value type int"):
        get_homogeneous_node_and_edge_set_name(3)


def test_graphs_are_told_from_specs_and_others(graph):
    assert is_graph_tensor(graph)
    assert not is_graph_tensor(graph.spec)
    assert not is_graph_tensor(3)


def test_batches_are_not_scalar(graph):
    batch = tf.data.Dataset.from_tensors(graph).batch(1).get_single_element()

    assert check_scalar_graph_tensor(graph) is None
    for value in (batch, batch.spec):
        with pytest.raises(ValueError, match=r"^Mean requires a scalar GraphTensor.*`rank=1`"):
            check_scalar_graph_tensor(value, "Mean")
    with pytest.raises(ValueError, match=r"^This operation requires"):
        check_scalar_graph_tensor(batch)
