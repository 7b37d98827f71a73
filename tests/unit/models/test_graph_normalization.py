from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.batching.padding import pad_to_total_sizes
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import NodeSet
from tfx_gnn.models.graph_normalization import GraphNormalization

VALUES = [[1.0, 2.0], [3.0, 2.0], [10.0, -4.0]]


@pytest.fixture
def graph():
    """Nodes 0 and 1 are one component, node 2 another; the third component is empty."""
    return GraphTensor.from_pieces(
        node_sets={"n": NodeSet.from_fields(sizes=[2, 1, 0], features={"hidden_state": tf.constant(VALUES)})}
    )


def _normalized(layer, graph, values=None):
    values = graph.node_sets["n"]["hidden_state"] if values is None else values
    return layer(values, graph=graph, node_set_name="n")


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_each_component_gets_mean_zero_and_variance_one(graph, wrap):
    layer = GraphNormalization(epsilon=0.0625)

    result = wrap(lambda graph: _normalized(layer, graph))(graph)

    # Of 1 and 3 the mean is 2 and the variance 1, so that 1 becomes -1 / sqrt(1.0625).
    expected = [[-0.9701425, 0.0], [0.9701425, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_a_share_of_the_mean_scale_and_offset_are_learned(graph):
    layer = GraphNormalization(epsilon=0.0)
    _normalized(layer, graph)
    layer.set_weights([np.array([0.0, 0.5]), np.array([1.0, 2.0]), np.array([0.0, 10.0])])

    # Values 1 and 3 keep their mean: their mean square is 5, and that of 10 is 100. Half of the mean of 2
    # and 2 leaves 1 and 1, half of -4 leaves -2.
    expected = [[1 / 5**0.5, 12.0], [3 / 5**0.5, 12.0], [1.0, 8.0]]
    np.testing.assert_allclose(_normalized(layer, graph), expected, rtol=1e-6)


def test_padding_changes_nothing(graph):
    layer = GraphNormalization()
    expected = _normalized(layer, graph)
    padded, _ = pad_to_total_sizes(graph, SizeConstraints(6, {"n": 8}, {}))

    np.testing.assert_allclose(_normalized(layer, padded)[:3], expected, rtol=1e-6)


def test_equal_states_have_finite_gradients():
    graph = GraphTensor.from_pieces(node_sets={"n": NodeSet.from_fields(sizes=[2, 0], features={})})
    values = tf.Variable([[3.0], [3.0]])
    layer = GraphNormalization()

    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(_normalized(layer, graph, values) ** 2)

    assert np.isfinite(tape.gradient(loss, values)).all()


def test_statistics_of_half_precision_are_exact():
    size = 1000
    graph = GraphTensor.from_pieces(node_sets={"n": NodeSet.from_fields(sizes=[size], features={})})
    values = tf.cast(tf.repeat([[0.0], [2.0]], size // 2, axis=0), tf.bfloat16)

    result = _normalized(GraphNormalization(dtype="mixed_bfloat16"), graph, values)

    # In bfloat16, a sum of 500 twos would stop at 512.
    assert result.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(result[0], tf.float32), [-1.0], rtol=0.01)
    np.testing.assert_allclose(tf.cast(result[-1], tf.float32), [1.0], rtol=0.01)


def test_layer_is_made_again_from_its_config(graph):
    layer = GraphNormalization(epsilon=0.5)
    again = tf_keras.layers.deserialize(tf_keras.layers.serialize(layer))

    np.testing.assert_array_equal(_normalized(again, graph), _normalized(layer, graph))
