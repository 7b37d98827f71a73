"""Schemas of data objects: the name of each type of nodes or edges, and how its attributes are encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from tfx_gnn.graphlearn.feature_spec import FeatureSpec, spec_from_plain, spec_to_plain

if TYPE_CHECKING:
    from tfx_gnn.graphlearn.attribute_decoder import Decoder

TypeSchema = tuple[str, FeatureSpec]
"""Name of a type of nodes or edges, and how its attributes are encoded."""

GivenSpec = Union[FeatureSpec, "Decoder"]
"""How attributes are encoded; of a decoder, its feature spec is taken."""

GivenSchema = tuple[str, GivenSpec]
"""Name of a type of nodes or edges, and how its attributes are encoded."""


def as_type_schema(given: Any, what: str) -> TypeSchema:
    """Checks the schema of one type.

    Args:
        given: (name, FeatureSpec or Decoder).
        what: name of the argument, for messages.

    Returns:
        The name and the feature spec.
    """
    if not isinstance(given, (tuple, list)) or len(given) != 2 or not isinstance(given[0], str):
        raise TypeError(f"`{what}` must be (name of the type, FeatureSpec); got {given!r}. Write such a pair.")
    name, spec = given
    # A decoder; its module reads tables, which layers do without.
    spec = getattr(spec, "feature_spec", spec)
    if not isinstance(spec, FeatureSpec):
        raise TypeError(
            f"`{what}` must have a FeatureSpec or a Decoder; got {type(spec).__name__} for {name!r}. Write "
            "decoder.feature_spec."
        )
    return name, spec


def as_type_schemas(given: Sequence[GivenSchema] | None, what: str) -> tuple[TypeSchema, ...] | None:
    """Checks schemas of several types; None stays None."""
    if given is None:
        return None
    return tuple(as_type_schema(one, f"{what}[{position}]") for position, one in enumerate(given))


def schemas_to_plain(schemas: Sequence[TypeSchema] | None) -> Any:
    """Converts schemas to values that a type spec can hold."""
    if schemas is None:
        return None
    return tuple((name, spec_to_plain(spec), bool(spec.weighted), bool(spec.labeled)) for name, spec in schemas)


def schemas_from_plain(plain: Any) -> tuple[TypeSchema, ...] | None:
    """Converts the result of `schemas_to_plain` back."""
    if plain is None:
        return None
    schemas = []
    for name, plain_spec, weighted, labeled in plain:
        spec = spec_from_plain(plain_spec)
        spec.weighted, spec.labeled = bool(weighted), bool(labeled)
        schemas.append((name, spec))
    return tuple(schemas)


def keyed_to_plain(schemas: Mapping[Any, FeatureSpec] | None, types: Mapping[Any, Any]) -> Any:
    """Converts specs by type: the positions of the types are in place of names, which may be tuples."""
    if schemas is None:
        return None
    positions = {key: position for position, key in enumerate(types)}
    pairs: list[TypeSchema] = [(str(positions[key]), spec) for key, spec in schemas.items()]
    return schemas_to_plain(pairs)


def keyed_from_plain(plain: Any, types: Sequence[Any]) -> Any:
    """Converts the result of `keyed_to_plain` back."""
    schemas = schemas_from_plain(plain)
    return None if schemas is None else {types[int(position)]: spec for position, spec in schemas}
