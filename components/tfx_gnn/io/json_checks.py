"""Checks plain JSON against the type it will be read as, and names the wrong field."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union

from tfx_gnn.io.option_kinds import KIND

Chosen = Callable[[type, Mapping[str, Any]], type]
"""From an abstract class, and the object that names its kind, to the class that is meant."""

_MAX_SHOWN = 200


class JsonCheck:
    """Checks plain JSON; says what is wrong first.

    `name` is the option or file that the JSON is of, for messages. For an object of one of the classes `abstract`,
    `chosen` tells which class it is of.
    """

    def __init__(self, name: str, chosen: Chosen, abstract: tuple[type, ...]) -> None:
        self._name = name
        self._chosen = chosen
        self._abstract = abstract

    def __call__(self, plain: Any, kind: Any, path: tuple[str, ...] = ()) -> None:
        """Checks a value, to which the keys `path` lead; what is neither a dataclass nor of plain types passes."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is None and isinstance(kind, type) and issubclass(kind, self._abstract):
            self._object(plain, f"an object with fields of a {kind.__name__}", path)
            fields = {key: value for key, value in plain.items() if key != KIND}
            self._fields(fields, self._chosen(kind, plain), path)
        elif origin is None and dataclasses.is_dataclass(kind):
            self._object(plain, f"an object with fields of a {_name_of(kind)}", path)
            self._fields(plain, kind, path)
        elif kind in _PLAIN:
            is_one, rule = _PLAIN[kind]
            if not is_one(plain):
                raise self._refusal(path, f"be {rule}", plain, "Write one.")
        elif origin is Literal:
            if plain not in arguments:
                raise self._refusal(path, f"be one of {list(arguments)}", plain, "Choose one of these.")
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
            raise self._refusal(
                path, f"have no fields but {sorted(fields)}", unknown, "Leave these out, or mend their spelling."
            )
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
        # The value of an option that may be missing is described by what it is when it is there.
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

    def _list(self, plain: Any, kinds: tuple[Any, ...], path: tuple[str, ...]) -> None:
        if not isinstance(plain, list):
            raise self._refusal(path, "be a list", plain, "Write [...], for a single value, too.")
        is_alike = len(kinds) == 1 or kinds[1:] == (...,)
        if not is_alike and len(kinds) != len(plain):
            raise self._refusal(path, f"be a list of {len(kinds)}", plain, "Write as many.")
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


_PLAIN: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: isinstance(value, str), "a string"),
    # A whole float is an integer: ints come back from ML Metadata and protobuf Structs as floats.
    int: (lambda value: _is_number(value) and float(value).is_integer(), "an integer"),
    float: (_is_number, "a number"),
    # Wire formats without bools store them as 0 and 1.
    bool: (lambda value: value in (0, 1) and not isinstance(value, str), "true or false"),
    types.NoneType: (lambda value: value is None, "null"),
}
"""By plain type, what is one in JSON, and what that is in words."""


def _name_of(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))
