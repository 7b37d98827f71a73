"""What options there are: their JSON Schema, and a list of them, from their dataclasses and docstrings."""

from __future__ import annotations

import collections
import dataclasses
import inspect
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from tfx_gnn.io.option_groups import choices_of
from tfx_gnn.io.option_kinds import KIND, abstract_classes, default_kind, kinds_of

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    Any: {},
}
_PLAIN_TEXTS: dict[Any, str] = {
    str: "text",
    bool: "true or false",
    int: "integer",
    float: "number",
    type(None): "null",
    Any: "any value",
}
_ENTRY = re.compile(r"( +)(\w+): (.*)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptionEntry:
    """One option.

    Attributes:
        name: its name, with dots between a group's name and its own.
        kind: its type, as people write it.
        default: its default as JSON; "" if it must be given.
        meaning: what it does.
    """

    name: str
    kind: str
    default: str
    meaning: str


def list_options(options_class: type, prefix: str = "") -> list[OptionEntry]:
    """Lists the options of a class and of the classes that it holds, in the order of their fields.

    Args:
        options_class: dataclass.
        prefix: what to put before every name.

    Returns:
        The options. "hops[].fan_out" is an option of each item of the list `hops`, "ranges.NAME.low" one of each value
        of the mapping `ranges`, and "prediction[link_prediction].loss" one of a `prediction` of that kind.
    """
    return list(_entries(options_class, prefix, frozenset()))


def json_schema(options_class: type) -> dict[str, Any]:
    """Describes the JSON, or YAML, of a class of options as JSON Schema (draft 2020-12).

    Args:
        options_class: dataclass.

    Returns:
        The schema, with the schemas of other classes under "$defs".
    """
    definitions: dict[str, Any] = {}
    schema = _of_dataclass(options_class, definitions)
    return {**schema, "$defs": definitions}


def attribute_texts(options_class: type) -> dict[str, str]:
    """Reads the section "Attributes" of a class's docstring, and of those that it inherits from.

    Args:
        options_class: class with a docstring in Google's form.

    Returns:
        One line of text by attribute.
    """
    texts: dict[str, str] = {}
    for base in reversed(options_class.__mro__):
        texts.update(section_texts(inspect.cleandoc(base.__doc__ or ""), "Attributes"))
    return texts


def section_texts(docstring: str, section: str) -> dict[str, str]:
    """Reads a section of a docstring, such as "Attributes".

    Args:
        docstring: docstring in Google's form, without its indentation.
        section: the section's title.

    Returns:
        One line of text by name.
    """
    _, _, entries = docstring.partition(f"\n{section}:\n")
    texts: dict[str, list[str]] = collections.defaultdict(list)
    indent, name = "", ""
    for line in entries.splitlines():
        if line and not line.startswith(" "):
            break
        found = _ENTRY.fullmatch(line)
        if found and (not indent or found[1] == indent):
            indent, name = found[1], found[2]
            texts[name].append(found[3])
        elif name:
            texts[name].append(line.strip())
    return {name: " ".join(filter(None, lines)) for name, lines in texts.items()}


def kind_text(kind: Any) -> str:
    """Writes a type as people do: "list of text", "number or null".

    Args:
        kind: type expression.

    Returns:
        The text.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is None:
        kinds = f" of kind {', '.join(_kinds(kind))}" if _has_kinds(kind) else ""
        return _PLAIN_TEXTS.get(kind) or f"{getattr(kind, '__name__', kind)}{kinds}"
    if origin is Literal:
        return _quoted(arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(kind_text(argument) for argument in arguments)
    if issubclass(origin, Mapping):
        return f"mapping from {kind_text(arguments[0])} to {kind_text(arguments[1])}"
    return f"list of {kind_text(arguments[0])}"


def _entries(options_class: type, prefix: str, holders: frozenset[type]) -> Iterator[OptionEntry]:
    meanings = attribute_texts(options_class)
    holders |= {options_class}
    for field, kind in _fields(options_class):
        name = f"{prefix}{field.name}"
        parts = list(_parts(kind))
        is_group = field.default_factory is kind
        if not is_group:
            yield OptionEntry(
                name=name,
                kind=_quoted(choices_of(field, kind)) or kind_text(kind),
                default=_default_text(field),
                meaning=meanings.get(field.name, ""),
            )
        for suffix, base, part in parts:
            # A task of several tasks holds tasks.
            if not holders & {base, part}:
                yield from _entries(part, f"{name}{suffix}.", holders | {base})


def _quoted(choices: Sequence[Any]) -> str:
    return " or ".join(json.dumps(value) for value in choices)


def _parts(kind: Any) -> Iterator[tuple[str, type, type]]:
    """Finds the dataclasses in a type.

    Yields what names of options have behind the field's name, the class that the type names, and the dataclass.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is None and _has_kinds(kind):
        yield from ((f"[{name}]", kind, known) for name, known in _kinds(kind).items())
    elif origin is None:
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            yield "", kind, kind
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            yield from _parts(argument)
    elif origin is not Literal:
        is_mapping = issubclass(origin, Mapping)
        mark, item = (".NAME", arguments[1]) if is_mapping else ("[]", arguments[0])
        yield from ((f"{mark}{suffix}", base, part) for suffix, base, part in _parts(item))


def _fields(options_class: Any) -> Iterator[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(options_class)
    for field in dataclasses.fields(options_class):
        if field.init:
            yield field, hints[field.name]


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default


def _default_text(field: dataclasses.Field[Any]) -> str:
    # Not above: `tfx-gnn predict` needs less than the reading of JSON does.
    from tfx_gnn.io import options_json

    default = _default(field)
    return "" if default is dataclasses.MISSING else options_json.to_json(default)


def _has_kinds(kind: Any) -> bool:
    # Generic types such as tuple[str] are taken for classes by Python 3.10.
    return get_origin(kind) is None and isinstance(kind, type) and issubclass(kind, abstract_classes())


def _kinds(kind: type) -> dict[str, type]:
    return {name: known for name, known in kinds_of(kind).items() if issubclass(known, kind)}


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is None and kind in _PLAIN:
        return dict(_PLAIN[kind])
    if dataclasses.is_dataclass(kind) or _has_kinds(kind):
        return _defined(kind, definitions)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(argument, definitions) for argument in arguments]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    raise TypeError(f"`kind` must be a type that options have; got {kind}. Describe it in {__name__}.")


def _defined(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Refers to the schema of a class, which it adds to the definitions; classes may hold one another."""
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}
        definitions[name] = _of_kinds(kind, definitions) if _has_kinds(kind) else _of_dataclass(kind, definitions)
    return {"$ref": f"#/$defs/{name}"}


def _of_kinds(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    choices: list[dict[str, Any]] = []
    names: list[str] = []
    for name, known in _kinds(kind).items():
        choice = _of_dataclass(known, definitions)
        # The name alone stands for a kind without required fields.
        names += [] if choice["required"] else [name]
        choice["properties"] = {KIND: {"const": name}, **choice["properties"]}
        choice["required"] = [*([] if name == default_kind(kind) else [KIND]), *choice["required"]]
        choices.append(choice)
    return {"anyOf": [*([{"enum": names}] if names else []), *choices]}


def _of_dataclass(options_class: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    meanings = attribute_texts(options_class)
    properties: dict[str, Any] = {}
    required = []
    for field, kind in _fields(options_class):
        default = _default_text(field)
        properties[field.name] = {
            **({"description": meanings[field.name]} if field.name in meanings else {}),
            **({"enum": list(choices)} if (choices := choices_of(field, kind)) else _schema(kind, definitions)),
            **({"default": json.loads(default)} if default else {}),
        }
        if not default:
            required.append(field.name)
    return {
        "type": "object",
        "description": inspect.cleandoc(options_class.__doc__ or "").partition("\n")[0],
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
