"""The output layers of a model, and checks of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.tensor.graph_tensor import GraphTensor


class OutputLayers(tf.Module):
    """Applies a readout and then a head, as separate layers of a functional model.

    A single Keras layer around both would hide the readout, whose values are the embeddings. A
    subclassed model tracks the variables if it has this module as an attribute.

    Attributes:
        readout: maps a scalar graph to embeddings.
        head: maps embeddings to the output.
    """

    def __init__(self, readout: Callable[[GraphTensor], Any], head: Callable[[Any], tf.Tensor]) -> None:
        super().__init__()
        self.readout = readout
        self.head = head

    def __call__(self, graph: GraphTensor) -> tf.Tensor:
        """Applies the layers."""
        return self.head(self.readout(graph))


class MultiOutputLayers(tf.Module):
    """Applies the layers of several tasks to one graph, running each readout once; outputs are by task name."""

    def __init__(self, layers: Mapping[str, OutputLayers]) -> None:
        super().__init__()
        self._task_layers = dict(layers)

    def __call__(self, graph: GraphTensor) -> dict[str, tf.Tensor]:
        """Applies the layers."""
        embeddings: dict[int, Any] = {}
        outputs = {}
        for name, layers in self._task_layers.items():
            key = id(layers.readout)
            if key not in embeddings:
                embeddings[key] = layers.readout(graph)
            outputs[name] = layers.head(embeddings[key])
        return outputs


def check_tensor_output(output: Any, shape: Sequence[int | None], *, form: str, advice: str) -> None:
    """Checks that a model output is a float tensor of a static shape, which errors describe by `form`."""
    expected = tf.TensorShape(shape)
    if not isinstance(output, tf.Tensor):
        got = str(type(output))
    elif not output.dtype.is_floating:
        got = f"dtype {output.dtype.name}"
    elif not (output.shape.rank == expected.rank and output.shape.is_compatible_with(expected)):
        got = f"shape {shape_in_words(output.shape)}"
    else:
        return
    raise ValueError(
        f"`model_fn` must return a model with one output of shape {form}, {shape_in_words(expected)} for this batch; "
        f"got {got}. {advice}"
    )


def shape_in_words(shape: tf.TensorShape) -> str:
    """Formats a shape whose first dimension is the number of predictions, with words for sizes that are not static.

    Example:
        >>> shape_in_words(tf.TensorShape([None, 2])), shape_in_words(tf.TensorShape([8, None]))
        ('[rows, 2]', '[8, any]')
    """
    if shape.rank is None:
        return "[any]"
    sizes = ["any" if size is None else str(size) for size in shape]
    if sizes and shape[0] is None:
        sizes[0] = "rows"
    return f"[{', '.join(sizes)}]"
