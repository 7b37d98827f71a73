import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.keras.layers import AnyToAnyConvolutionBase, SimpleConv

SOURCE, TARGET, CONTEXT = tfx_gnn.SOURCE, tfx_gnn.TARGET, tfx_gnn.CONTEXT


def total(units=1):
    """A layer that adds up its inputs."""
    return tf_keras.layers.Dense(units, kernel_initializer="ones", use_bias=False)


@tf_keras.utils.register_keras_serializable(package="test")
class Recorder(AnyToAnyConvolutionBase):
    """Keeps what `convolve` gets; the messages are all inputs joined."""

    def convolve(self, *, pool_to_receiver, **inputs):
        self.seen = {name: value.shape.as_list() for name, value in inputs.items() if isinstance(value, tf.Tensor)}
        messages = []
        if inputs["sender_node_input"] is not None:
            messages.append(inputs["broadcast_from_sender_node"](inputs["sender_node_input"]))
        if inputs["sender_edge_input"] is not None:
            messages.append(inputs["sender_edge_input"])
        if inputs["receiver_input"] is not None:
            messages.append(inputs["broadcast_from_receiver"](feature_value=inputs["receiver_input"]))
        return pool_to_receiver(tf.concat(messages, axis=-1), reduce_type="sum")


@pytest.mark.parametrize(
    ("at_init", "at_call", "seen", "expected"),
    [
        (
            {"receiver_tag": TARGET},
            {"edge_set_name": "ab"},
            {"sender_node_input": [3, 2], "receiver_input": [2, 2]},
            [[2.0, 4.0, 2.0, 4.0], [4.0, 5.0, 3.0, 4.0]],
        ),
        (
            {"receiver_tag": SOURCE, "receiver_feature": None},
            {"edge_set_name": "ab"},
            {"sender_node_input": [2, 2]},
            [[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]],
        ),
        (
            {"sender_edge_feature": "hidden_state"},
            {"edge_set_name": "ab", "receiver_tag": TARGET},
            {"sender_node_input": [3, 2], "sender_edge_input": [3, 1], "receiver_input": [2, 2]},
            [[2.0, 4.0, 3.0, 2.0, 4.0], [4.0, 5.0, 3.0, 3.0, 4.0]],
        ),
        (
            {"receiver_tag": CONTEXT},
            {"node_set_name": "a"},
            {"sender_node_input": [3, 2], "receiver_input": [2, 1]},
            [[2.0, 4.0, 20.0], [4.0, 5.0, 20.0]],
        ),
        (
            {"receiver_tag": CONTEXT, "sender_node_feature": None, "sender_edge_feature": "hidden_state"},
            {"edge_set_name": "ab"},
            {"sender_edge_input": [3, 1], "receiver_input": [2, 1]},
            [[3.0, 20.0], [3.0, 20.0]],
        ),
        (
            {"receiver_tag": TARGET, "sender_node_feature": None, "sender_edge_feature": "hidden_state"},
            {"edge_set_name": "ab"},
            {"sender_edge_input": [3, 1], "receiver_input": [2, 2]},
            [[3.0, 2.0, 4.0], [3.0, 3.0, 4.0]],
        ),
    ],
    ids=["forward", "backward", "with edges", "nodes to context", "edges to context", "edges to nodes"],
)
def test_inputs_are_taken_and_messages_pooled(graph, at_init, at_call, seen, expected):
    layer = Recorder(**at_init)

    assert layer(graph, **at_call).numpy().tolist() == expected
    assert layer.seen == seen


def test_properties_tell_which_inputs_there_are():
    layer = Recorder(receiver_feature=None, sender_edge_feature="w")

    assert (layer.takes_receiver_input, layer.takes_sender_node_input, layer.takes_sender_edge_input) == (
        False,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("tag", "sets", "expected"),
    [(TARGET, {"edge_set_name": "ab"}, [[1.0], [1.0]]), (CONTEXT, {"node_set_name": "a"}, [[1.0], [1.0]])],
)
def test_extra_operations_are_bound_to_the_graph(graph, tag, sets, expected):
    class Normalized(AnyToAnyConvolutionBase):
        def __init__(self, **kwargs):
            super().__init__(extra_receiver_ops={"softmax": tfx_gnn.softmax}, **kwargs)

        def convolve(self, *, sender_node_input, broadcast_from_sender_node, pool_to_receiver, extra_receiver_ops, **_):
            values = broadcast_from_sender_node(sender_node_input)
            return pool_to_receiver(extra_receiver_ops["softmax"](values), reduce_type="sum")

    layer = Normalized(receiver_tag=tag, sender_node_feature="x")

    np.testing.assert_allclose(layer(graph, **sets), expected, rtol=1e-6)
    assert "extra_receiver_ops" not in layer.get_config()


