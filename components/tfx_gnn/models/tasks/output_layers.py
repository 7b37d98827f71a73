"""The output layers of a model, and checks of what it ends with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.tensor.graph_tensor import GraphTensor


class OutputLayers(tf.Module):
    """Applies a readout and what makes the output of it, each a layer of its own of a functional model.

    One Keras layer around both would hide the readout, whose values are the embeddings. A
    subclassed model that has this as an attribute finds its variables.

    Attributes:
        readout: from a scalar graph to embeddings.
        head: from embeddings to the output.
    """

    def __init__(self, readout: Callable[[GraphTensor], Any], head: Callable[[Any], tf.Tensor]) -> None:
        super().__init__()
        self.readout = readout
        self.head = head

    def __call__(self, graph: GraphTensor) -> tf.Tensor:
        """Applies the layers."""
        return self.head(self.readout(graph))


class MultiOutputLayers(tf.Module):
    """Applies the layers of several tasks, by name, to one graph; each readout once."""

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
    """Checks that an output of a model is a float tensor of a static shape, for which errors have words, `form`."""
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
    """Writes a shape whose first dimension is the number of predictions, with words for what is not static.

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
