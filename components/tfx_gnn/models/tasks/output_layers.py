"""The layers that end a model, and what they must end it with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.graph_tensor import GraphTensor


class OutputLayers(tf.Module):
    """Applies Keras layers one after another, each a layer of its own of a functional model.

    One Keras layer around them would hide the readout, whose values are the embeddings. A
    subclassed model that has this as an attribute finds its variables.

    Args:
        *layers: the first one takes a scalar graph, each other one what the one before gave.
    """

    def __init__(self, *layers: Callable[..., Any]) -> None:
        super().__init__()
        self._layers = list(layers)

    def __call__(self, graph: GraphTensor) -> Any:
        """Applies the layers.

        Args:
            graph: scalar graph whose node sets have "hidden_state".

        Returns:
            The output of the last layer.
        """
        value: Any = graph
        for layer in self._layers:
            value = layer(value)
        return value


def check_tensor_output(output: Any, shape: Sequence[int | None], *, form: str, advice: str) -> None:
    """Checks one output of a model.

    Args:
        output: what the model returned.
        shape: what its static shape must be compatible with, and have all of the last axis.
        form: that shape in words.
        advice: what to do otherwise, a sentence.

    Raises:
        ValueError: if it is no float tensor of that shape.
    """
    expected = tf.TensorShape(shape)
    if not isinstance(output, tf.Tensor) and not tf_keras.backend.is_keras_tensor(output):
        got = str(type(output))
    elif not output.dtype.is_floating:
        got = f"dtype {output.dtype.name}"
    elif not (output.shape.rank == expected.rank and output.shape.is_compatible_with(expected)):
        got = f"shape {output.shape}"
    else:
        return
    raise ValueError(
        f"`model_fn` must return a model with one output of shape {form}, {expected.as_list()} for this batch; got "
        f"{got}. {advice}"
    )