@pytest.mark.parametrize(
    ("at_init", "at_call", "message"),
    [
        ({}, {"edge_set_name": "ab"}, "Recorder requires receiver_tag to be set at init or call time"),
        (
            {"receiver_tag": TARGET},
            {"edge_set_name": "ab", "receiver_tag": SOURCE},
            r"receiver_tag=1\) was called with contradictory value receiver_tag=0",
        ),
        ({"receiver_tag": TARGET}, {"node_set_name": "a"}, "Must pass edge_set_name, not node_set_name"),
        ({"receiver_tag": TARGET}, {}, "Must pass edge_set_name, not node_set_name"),
        (
            {"receiver_tag": CONTEXT},
            {},
            "Must pass exactly one of edge_set_name, node_set_name for receiver_tag CONTEXT",
        ),
        ({"receiver_tag": CONTEXT}, {"edge_set_name": "ab", "node_set_name": "a"}, "Must pass exactly one of"),
        ({"receiver_tag": 2}, {"edge_set_name": "ab"}, "Expected tag .* got: 2"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(graph, at_init, at_call, message):
    with pytest.raises(ValueError, match=message):
        Recorder(**at_init)(graph, **at_call)


def test_batches_and_unknown_features_are_refused(graph, batch):
    with pytest.raises(ValueError, match="Recorder requires a scalar GraphTensor"):
        Recorder(receiver_tag=TARGET)(batch, edge_set_name="ab")
    with pytest.raises(KeyError, match="nope"):
        Recorder(receiver_tag=TARGET, sender_node_feature="nope")(graph, edge_set_name="ab")


def test_convolve_must_be_implemented():
    with pytest.raises(TypeError, match="abstract"):
        AnyToAnyConvolutionBase()


def test_simple_conv_transforms_joined_inputs(graph):
    # Edges a0-b0: 0+1+1+2, a1-b0: 2+3+1+2, a2-b1: 4+5+3+4.
    assert SimpleConv(total())(graph, edge_set_name="ab").numpy().tolist() == [[12.0], [16.0]]
    assert SimpleConv(total(), "mean")(graph, edge_set_name="ab").numpy().tolist() == [[6.0], [16.0]]
    assert SimpleConv(total(), combine_type="sum")(graph, edge_set_name="ab").numpy().tolist() == [[12.0], [16.0]]
    assert SimpleConv(total(), receiver_feature=None)(graph, edge_set_name="ab").numpy().tolist() == [[6.0], [9.0]]


def test_simple_conv_agrees_with_the_oracle(oracle, make_graph):
    def results(library):
        conv = library.keras.layers.SimpleConv
        graph = make_graph(library)
        tags = library.SOURCE, library.TARGET, library.CONTEXT
        return [
            conv(total(2), "max|sum", receiver_tag=tags[0])(graph, edge_set_name="ab"),
            conv(total(2), sender_edge_feature="hidden_state", receiver_tag=tags[1])(graph, edge_set_name="ab"),
            conv(total(2), "mean", receiver_tag=tags[2])(graph, node_set_name="a"),
        ]

    for ours, theirs in zip(results(tfx_gnn), results(oracle), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"sender_node_feature": None, "receiver_feature": None},
            tf.errors.InvalidArgumentError,
            "got no inputs",
        ),
        ({"combine_type": "max"}, ValueError, "Unknown combine type max"),
        ({"reduce_type": "median"}, KeyError, "median"),
    ],
)
def test_simple_conv_refuses_what_it_cannot_combine(graph, options, error, message):
    with pytest.raises(error, match=message):
        SimpleConv(total(), **options)(graph, edge_set_name="ab")


def test_simple_conv_is_made_again(graph, spec, again):
    inputs = tf_keras.Input(type_spec=spec)
    layer = SimpleConv(tf_keras.layers.Dense(3), "mean|sum", sender_edge_feature="hidden_state", receiver_tag=TARGET)
    model = tf_keras.Model(inputs, layer(inputs, edge_set_name="ab"))

    np.testing.assert_array_equal(again(model)(graph), model(graph))
