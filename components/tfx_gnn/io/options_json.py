"""Converts options to JSON and back; an error names the field whose value does not fit."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from tfx_gnn.io.option_kinds import KIND, abstract_classes, default_kind, kinds_of
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.io.text_files import parse_json

_Options = TypeVar("_Options")


def _has_integer_keys(kind: Any) -> bool:
    return get_origin(kind) is dict and get_args(kind)[0] is int


def _structure_integer_keys(value: Any, kind: Any) -> dict[int, Any]:
    # JSON keys are always strings.
    item = get_args(kind)[1]
    return {int(key): _CONVERTER.structure(content, item) for key, content in value.items()}


def _names_its_kind(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, abstract_classes())


def _chosen_kind(kind: type, value: Mapping[str, Any], *, path: tuple[str, ...] = (), place: str = "") -> type:
    name = value.get(KIND, default_kind(kind) or None)
    chosen: type | None = kinds_of(kind).get(name) if isinstance(name, str) else None
    if chosen is None or not issubclass(chosen, kind):
        allowed = sorted(name for name, known in kinds_of(kind).items() if issubclass(known, kind))
        advice = did_you_mean(name, allowed, otherwise="Choose one of these.")
        raise ValueError(f"`{'.'.join((*path, KIND))}` must be one of {allowed}; got {name!r}{place}. {advice}")
    return chosen


def _with_kind(value: Any) -> Any:
    """Completes a value of an abstract class; the name of a kind alone stands for one without fields."""
    return {KIND: value} if isinstance(value, str) else value


def _structure_by_kind(value: Any, kind: type) -> Any:
    value = _with_kind(value)
    chosen = _chosen_kind(kind, value)
    fields = {key: field for key, field in value.items() if key != KIND}
    return make_dict_structure_fn(chosen, _CONVERTER)(fields, chosen)


def _unstructure_by_kind(value: Any) -> dict[str, Any]:
    kinds = kinds_of(type(value))
    names = [name for name, kind in kinds.items() if kind is type(value)]
    if not names:
        raise TypeError(f"`options` must be of {sorted(kinds)}; got {type(value)}. Others cannot be written to JSON.")
    return {KIND: names[0], **make_dict_unstructure_fn(type(value), _CONVERTER)(value)}


def _structure_text_or_numbers(value: Any, _: Any) -> str | dict[str, float]:
    return value if isinstance(value, str) else _CONVERTER.structure(value, dict[str, float])


_CONVERTER = cattrs.Converter(detailed_validation=False)
# Checked before; YAML has a number where a text of digits is meant.
_CONVERTER.register_structure_hook_func(lambda kind: kind == (int | str), lambda value, _: value)
_CONVERTER.register_structure_hook_func(_has_integer_keys, _structure_integer_keys)
_CONVERTER.register_structure_hook_func(_names_its_kind, _structure_by_kind)
_CONVERTER.register_unstructure_hook_func(_names_its_kind, _unstructure_by_kind)
_CONVERTER.register_structure_hook_func(lambda kind: kind == (str | dict[str, float]), _structure_text_or_numbers)


def to_json(options: object) -> str:
    """Writes options, or any part of them, as one line of JSON with sorted keys.

    Takes a dataclass of this library, a str, number, bool or None, or a tuple or dict of these. A value of an abstract
    class, such as a task, becomes an object with a `kind`: see `register_kinds`. Equal options give equal text.
    """
    return json.dumps(_CONVERTER.unstructure(options), sort_keys=True)


def from_json(text: str, kind: type[_Options], *, name: str = "text") -> _Options:
    """Reads text from `to_json` as a class or type expression; errors call the text `name`, and name the field."""
    try:
        plain: Any = parse_json(text)
    except ValueError as error:
        described = getattr(kind, "__name__", str(kind))
        # Do not show the text: it may contain anything.
        raise ValueError(
            f"`{name}` must be JSON that describes a {described}; got {len(text)} characters of another kind: {error}. "
            "Fix it."
        ) from error
    _JsonCheck(name)(plain, kind)
    return _CONVERTER.structure(plain, kind)


_MAX_SHOWN = 200


class _JsonCheck:
    """Checks plain JSON of the option or file `name` against the type to read it as."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, plain: Any, kind: Any, path: tuple[str, ...] = ()) -> None:
        """Checks the value at the keys `path`; types that are neither dataclasses nor plain types pass."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is None and _names_its_kind(kind):
            plain = _with_kind(plain)
            self._object(plain, f"an object with fields of a {kind.__name__}", path)
            fields = {key: value for key, value in plain.items() if key != KIND}
            place = f" in `{self._name}`" if path else ""
            self._fields(fields, _chosen_kind(kind, plain, path=path, place=place), path)
        elif origin is None and dataclasses.is_dataclass(kind):
            self._object(plain, f"an object with fields of a {_name_of(kind)}", path)
            self._fields(plain, kind, path)
        elif kind in _PLAIN:
            is_one, rule = _PLAIN[kind]
            if not is_one(plain):
                is_whole = _is_number(plain) and (isinstance(plain, int) or plain.is_integer())
                rule = _RANGES.get(kind, rule) if is_whole else rule
                raise self._refusal(path, f"be {rule}", plain, "Write one.")
        elif origin is Literal:
            if plain not in arguments:
                advice = did_you_mean(plain, arguments, otherwise="Choose one of these.")
                raise self._refusal(path, f"be one of {list(arguments)}", plain, advice)
        elif origin in (Union, types.UnionType):
            self._any_of(plain, arguments, path)
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            self._mapping(plain, arguments, path)
        elif isinstance(origin, type) and issubclass(origin, Sequence):
            self._list(plain, arguments, path)

    def _fields(self, plain: Mapping[str, Any], kind: Any, path: tuple[str, ...]) -> None:
        fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
        unknown = sorted(set(plain) - set(fields))
        if unknown:
            advice = did_you_mean(unknown[0], fields, otherwise="Leave these out, or fix their spelling.")
            raise self._refusal(path, f"have no fields but {sorted(fields)}", unknown, advice)
        for name, field in fields.items():
            has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
            if name not in plain and not has_default:
                raise self._refusal((*path, name), f"be given for a {_name_of(kind)}", sorted(plain), "Add it.")
        hints = typing.get_type_hints(kind)
        for name, value in plain.items():
            self(value, hints[name], (*path, name))

    def _any_of(self, plain: Any, kinds: tuple[Any, ...], path: tuple[str, ...]) -> None:
        refusals = []
        for kind in kinds:
            try:
                return self(plain, kind, path)
            except ValueError as refusal:
                refusals.append(refusal)
        # Describe the value of an optional option by its type when it is present.
        likely = [kind for kind in kinds if kind is not types.NoneType]
        if len(likely) > 1 and not isinstance(plain, (dict, list)):
            rule = " or ".join(_PLAIN[kind][1] if kind in _PLAIN else "an object" for kind in likely)
            raise self._refusal(path, f"be {rule}", plain, "Write one of them.")
        raise refusals[kinds.index(likely[-1])]

    def _mapping(self, plain: Any, kinds: tuple[Any, ...], path: tuple[str, ...]) -> None:
        self._object(plain, "an object with values by name", path)
        key_kind, value_kind = kinds or (str, Any)
        for key, value in plain.items():
            if key_kind is int and not key.removeprefix("-").isdecimal():
                raise self._refusal(path, "have whole numbers for keys", key, "Write them as strings of digits.")
            self(value, value_kind, (*path, key))
        if key_kind is int and len({int(key) for key in plain}) < len(plain):
            raise self._refusal(path, "have each whole number once for a key", sorted(plain), "Remove one of them.")

    def _list(self, plain: Any, kinds: tuple[Any, ...], path: tuple[str, ...]) -> None:
        if not isinstance(plain, list):
            raise self._refusal(path, "be a list", plain, "Write [...], even for a single value.")
        is_alike = len(kinds) == 1 or kinds[1:] == (...,)
        if not is_alike and len(kinds) != len(plain):
            raise self._refusal(path, f"be a list of {len(kinds)}", plain, "Write that many.")
        for number, value in enumerate(plain):
            self(value, kinds[0] if is_alike else kinds[number], (*path, str(number)))

    def _object(self, plain: Any, rule: str, path: tuple[str, ...]) -> None:
        if not isinstance(plain, dict):
            raise self._refusal(path, f"be {rule}", plain, "Write {...}.")

    def _refusal(self, path: tuple[str, ...], rule: str, got: Any, advice: str) -> ValueError:
        place = f" in `{self._name}`" if path else ""
        shown = repr(got)
        shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}..."
        return ValueError(f"`{'.'.join(path) or self._name}` must {rule}; got {shown}{place}. {advice}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    # A whole float counts as an integer: ML Metadata and protobuf Structs return ints as floats.
    is_whole = _is_number(value) and (isinstance(value, int) or value.is_integer())
    return is_whole and -(2**63) <= value < 2**63


def _is_float(value: Any) -> bool:
    # JSON has integers of any size.
    return _is_number(value) and (isinstance(value, float) or abs(value) <= sys.float_info.max)


_PLAIN: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: isinstance(value, str), "a string"),
    int: (_is_integer, "an integer"),
    float: (_is_float, "a number"),
    # Wire formats without bools store them as 0 and 1.
    bool: (lambda value: value in (0, 1) and not isinstance(value, str), "true or false"),
    types.NoneType: (lambda value: value is None, "null"),
}
"""By plain type, the check for its JSON values, and their description in words."""

_RANGES = {int: "an integer of at most 64 bits", float: "a number that a float can hold"}
"""By type, the rule for a number that does not fit."""


def _name_of(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))
