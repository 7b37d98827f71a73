import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.keras.layers import AddSelfLoops, SimpleConv, SortEdges
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written


def relaxed(graph):
    return graph.spec.relax(num_components=True, num_nodes=True, num_edges=True)


def make_graph():
    return tfx_gnn.homogeneous([2, 0, 1], [1, 1, 0], node_features=[[1.0], [2.0], [4.0]])


def test_edges_are_sorted_and_the_model_is_made_again(again):
    graph = make_graph()
    inputs = tf_keras.Input(type_spec=relaxed(graph))
    adjacency = SortEdges()(inputs).edge_sets["edges"].adjacency
    model = tf_keras.Model(inputs, [adjacency.source, adjacency.target])

    assert adjacency.target_name == "nodes"
    assert [ends.numpy().tolist() for ends in model(graph)] == [[1, 2, 0], [0, 1, 1]]
    assert [ends.numpy().tolist() for ends in again(model)(graph)] == [[1, 2, 0], [0, 1, 1]]


def test_symbolic_sorted_edges_have_the_properties_and_methods_of_real_ones():
    graph = make_graph()
    ends = [tf_keras.Input([], dtype=tf.int32) for _ in range(2)]
    made = tfx_gnn.SortedAdjacency.from_indices(("nodes", ends[0]), ("nodes", ends[1]))
    model = tf_keras.Model(ends, [made.order_by_source, made.in_order_of(tfx_gnn.SOURCE), made.without_order().source])
    inputs = tf_keras.Input(type_spec=relaxed(tfx_gnn.sort_edges(graph)))

    order, (targets, sources), source = model([tf.constant([1, 2, 0]), tf.constant([0, 1, 1])])

    assert order.numpy().tolist() == [2, 0, 1]
    assert (targets.numpy().tolist(), sources.numpy().tolist()) == ([1, 0, 1], [0, 1, 2])
    assert source.numpy().tolist() == [1, 2, 0]
    assert inputs.edge_sets["edges"].adjacency.order_by_source.dtype == tf.int32


def test_edge_sets_can_be_chosen():
    layer = SortEdges(["edges"])

    assert SortEdges.from_config(layer.get_config())(make_graph()).spec == tfx_gnn.sort_edges(make_graph()).spec
    assert not isinstance(SortEdges([])(make_graph()).edge_sets["edges"].adjacency, tfx_gnn.SortedAdjacency)
    with pytest.raises(ValueError, match="must be a collection of names; got 'edges'"):
        SortEdges("edges")


def test_the_function_becomes_a_layer():
    graph = make_graph()
    inputs = tf_keras.Input(type_spec=relaxed(graph))
    sorted_graph = tfx_gnn.sort_edges(inputs)
    pooled = tfx_gnn.pool_neighbors_to_node(
        sorted_graph, "edges", tfx_gnn.TARGET, reduce_type="sum", feature_name="hidden_state"
    )

    assert tf_keras.Model(inputs, pooled)(graph).numpy().tolist() == [[2.0], [5.0], [0.0]]


class Regression(tf_keras.Model):
    """Its one weight multiplies what neighbours have, in either direction."""

    def __init__(self):
        super().__init__()
        self._weight = self.add_weight("weight", [], initializer="ones")

    def call(self, graph):
        x = graph.node_sets["nodes"]["hidden_state"] * self._weight
        edges = tfx_gnn.broadcast_node_to_edges(graph, "edges", tfx_gnn.SOURCE, feature_value=x)
        return tfx_gnn.pool_edges_to_node(
            graph, "edges", tfx_gnn.TARGET, feature_value=edges
        ) + tfx_gnn.pool_neighbors_to_node(
            graph, "edges", tfx_gnn.SOURCE, reduce_type="mean", feature_value=x * self._weight
        )


def train(dataset, **options):
    """Returns what is left of the weight after two steps."""
    model = Regression()
    model.compile("sgd", "mse", **options)
    with libraries_traced_as_written():
        model.fit(dataset, steps_per_epoch=2, verbose=0)
    return model.get_weights()


def examples(prepare):
    graphs = tf.data.Dataset.from_tensors((make_graph(), tf.constant([[1.0], [2.0], [3.0]]))).repeat()
    return graphs.map(lambda graph, labels: (prepare(graph), labels))


@pytest.fixture(scope="module", name="expected_weights")
def expected_weights_fixture():
    return train(examples(lambda graph: graph))


@pytest.mark.parametrize("jit_compile", [False, True], ids=["traced", "xla"])
def test_training_on_sorted_edges_is_the_same(expected_weights, jit_compile):
    weights = train(examples(SortEdges()), jit_compile=jit_compile)

    assert weights != [1.0]
    np.testing.assert_allclose(weights, expected_weights, rtol=1e-5)


def test_replicas_train_on_sorted_edges(expected_weights):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    dataset = strategy.distribute_datasets_from_function(lambda _: examples(SortEdges()))

    with strategy.scope():
        weights = train(dataset)

    np.testing.assert_allclose(weights, expected_weights, rtol=1e-5)


def test_a_model_for_sorted_edges_takes_others():
    graph = make_graph()
    inputs = tf_keras.Input(type_spec=relaxed(tfx_gnn.sort_edges(graph)))
    model = tf_keras.Model(inputs, SimpleConv(tf_keras.layers.Dense(2), "mean")(inputs, edge_set_name="edges"))

    np.testing.assert_allclose(model(graph), model(tfx_gnn.sort_edges(graph)), rtol=1e-6)


def test_loops_are_added_and_the_model_is_made_again(again):
    graph = tfx_gnn.homogeneous([0], [1], node_features=[[1.0], [2.0]])
    inputs = tf_keras.Input(type_spec=graph.spec.relax(num_nodes=True, num_edges=True))
    with_loops = AddSelfLoops("edges")(inputs)
    model = tf_keras.Model(inputs, with_loops.edge_sets["edges"].adjacency.source)

    np.testing.assert_array_equal(model(graph), [0, 0, 1])
    np.testing.assert_array_equal(again(model)(graph), [0, 0, 1])
