"""The output layers of a model, and checks of what it ends with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.models.tasks.objective import shape_in_words


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
        """Applies the layers.

        Args:
            graph: scalar graph whose node sets have "hidden_state".

        Returns:
            The output.
        """
        return self.head(self.readout(graph))


class MultiOutputLayers(tf.Module):
    """Applies the layers of several tasks to one graph; each readout once.

    Args:
        layers: by name of the task.
    """

    def __init__(self, layers: Mapping[str, OutputLayers]) -> None:
        super().__init__()
        self._task_layers = dict(layers)

    def __call__(self, graph: GraphTensor) -> dict[str, tf.Tensor]:
        """Applies the layers.

        Args:
            graph: scalar graph whose node sets have "hidden_state".

        Returns:
            The outputs by name of the task.
        """
        embeddings: dict[int, Any] = {}
        outputs = {}
        for name, layers in self._task_layers.items():
            key = id(layers.readout)
            if key not in embeddings:
                embeddings[key] = layers.readout(graph)
            outputs[name] = layers.head(embeddings[key])
        return outputs


def check_tensor_output(output: Any, shape: Sequence[int | None], *, form: str, advice: str) -> None:
    """Checks one output of a model.

    Args:
        output: what the model returned.
        shape: what its static shape must be compatible with.
        form: that shape in words.
        advice: what to do otherwise, a sentence.

    Raises:
        ValueError: if it is no float tensor of that shape.
    """
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
