"""The first number of a step that is not finite: in what goes in, in the weights, or in what follows from both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.graph_tensor import GraphTensor


def first_nonfinite_weight(model: tf_keras.Model) -> str | None:
    """Names the first weight with a number that is not finite.

    Args:
        model: model with weights.

    Returns:
        Name of the variable, or None.
    """
    for variable in model.trainable_variables:
        if not _is_finite(tf.convert_to_tensor(variable)):
            return str(variable.name)
    return None


def first_nonfinite_tensor(
    model: tf_keras.Model, strategy: tf.distribute.Strategy, replica: tuple[GraphTensor, Any, Any]
) -> str:
    """Repeats a step up to its gradients, and names the first tensor that is not finite.

    Args:
        model: compiled model, with the weights before the step.
        strategy: what it was created under; all workers in step call this.
        replica: graph, labels and weights of the step on one replica.

    Returns:
        "feature nodes/item.x", "labels", "sample weights", "weight dense/kernel", "output", "loss" or "gradient of
        dense/kernel"; empty if all of them are finite.
    """
    graph, labels, weights = replica
    for name, value in _features(graph):
        if not _is_finite(value):
            return f"feature {name}"
    for name, values in (("labels", labels), ("sample weights", weights)):
        if not all(map(_is_finite, tf.nest.flatten(values))):
            return name
    weight = first_nonfinite_weight(model)
    if weight is not None:
        return f"weight {weight}"
    return _first_computed(model, strategy, replica)


def _first_computed(model: tf_keras.Model, strategy: tf.distribute.Strategy, replica: Any) -> str:
    names = ["output", "loss", *(f"gradient of {variable.name}" for variable in model.trainable_variables)]

    def step(graph: GraphTensor, labels: Any, weights: Any) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            outputs = model(graph, training=True)
            loss = model.compute_loss(graph, labels, outputs, weights)
        gradients = tape.gradient(loss, model.trainable_variables)
        stages = [tf.nest.flatten(outputs), [loss], *([] if g is None else [g] for g in gradients)]
        return [
            tf.reduce_all([tf.reduce_all(tf.math.is_finite(_dense(t))) for t in stage] or [True]) for stage in stages
        ]

    # Nothing here needs AutoGraph.
    finite = tf.function(lambda *args: strategy.run(step, args=args), autograph=False)(*replica)
    for name, is_finite in zip(names, finite, strict=True):
        if not bool(strategy.experimental_local_results(is_finite)[0]):
            return name
    return ""


def _features(graph: GraphTensor) -> Iterator[tuple[str, Any]]:
    pieces = {
        "context/": graph.context,
        **{f"nodes/{name}.": piece for name, piece in graph.node_sets.items()},
        **{f"edges/{name}.": piece for name, piece in graph.edge_sets.items()},
    }
    for start, piece in pieces.items():
        for name, value in piece.features.items():
            yield f"{start}{name}", value


def _is_finite(value: Any) -> bool:
    values = value.flat_values if isinstance(value, tf.RaggedTensor) else tf.convert_to_tensor(value)
    return not values.dtype.is_floating or bool(tf.reduce_all(tf.math.is_finite(values)))


def _dense(value: Any) -> Any:
    return value.values if isinstance(value, tf.IndexedSlices) else value
