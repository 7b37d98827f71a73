"""Arguments of layers: initializers, layers within layers, and values given at init or call time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import tf_keras

from tfx_gnn.keras.graph_layer import check_no_keras3_layer


def clone_initializer(initializer: Any) -> Any:
    """Copies an initializer, so that each weight gets its own random values.

    An `Initializer` object fixes its seed when it is created, so two weights that share the object
    have the same initial values.

    Args:
        initializer: anything that Keras takes as an initializer: an object, a name, a config or None.

    Returns:
        For an `Initializer`, a new object with the same config; anything else unchanged.

    Example:
        >>> one = tf_keras.initializers.GlorotUniform()
        >>> clone_initializer(one) is one
        False
        >>> clone_initializer("zeros")
        'zeros'
    """
    if not isinstance(initializer, tf_keras.initializers.Initializer):
        return initializer
    return type(initializer).from_config(initializer.get_config())


def with_prefix(prefix: str, layers: Mapping[str, Any]) -> dict[str, Any]:
    """Turns a mapping of layers into entries "<prefix>/<name>" of a config.

    Keras restores layers that are entries of a config, but not layers inside entries.
    """
    return {f"{prefix}/{name}": layer for name, layer in layers.items()}


def pop_with_prefix(prefix: str, config: dict[str, Any]) -> dict[str, Any]:
    """Removes the entries "<prefix>/<name>" from a config, and returns their rebuilt layers by name."""
    names = [name for name in config if name.startswith(prefix + "/")]
    return {name[len(prefix) + 1 :]: as_layer(config.pop(name)) for name in names}


def checked_and_sorted(layers: Mapping[str, Any] | None, place: str) -> dict[str, Any]:
    """Checks layers, and returns them sorted by name.

    Sorting makes the order of calls, and so of the weights, independent of the order of the mapping. Errors name
    `place`, such as "NodeSetUpdate(edge_set_inputs=...)".
    """
    return {
        name: check_is_layer(layer, place.replace("...", f"{{{name}: ...}}"))
        for name, layer in sorted((layers or {}).items())
    }


def check_is_layer(value: Any, place: str) -> Any:
    """Returns a layer unchanged; raises an error for anything else, naming the argument as `place`."""
    check_no_keras3_layer(place, value)
    if not isinstance(value, tf_keras.layers.Layer):
        raise ValueError(
            f"{place} must be a tf_keras.layers.Layer, got type: {type(value).__name__}. "
            "Wrap a function in tf_keras.layers.Lambda, or in a layer of your own."
        )
    return value


def as_layer(value: Any) -> Any:
    """Rebuilds a layer from an entry of a config: a layer, None, or the dict that Keras made from a layer."""
    if not isinstance(value, Mapping):
        return value
    # Keras' newer format names the module of a class; the older one, that of SavedModels, does not.
    if "module" in value:
        return tf_keras.saving.deserialize_keras_object(with_type_specs(value))
    return tf_keras.layers.deserialize(value, use_legacy_format=True)


def with_type_specs(value: Any) -> Any:
    """Rebuilds the type specs inside a config, innermost first; Keras itself leaves out the outermost spec."""
    if isinstance(value, (list, tuple)):
        return [with_type_specs(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    rebuilt = {name: with_type_specs(item) for name, item in value.items()}
    if rebuilt.get("class_name") == "__typespec__":
        return tf_keras.saving.deserialize_keras_object(rebuilt)
    return rebuilt


_Value = TypeVar("_Value")


def agreed(layer_name: str, argument: str, at_init: _Value | None, at_call: _Value | None) -> _Value | None:
    """Returns the value of an argument that may be given at init and at call time, but must then agree."""
    if at_init is None:
        return at_call
    if at_call is not None and at_call != at_init:
        raise ValueError(
            f"The {layer_name} layer was initialized with {argument}={at_init} "
            f"but called with {argument}={at_call}. Leave one of them out."
        )
    return at_init


def required(
    layer_name: str, argument: str, at_init: _Value | None, at_call: _Value | None, *, shown_as: str | None = None
) -> _Value:
    """Returns the value of an argument that must be given at init or call time; two values must agree."""
    value = agreed(layer_name, argument, at_init, at_call)
    if value is None:
        raise ValueError(f"The {layer_name} layer requires {shown_as or argument} to be set at init or call time.")
    return value
