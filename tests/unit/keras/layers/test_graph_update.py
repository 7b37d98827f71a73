import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.keras.layers import (
    ContextUpdate,
    EdgeSetUpdate,
    GraphUpdate,
    NextStateFromConcat,
    NodeSetUpdate,
    Pool,
    ResidualNextState,
    SimpleConv,
)

TARGET, CONTEXT = tfx_gnn.TARGET, tfx_gnn.CONTEXT


def total(units=1):
    return tf_keras.layers.Dense(units, kernel_initializer="ones", use_bias=False)


class Shapes(tf_keras.layers.Layer):
    """Keeps the shapes of the inputs of an update."""

    def call(self, inputs):
        self.seen = tf.nest.map_structure(lambda value: value.shape.as_list(), inputs)
        return tf.nest.flatten(inputs)[0]


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({}, ([2, 2], {"ab": [2, 1]}, {})),
        ({"node_input_feature": None, "context_input_feature": "hidden_state"}, ({}, {"ab": [2, 1]}, [2, 1])),
        (
            {"node_input_feature": ["hidden_state"], "context_input_feature": ["hidden_state"]},
            ({"hidden_state": [2, 2]}, {"ab": [2, 1]}, {"hidden_state": [2, 1]}),
        ),
        ({"node_input_feature": [], "context_input_feature": []}, ({}, {"ab": [2, 1]}, {})),
    ],
)
def test_a_node_set_update_reads_nodes_edges_and_context(graph, options, seen):
    next_state = Shapes()

    NodeSetUpdate({"ab": Pool(TARGET, "sum")}, next_state, **options)(graph, node_set_name="b")

    assert next_state.seen == seen


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda: EdgeSetUpdate(tf.nn.relu), r"EdgeSetUpdate\(next_state=\.\.\.\)"),
        (lambda: NodeSetUpdate({}, tf.nn.relu), r"NodeSetUpdate\(next_state=\.\.\.\)"),
        (lambda: NodeSetUpdate({"ab": 1}, total()), r"NodeSetUpdate\(edge_set_inputs=\{ab: \.\.\.\}\)"),
        (lambda: ContextUpdate({"a": 1}, total()), r"ContextUpdate\(node_set_inputs=\{a: \.\.\.\}\)"),
        (lambda: ContextUpdate({}, total(), edge_set_inputs={"ab": 1}), r"edge_set_inputs=\{ab: \.\.\.\}\)"),
        (lambda: ContextUpdate({}, 1), r"ContextUpdate\(next_state=\.\.\.\)"),
        (lambda: GraphUpdate(edge_sets={"ab": 1}), r"GraphUpdate\(edge_sets=\{ab: \.\.\.\}\)"),
        (lambda: GraphUpdate(node_sets={"a": 1}), r"GraphUpdate\(node_sets=\{a: \.\.\.\}\)"),
        (lambda: GraphUpdate(context=1), r"GraphUpdate\(context=\.\.\.\)"),
    ],
)
def test_only_layers_are_taken(make, place):
    with pytest.raises(ValueError, match=place + " must be a tf_keras.layers.Layer, got type: "):
        make()


def test_weights_are_in_the_order_of_names(graph):
    def make(names):
        pools = {
            name: SimpleConv(total(len(name)), receiver_tag=tfx_gnn.SOURCE, sender_node_feature=None) for name in names
        }
        layer = NodeSetUpdate(pools, NextStateFromConcat(total()))
        layer(graph, node_set_name="a")
        return [tuple(weight.shape) for weight in layer.weights]

    assert make(["ab", "_readout/seed"]) == make(["_readout/seed", "ab"])


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({}, ([3, 1], {0: [3, 2], 1: [3, 2]}, {})),
        (
            {"edge_input_feature": None, "node_input_feature": None, "context_input_feature": "hidden_state"},
            ({}, {}, [3, 1]),
        ),
        (
            {"node_input_tags": [TARGET], "edge_input_feature": ["hidden_state"]},
            ({"hidden_state": [3, 1]}, {1: [3, 2]}, {}),
        ),
    ],
)
def test_an_edge_set_update_reads_edges_their_nodes_and_context(graph, options, seen):
    next_state = Shapes()

    EdgeSetUpdate(next_state, **options)(graph, edge_set_name="ab")

    assert next_state.seen == seen


def test_a_context_update_reads_context_nodes_and_edges(graph):
    next_state = Shapes()

    ContextUpdate({"a": Pool(CONTEXT, "mean")}, next_state, edge_set_inputs={"ab": Pool(CONTEXT, "sum")})(graph)

    assert next_state.seen == ([2, 1], {"a": [2, 2]}, {"ab": [2, 1]})


def test_context_values_reach_the_nodes_of_their_component(graph):
    update = NodeSetUpdate(
        {}, NextStateFromConcat(total()), node_input_feature=None, context_input_feature="hidden_state"
    )

    assert update(graph, node_set_name="a").numpy().tolist() == [[10.0], [10.0], [20.0]]


