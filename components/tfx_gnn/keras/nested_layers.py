"""Layers inside the config of other layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tf_keras


def with_prefix(prefix: str, layers: Mapping[str, Any]) -> dict[str, Any]:
    """Spreads a mapping of layers over entries of a config.

    Keras restores layers that are entries of a config, not those inside of entries.

    Args:
        prefix: start of the entries' names.
        layers: layers by name.

    Returns:
        Entries "<prefix>/<name>".
    """
    return {f"{prefix}/{name}": layer for name, layer in layers.items()}


def pop_with_prefix(prefix: str, config: dict[str, Any]) -> dict[str, Any]:
    """Takes entries "<prefix>/<name>" out of a config.

    Args:
        prefix: start of the entries' names.
        config: loses these entries.

    Returns:
        Layers by name.
    """
    names = [name for name in config if name.startswith(prefix + "/")]
    return {name[len(prefix) + 1 :]: as_layer(config.pop(name)) for name in names}


def checked_and_sorted(layers: Mapping[str, Any] | None, place: str) -> dict[str, Any]:
    """Returns a copy of layers by name, in the order of the names.

    The order of calls, and so of the weights, does not depend on the order of the mapping.

    Args:
        layers: layers by name; None for none.
        place: where they were given, for the error, such as "NodeSetUpdate(edge_set_inputs=...)".

    Raises:
        ValueError: if a value is not a layer.
    """
    return {
        name: check_is_layer(layer, place.replace("...", f"{{{name}: ...}}"))
        for name, layer in sorted((layers or {}).items())
    }


def check_is_layer(value: Any, place: str) -> Any:
    """Returns a layer as it is.

    Args:
        value: a layer, or something else by mistake.
        place: where it was given, for the error, such as "NodeSetUpdate(next_state=...)".

    Raises:
        ValueError: if it is not a layer.
    """
    if not isinstance(value, tf_keras.layers.Layer):
        raise ValueError(
            f"{place} must be a tf_keras.layers.Layer, got type: {type(value).__name__}. "
            "Wrap a function in tf_keras.layers.Lambda, or in a layer of your own."
        )
    return value


def as_layer(value: Any) -> Any:
    """Rebuilds a layer from what a config holds.

    Args:
        value: a layer, None, or the dict that Keras made of a layer.

    Returns:
        The layer, or None.
    """
    if not isinstance(value, Mapping):
        return value
    if "module" in value:
        return tf_keras.saving.deserialize_keras_object(with_type_specs(value))
    return tf_keras.layers.deserialize(value, use_legacy_format=True)


def with_type_specs(value: Any) -> Any:
    """Rebuilds the type specs inside a config, innermost first; Keras itself stops at the outermost.

    Args:
        value: a config, or part of one.

    Returns:
        The same, with type specs for the dicts that stand for them.
    """
    if isinstance(value, (list, tuple)):
        return [with_type_specs(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    rebuilt = {name: with_type_specs(item) for name, item in value.items()}
    if rebuilt.get("class_name") == "__typespec__":
        return tf_keras.saving.deserialize_keras_object(rebuilt)
    return rebuilt
