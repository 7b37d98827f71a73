"""The base class of layers on graphs, which tells objects of Keras 3 from those of tf_keras."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

_REMEDY = (
    "Graphs are composite tensors, which Keras 3 cannot hold. Set the environment variable TF_USE_LEGACY_KERAS=1 "
    "before TensorFlow is imported, so that `tf.keras` is tf_keras; or use `import tf_keras` in place of `tf.keras`."
)


class GraphLayer(tf_keras.layers.Layer):
    """Base class of layers on graphs. It refuses layers and tensors of Keras 3.

    In TensorFlow 2.16 and newer, `tf.keras` is Keras 3 unless TF_USE_LEGACY_KERAS=1 is set. A layer of Keras 3 inside
    of one of tf_keras would be called, but never trained; so would this layer inside of a model of Keras 3.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer.

        Args:
            *args: arguments of `call`.
            **kwargs: keyword arguments of `call`.

        Raises:
            TypeError: if an argument is of Keras 3, or a layer with weights is called inside of a model of Keras 3.
        """
        _check_arguments(self, args, kwargs)
        outputs = super(GraphLayer, self).__call__(*args, **kwargs)  # noqa: UP008, AutoGraph needs the arguments
        _check_is_tracked(self)
        return outputs

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute; refuses layers of Keras 3, whose weights would not be found.

        Args:
            name: name of the attribute.
            value: its value.
        """
        check_no_keras3_layer(type(self).__name__, value)
        super().__setattr__(name, value)


def check_no_keras3_layer(name: str, value: Any) -> None:
    """Refuses a layer of Keras 3, also inside of lists, tuples and mappings; `name` is the layer it was given to."""
    if (keras3_layer := _keras3_layer_class()) is None:
        return
    if isinstance(value, keras3_layer):
        raise TypeError(
            f"`{name}` must hold layers of tf_keras; got {type(value).__module__}.{type(value).__name__} of Keras 3. "
            f"{_REMEDY}"
        )
    if isinstance(value, (Mapping, list, tuple)):
        for one in value.values() if isinstance(value, Mapping) else value:
            check_no_keras3_layer(name, one)


@contextlib.contextmanager
def keras3_layers_refused(name: str) -> Iterator[None]:
    """Refuses calls of layers of Keras 3 inside of the block; `name` is the layer whose callback runs in it.

    Layers of Keras 3 compute with the tensors of tf_keras, but their weights become constants.
    """
    if _keras3_layer_class() is None:
        yield
        return
    state = sys.modules["keras.src.backend.common.global_state"]
    before = state.get_global_attribute("current_call_ctx")
    state.set_global_attribute("current_call_ctx", _RefusingContext(name))
    try:
        yield
    finally:
        state.set_global_attribute("current_call_ctx", before)


class _RefusingContext:
    """Takes the place of what Keras 3 notes of the outermost layer being called, which each layer looks at."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, _attribute: str) -> Any:
        raise TypeError(f"`{self._name}` must compute with layers of tf_keras; got a layer of Keras 3. {_REMEDY}")


@tf.autograph.experimental.do_not_convert
def _check_arguments(layer: GraphLayer, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    if _keras3_layer_class() is None:
        return
    symbolic = sys.modules["keras"].KerasTensor
    for one in (*args, *kwargs.values()):
        if isinstance(one, symbolic):
            raise TypeError(
                f"`{type(layer).__name__}` must be called with graphs and tensors of TensorFlow or tf_keras; got a "
                f"KerasTensor of Keras 3. {_REMEDY}"
            )


@tf.autograph.experimental.do_not_convert
def _check_is_tracked(layer: GraphLayer) -> None:
    if _keras3_layer_class() is None:
        return
    # Keras 3 notes the outermost layer that is being called.
    state = sys.modules["keras.src.backend.common.global_state"]
    context = state.get_global_attribute("current_call_ctx")
    # Collecting the weights takes long, and is rarely needed.
    if context is not None and layer.weights:
        raise TypeError(
            f"`{type(layer).__name__}` must be part of a model of tf_keras; got a call by "
            f"{type(context.entry_layer).__name__} of Keras 3, which would not train it. {_REMEDY}"
        )


def _keras3_layer_class() -> type[Any] | None:
    """Returns the class of Keras 3's layers if Keras 3 has been imported."""
    keras = sys.modules.get("keras")
    found: type[Any] | None = getattr(keras, "Layer", None)
    # Keras 2 lies under this name, too, but has no class `Layer` at its top.
    return found
