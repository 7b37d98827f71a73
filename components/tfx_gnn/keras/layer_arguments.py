"""Arguments of layers: initializers, layers within layers, and values given at init or call time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import tf_keras


def clone_initializer(initializer: Any) -> Any:
    """Copies an initializer, so that each weight gets random values of its own.

    An `Initializer` object fixes its seed when it is made: two weights that share one start
    equal.

    Args:
        initializer: whatever Keras takes for an initializer: an object, a name, a config or None.

    Returns:
        A new object of the same config for an `Initializer`; anything else unchanged.

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
    """Spreads a mapping of layers over entries "<prefix>/<name>" of a config.

    Keras restores layers that are entries of a config, not those inside of entries.
    """
    return {f"{prefix}/{name}": layer for name, layer in layers.items()}


def pop_with_prefix(prefix: str, config: dict[str, Any]) -> dict[str, Any]:
    """Takes the entries "<prefix>/<name>" out of a config, and rebuilds their layers by name."""
    names = [name for name in config if name.startswith(prefix + "/")]
    return {name[len(prefix) + 1 :]: as_layer(config.pop(name)) for name in names}


def checked_and_sorted(layers: Mapping[str, Any] | None, place: str) -> dict[str, Any]:
    """Returns a copy of layers by name, in the order of the names.

    The order of calls, and so of the weights, does not depend on the order of the mapping. Errors name `place`,
    such as "NodeSetUpdate(edge_set_inputs=...)".
    """
    return {
        name: check_is_layer(layer, place.replace("...", f"{{{name}: ...}}"))
        for name, layer in sorted((layers or {}).items())
    }


def check_is_layer(value: Any, place: str) -> Any:
    """Returns a layer as it is; anything else is an error that names `place`, where it was given."""
    if not isinstance(value, tf_keras.layers.Layer):
        raise ValueError(
            f"{place} must be a tf_keras.layers.Layer, got type: {type(value).__name__}. "
            "Wrap a function in tf_keras.layers.Lambda, or in a layer of your own."
        )
    return value


def as_layer(value: Any) -> Any:
    """Rebuilds a layer from what a config holds: the layer, None, or the dict that Keras made of a layer."""
    if not isinstance(value, Mapping):
        return value
    # Keras' newer format names the module of a class; the older one, that of SavedModels, does not.
    if "module" in value:
        return tf_keras.saving.deserialize_keras_object(with_type_specs(value))
    return tf_keras.layers.deserialize(value, use_legacy_format=True)


def with_type_specs(value: Any) -> Any:
    """Rebuilds the type specs inside a config, innermost first; Keras itself stops at the outermost."""
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
    """Returns the value of an argument that may be given twice, but not differently."""
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
    """Returns the value of an argument that must be given, and not differently, once or twice."""
    value = agreed(layer_name, argument, at_init, at_call)
    if value is None:
        raise ValueError(f"The {layer_name} layer requires {shown_as or argument} to be set at init or call time.")
    return value
