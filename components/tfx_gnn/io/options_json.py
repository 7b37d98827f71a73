"""Converts options to JSON and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar, get_args, get_origin

import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from tfx_gnn.io.json_checks import JsonCheck
from tfx_gnn.io.option_kinds import KIND, abstract_classes, default_kind, kinds_of
from tfx_gnn.io.text_files import parse_json

_Options = TypeVar("_Options")


def _has_integer_keys(kind: Any) -> bool:
    return get_origin(kind) is dict and get_args(kind)[0] is int


def _structure_integer_keys(value: Any, kind: Any) -> dict[int, Any]:
    # JSON has no keys but strings.
    item = get_args(kind)[1]
    return {int(key): _CONVERTER.structure(content, item) for key, content in value.items()}


def _names_its_kind(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, abstract_classes())


def _chosen_kind(kind: type, value: Mapping[str, Any]) -> type:
    name = value.get(KIND, default_kind(kind) or None)
    chosen: type | None = kinds_of(kind).get(name) if isinstance(name, str) else None
    if chosen is None or not issubclass(chosen, kind):
        allowed = sorted(name for name, known in kinds_of(kind).items() if issubclass(known, kind))
        raise ValueError(f"`{KIND}` must be one of {allowed}; got {name!r}. Choose one of these.")
    return chosen


def _structure_by_kind(value: Any, kind: type) -> Any:
    chosen = _chosen_kind(kind, value)
    fields = {key: field for key, field in value.items() if key != KIND}
    return make_dict_structure_fn(chosen, _CONVERTER)(fields, chosen)


def _unstructure_by_kind(value: Any) -> dict[str, Any]:
    kinds = kinds_of(type(value))
    names = [name for name, kind in kinds.items() if kind is type(value)]
    if not names:
        raise TypeError(f"`options` must be of {sorted(kinds)}; got {type(value)}. Others do not travel.")
    return {KIND: names[0], **make_dict_unstructure_fn(type(value), _CONVERTER)(value)}


def _structure_text_or_numbers(value: Any, _: Any) -> str | dict[str, float]:
    return value if isinstance(value, str) else _CONVERTER.structure(value, dict[str, float])


_CONVERTER = cattrs.Converter(detailed_validation=False)
_CONVERTER.register_structure_hook_func(_has_integer_keys, _structure_integer_keys)
_CONVERTER.register_structure_hook_func(_names_its_kind, _structure_by_kind)
_CONVERTER.register_unstructure_hook_func(_names_its_kind, _unstructure_by_kind)
_CONVERTER.register_structure_hook_func(lambda kind: kind == (str | dict[str, float]), _structure_text_or_numbers)


def to_json(options: object) -> str:
    """Writes options, or any part of them, as one line of JSON with sorted keys.

    Takes a dataclass of this library, or a str, number, bool, None, tuple or dict of such. A value of an abstract
    class, such as a task, is an object with a `kind`: see `register_kinds`. Equal options give equal text.
    """
    return json.dumps(_CONVERTER.unstructure(options), sort_keys=True)


def from_json(text: str, kind: type[_Options], *, name: str = "text") -> _Options:
    """Reads what `to_json` wrote of a class or type expression; errors name the text `name`, and the field."""
    try:
        plain: Any = parse_json(text)
    except ValueError as error:
        described = getattr(kind, "__name__", str(kind))
        # The text is not shown: it may be of anything.
        raise ValueError(
            f"`{name}` must be JSON that describes a {described}; got {len(text)} characters of another kind: {error}. "
            "Mend it."
        ) from error
    JsonCheck(name, _chosen_kind, abstract_classes())(plain, kind)
    return _CONVERTER.structure(plain, kind)
