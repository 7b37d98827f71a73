"""What a graph without values is made of."""

import pytest
import tensorflow as tf

from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.graph.tensor.run_time_checks import assert_constraints


def make_chain(num_nodes):
    size = tf.cast(num_nodes, tf.int32)[tf.newaxis]
    nodes = NodeSet.from_fields(sizes=size, features={"x": tf.range(num_nodes)})
    edges = EdgeSet.from_fields(
        sizes=size - 1,
        adjacency=Adjacency.from_indices(("a", tf.range(num_nodes - 1)), ("a", tf.range(1, num_nodes)), validate=False),
        validate=False,
    )
    return GraphTensor.from_pieces(node_sets={"a": nodes}, edge_sets={"e": edges}, validate=False)


@pytest.mark.parametrize("drop_remainder", [False, True])
def test_a_strategy_gets_empty_graphs_of_the_type_of_the_others(drop_remainder):
    spec = tf.data.Dataset.range(2, 4).map(make_chain).batch(2, drop_remainder=drop_remainder).element_spec

    empty = spec._create_empty_value()

    assert spec.is_compatible_with(empty)
    merged = empty.merge_batch_to_components()
    assert_constraints(merged)
    assert merged.node_sets["a"].sizes.numpy().tolist() == ([0, 0] if drop_remainder else [])
    assert merged.context.sizes.numpy().tolist() == ([1, 1] if drop_remainder else [])
    assert merged.node_sets["a"]["x"].shape == [0]


def test_an_empty_graph_has_no_made_up_features():
    graph = GraphTensor.from_pieces(Context.from_fields(features={"label": tf.constant([1])}))

    with pytest.raises(ValueError, match="must allow a field without values"):
        graph.spec._create_empty_value()


def test_functions_take_graphs_apart_in_the_order_of_nest():
    # No name is in alphabetical order.
    nodes = {
        name: NodeSet.from_fields(
            sizes=tf.constant([2]),
            features={"z": tf.constant([place, 1]), "w": tf.ragged.constant([[place], [2, 3]]), "a": tf.zeros([2, 4])},
        )
        for place, name in enumerate(["q", "b"])
    }
    edges = EdgeSet.from_fields(
        sizes=tf.constant([1]), adjacency=Adjacency.from_indices(("q", tf.constant([0])), ("b", tf.constant([1])))
    )
    graph = GraphTensor.from_pieces(node_sets=nodes, edge_sets={"e": edges})
    expected = tf.nest.flatten(graph, expand_composites=True)

    tensors = graph.spec.to_tensors(graph)
    again = graph.spec.from_tensors(iter(tensors))

    assert [id(tensor) for tensor in tensors] == [id(tensor) for tensor in expected]
    assert [id(tensor) for tensor in tf.nest.flatten(again, expand_composites=True)] == [id(one) for one in expected]
    assert list(again.node_sets) == ["q", "b"]
    assert list(again.node_sets["q"].features) == ["z", "w", "a"]
    assert again.spec == graph.spec