def test_edge_updates_take_one_node_feature():
    with pytest.raises(ValueError, match=r"does not support multiple node_input_features but got: \['x'\]"):
        EdgeSetUpdate(total(), node_input_feature=["x"])


def full_update(layers=tfx_gnn.keras.layers):
    return layers.GraphUpdate(
        edge_sets={"ab": layers.EdgeSetUpdate(layers.NextStateFromConcat(total()))},
        node_sets={"b": layers.NodeSetUpdate({"ab": layers.Pool(TARGET, "sum")}, layers.NextStateFromConcat(total()))},
        context=layers.ContextUpdate({"b": layers.Pool(CONTEXT, "sum")}, layers.NextStateFromConcat(total())),
    )


def test_edges_come_before_nodes_before_context(graph):
    updated = full_update()(graph)

    # Edges: own + source + target values; nodes: own + new edges; context: own + new nodes.
    assert updated.edge_sets["ab"]["hidden_state"].numpy().tolist() == [[5.0], [10.0], [19.0]]
    assert updated.node_sets["b"]["hidden_state"].numpy().tolist() == [[18.0], [26.0]]
    assert updated.context["hidden_state"].numpy().tolist() == [[28.0], [46.0]]
    assert updated.node_sets["a"]["x"] is graph.node_sets["a"]["x"]


def test_agrees_with_the_oracle(oracle, make_graph):
    ours, theirs = full_update()(make_graph()), full_update(oracle.keras.layers)(make_graph(oracle))

    np.testing.assert_array_equal(ours.context["hidden_state"], theirs.context["hidden_state"])
    np.testing.assert_array_equal(ours.edge_sets["ab"]["hidden_state"], theirs.edge_sets["ab"]["hidden_state"])


def test_dicts_of_features_are_merged(graph):
    class TwoStates(tf_keras.layers.Layer):
        def call(self, graph, node_set_name):
            return {"y": graph.node_sets[node_set_name]["hidden_state"], "hidden_state": tf.zeros([2, 1])}

    updated = GraphUpdate(node_sets={"b": TwoStates()})(graph)

    assert updated.node_sets["b"]["y"].shape == [2, 2]
    assert updated.node_sets["b"]["hidden_state"].shape == [2, 1]


def test_an_empty_update_changes_nothing(graph):
    assert GraphUpdate()(graph).spec == graph.spec


def test_updates_may_be_deferred_to_the_first_graph(graph):
    specs = []

    def updates(spec):
        specs.append(spec)
        return {"node_sets": {"b": NodeSetUpdate({"ab": SimpleConv(total())}, NextStateFromConcat(total()))}}

    layer = GraphUpdate(deferred_init_callback=updates)
    with pytest.raises(ValueError, match="must be called to trigger deferred initialization before it can be saved"):
        layer.get_config()

    first, second = layer(graph), layer(graph)

    assert len(specs) == 1
    assert "a" in specs[0].node_sets_spec
    np.testing.assert_array_equal(first.node_sets["b"]["hidden_state"], second.node_sets["b"]["hidden_state"])
    assert len(layer.weights) == 2


def test_deferred_updates_exclude_given_ones():
    with pytest.raises(ValueError, match="mutually exclusive with any of edge_sets"):
        GraphUpdate(deferred_init_callback=lambda _: {}, node_sets={})


def test_batches_and_unknown_sets_are_refused(graph, batch):
    with pytest.raises(ValueError, match="GraphUpdate requires a scalar GraphTensor"):
        GraphUpdate()(batch)
    with pytest.raises(KeyError, match="nope"):
        GraphUpdate(node_sets={"nope": NodeSetUpdate({}, total())})(graph)
    with pytest.raises(KeyError, match="nope"):
        NodeSetUpdate({"nope": SimpleConv(total())}, total())(graph, node_set_name="b")


def test_a_model_of_several_rounds_is_trained_and_made_again(graph, spec, again):
    inputs = tf_keras.Input(type_spec=spec)
    updated = full_update()(inputs)
    updated = GraphUpdate(
        deferred_init_callback=lambda _: {
            "node_sets": {
                "b": NodeSetUpdate(
                    {"ab": SimpleConv(tf_keras.layers.Dense(2))},
                    ResidualNextState(tf_keras.layers.Dense(1), activation="relu"),
                    context_input_feature="hidden_state",
                )
            }
        }
    )(updated)
    model = tf_keras.Model(inputs, Pool(CONTEXT, "sum", node_set_name="b")(updated))
    model.compile("sgd", "mse")

    losses = model.fit(tf.data.Dataset.from_tensors((graph, tf.zeros([2, 1]))).repeat(2), epochs=1, verbose=0).history[
        "loss"
    ]

    assert np.isfinite(losses).all()
    np.testing.assert_allclose(again(model)(graph), model(graph), rtol=1e-6)
