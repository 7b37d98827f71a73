import sys

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.graph.tensor import symbolic_calls
from tfx_gnn.keras.keras_tensors import GraphOperation

SOURCE, TARGET, CONTEXT = tfx_gnn.SOURCE, tfx_gnn.TARGET, tfx_gnn.CONTEXT
CONSTRAINTS = tfx_gnn.SizeConstraints(9, {"a": 9, "b": 9, "_readout": 9}, {"ab": 9, "_readout/seed": 9})

CALLS = {
    "broadcast_node_to_edges": lambda g: tfx_gnn.broadcast_node_to_edges(g, "ab", SOURCE, feature_name="x"),
    "broadcast": lambda g: tfx_gnn.broadcast(
        g, CONTEXT, node_set_name=["a", "b"], feature_value=g.context["hidden_state"]
    ),
    "broadcast_context_to_nodes": lambda g: tfx_gnn.broadcast_context_to_nodes(g, "a", feature_name="hidden_state"),
    "pool": lambda g: tfx_gnn.pool(g, TARGET, edge_set_name="ab", reduce_type="mean|sum", feature_name="hidden_state"),
    "pool_edges_to_node": lambda g: tfx_gnn.pool_edges_to_node(g, "ab", TARGET, feature_name="hidden_state"),
    "pool_nodes_to_context": lambda g: tfx_gnn.pool_nodes_to_context(g, "a", "max", feature_name="x"),
    "pool_neighbors_to_node": lambda g: tfx_gnn.pool_neighbors_to_node(
        g, "ab", TARGET, reduce_type="sum", feature_name="x"
    ),
    "softmax": lambda g: tfx_gnn.softmax(g, TARGET, edge_set_name="ab", feature_name="hidden_state"),
    "node_degree": lambda g: tfx_gnn.node_degree(g, "ab", TARGET),
    "structured_readout": lambda g: tfx_gnn.structured_readout(g, "seed", feature_name="x"),
    "gather_first_node": lambda g: tfx_gnn.gather_first_node(g, "a", feature_name="x"),
    "add_readout_from_first_node": lambda g: tfx_gnn.structured_readout(
        tfx_gnn.add_readout_from_first_node(g, "root", node_set_name="a"), "root", feature_name="x"
    ),
    "validate_graph_tensor_for_readout": lambda g: tfx_gnn.validate_graph_tensor_for_readout(g, ["seed"]).node_sets[
        "a"
    ]["x"],
    "satisfies_size_constraints": lambda g: tfx_gnn.satisfies_size_constraints(g, CONSTRAINTS),
    "combine_values": lambda g: tfx_gnn.combine_values(
        [g.node_sets["a"]["x"], g.node_sets["a"]["hidden_state"]], "concat"
    ),
    "mask_edges": lambda g: (
        tfx_gnn.mask_edges(g, "ab", g.edge_sets["ab"]["hidden_state"][:, 0] > 1.5).edge_sets["ab"].sizes
    ),
    "reorder_nodes": lambda g: tfx_gnn.reorder_nodes(g, {"a": tf.constant([2, 1, 0])}).node_sets["a"]["x"],
    "homogeneous": lambda g: tfx_gnn.homogeneous(
        g.edge_sets["ab"].adjacency.source,
        g.edge_sets["ab"].adjacency.target,
        node_features={"x": g.node_sets["a"]["x"]},
    ).node_sets["nodes"]["x"],
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_become_layers(graph, spec, name):
    inputs = tf_keras.Input(type_spec=spec)
    model = tf_keras.Model(inputs, CALLS[name](inputs))

    for ours, expected in zip(tf.nest.flatten(model(graph)), tf.nest.flatten(CALLS[name](graph)), strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize(
    "name",
    [
        "broadcast",
        "pool",
        "structured_readout",
        "satisfies_size_constraints",
        "combine_values",
        "homogeneous",
        "reorder_nodes",
    ],
)
def test_models_with_such_layers_are_made_again(graph, spec, again, name):
    inputs = tf_keras.Input(type_spec=spec)
    model = tf_keras.Model(inputs, CALLS[name](inputs))

    for ours, expected in zip(tf.nest.flatten(again(model)(graph)), tf.nest.flatten(model(graph)), strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_layers_are_named_after_their_function(spec):
    tf_keras.backend.clear_session()
    inputs = tf_keras.Input(type_spec=spec)

    model = tf_keras.Model(inputs, [CALLS["pool"](inputs), CALLS["pool"](inputs)])

    names = [layer.name for layer in model.layers if isinstance(layer, GraphOperation)]
    assert names == ["pool", "pool_1"]


def test_names_that_are_taken_are_avoided(spec):
    tf_keras.backend.clear_session()
    inputs = tf_keras.Input(type_spec=spec)

    model = tf_keras.Model(inputs, tf_keras.layers.Dense(1, name="pool")(CALLS["pool"](inputs)))

    assert [layer.name for layer in model.layers[1:]] == ["pool_1", "pool"]


def test_features_keep_their_precision(graph):
    precise = graph.replace_features(node_sets={"a": {"x": tf.constant([[0.1], [0.2], [0.3]], tf.float64)}})
    inputs = tf_keras.Input(type_spec=precise.spec)

    gathered = tfx_gnn.gather_first_node(inputs, "a", feature_name="x")

    assert gathered.dtype == tf.float64


@pytest.mark.parametrize(
    "call",
    [
        lambda g: tfx_gnn.pad_to_total_sizes(g, CONSTRAINTS),
        lambda g: tfx_gnn.assert_satisfies_total_sizes(g, CONSTRAINTS),
        lambda g: tfx_gnn.add_self_loops(g, "ab"),
        tfx_gnn.iter_sets,
        tfx_gnn.iter_features,
        tfx_gnn.assert_constraints,
        tfx_gnn.graph_tensor_to_values,
        tfx_gnn.write_example,
        tfx_gnn.create_schema_pb_from_graph_spec,
        lambda g: tfx_gnn.check_compatible_with_schema_pb(g, tfx_gnn.GraphSchema()),
    ],
)
def test_functions_that_cannot_become_layers_say_so(spec, call):
    with pytest.raises(ValueError, match=r"using the Keras Functional API is not supported"):
        call(tf_keras.Input(type_spec=spec))


def test_arguments_that_no_config_can_hold_are_named(spec):
    inputs = tf_keras.Input(type_spec=spec)
    variable = tf.Variable([[1.0], [2.0], [3.0]])
    model = tf_keras.Model(inputs, tfx_gnn.combine_values([inputs.node_sets["a"]["x"], variable], "concat"))

    with pytest.raises(ValueError, match=r"requires plain arguments of combine_values\(\); got a ResourceVariable"):
        model.get_config()


def test_arrays_count_as_tensors(graph, spec, again):
    inputs = tf_keras.Input(type_spec=spec)
    model = tf_keras.Model(inputs, tfx_gnn.mask_edges(inputs, "ab", np.array([True, False, True])))

    assert again(model)(graph).edge_sets["ab"].sizes.numpy().sum() == 2


def test_functions_are_found_before_anybody_imported_them(monkeypatch):
    monkeypatch.delitem(symbolic_calls._functions, "segment_random_index_shuffle")
    monkeypatch.delitem(sys.modules, "tfx_gnn.graph.ops.node_order")

    function = symbolic_calls.registered_function("segment_random_index_shuffle")

    assert sorted(function(segment_ids=tf.constant([0, 0])).numpy()) == [0, 1]


def test_only_registered_functions_are_called():
    with pytest.raises(
        KeyError, match="`function_name` must name a function of tfx_gnn that can be a layer; got 'nope'"
    ):
        symbolic_calls.registered_function("nope")
