from __future__ import annotations

import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import NodeSet
from tfx_gnn.training.checkpoints.nonfinite_guard import first_nonfinite_tensor, first_nonfinite_weight

NAN, INF = float("nan"), float("inf")


class _Model(tf_keras.Model):
    """One weight per item, times x, through a function."""

    def __init__(self, function=tf.identity):
        super().__init__()
        self.weight = self.add_weight(name="scale", shape=[], initializer="ones")
        self.function = function
        self.compile("sgd", "mse")

    def call(self, graph):
        return self.function(self.weight * graph.node_sets["item"]["x"])[:, None]


def _first(model, *, x=(1.0, 4.0), words=(0.5,), labels=(0.0, 0.0), weights=(1.0, 1.0)):
    words = tf.RaggedTensor.from_row_lengths(words, [len(words), 0])
    items = NodeSet.from_fields(sizes=[2], features={"x": tf.constant(x), "count": tf.constant([1, 2]), "words": words})
    graph = GraphTensor.from_pieces(node_sets={"item": items})
    replica = (graph, tf.constant(labels)[:, None], tf.constant(weights))
    return first_nonfinite_tensor(model, tf.distribute.get_strategy(), replica)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, ""),
        ({"x": (1.0, NAN)}, "feature nodes/item.x"),
        ({"x": (1.0, -INF), "labels": (NAN, 0.0)}, "feature nodes/item.x"),
        ({"words": (NAN,)}, "feature nodes/item.words"),
        ({"labels": (0.0, INF)}, "labels"),
        ({"weights": (0.0, NAN)}, "sample weights"),
        ({"x": (1.0, 3e38), "labels": (0.0, -3e38)}, "loss"),
    ],
    ids=["all finite", "feature", "the first of two", "ragged feature", "label", "sample weight", "loss"],
)
def test_first_tensor_is_named(data, expected):
    assert _first(_Model(), **data) == expected


def test_weights_outputs_and_gradients_are_told_apart():
    spoilt = _Model()
    spoilt.weight.assign(INF)

    assert _first(spoilt).startswith("weight scale")
    assert _first(_Model(lambda x: tf.math.log(x - 2.0))) == "output"
    # The square root of 0 is finite, its slope is not.
    assert _first(_Model(lambda x: tf.sqrt(x - 1.0)), labels=(1.0, 1.0)).startswith("gradient of scale")


def test_weight_that_is_not_finite_is_found():
    model = _Model()

    assert first_nonfinite_weight(model) is None
    model.weight.assign(NAN)
    assert str(first_nonfinite_weight(model)).startswith("scale")
