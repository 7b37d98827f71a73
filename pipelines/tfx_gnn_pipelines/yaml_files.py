"""YAML files of options, read as plain values."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from tfx_gnn.io.suggestions import did_you_mean_path

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_OCTAL = re.compile("[-+]?0[0-7_]+")


_TIME = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """Reads 1e-3 as a number and 2026-05-01 as a text, as JSON and YAML 1.2 do; YAML 1.1 reads a text and a date."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+\Z"), list("-+0123456789")
)
_Loader.yaml_implicit_resolvers = {
    start: [(tag, form) for tag, form in resolvers if tag != _TIME]
    for start, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def read_yaml(path: str, *, option: str) -> Any:
    """Reads a file of texts, numbers, lists and mappings; an empty one is an empty mapping.

    Args:
        path: the file.
        option: command-line option that named it.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not in UTF-8, or for a reason of `parse_yaml`.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"`{option}` must name a file; got {path!r}, which is not there. {did_you_mean_path(path)}"
        ) from error
    plain = parse_yaml(_decode(data, path), name=path)
    return {} if plain is None else plain


def parse_yaml(text: str, *, name: str) -> Any:
    """Reads texts, numbers, lists and mappings; errors call the text `name`.

    Raises:
        ValueError: if it is not YAML, or holds other kinds of values, such as bytes; or a key twice, a value that holds
            itself, or a number that YAML reads in another base: 010 would be 8, and 1:30 would be 90.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _check_node(node, name, holders=frozenset(), checked=set())
        plain = loader.construct_document(node)
    except yaml.YAMLError as error:
        raise ValueError(
            f"`{name}` must be YAML; got text that is not: {' '.join(str(error).split())}. Fix it, or put texts with "
            "special characters in quotes."
        ) from error
    try:
        json.dumps(plain)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must hold texts, numbers, lists and mappings; got another kind of value: {error}. Put it in "
            "quotes."
        ) from error
    return plain


def _decode(data: bytes, path: str) -> str:
    try:
        text, is_whole = data.decode(), True
    except UnicodeDecodeError as error:
        text, is_whole = data[: error.start].decode(), False
    before, zero, _ = text.partition("\0")  # as in UTF-16
    if is_whole and not zero:
        return text
    line = before.count("\n") + 1
    raise ValueError(f"`{path}` must be text in UTF-8; got other bytes in line {line}. Save it in that encoding.")


def _check_node(node: yaml.Node, name: str, *, holders: frozenset[int], checked: set[int]) -> None:
    """Refuses what YAML would take for something else than people mean, or what no JSON can hold."""
    if id(node) in holders:
        raise ValueError(
            f"`{name}` must hold values that end; got one that holds itself in line {_line(node)}. Remove the `*` that "
            "repeats it."
        )
    if id(node) in checked:
        return
    checked.add(id(node))
    holders |= {id(node)}
    if isinstance(node, yaml.ScalarNode):
        _check_number(node, name)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_node(item, name, holders=holders, checked=checked)
    elif isinstance(node, yaml.MappingNode):
        first: dict[Any, yaml.Node] = {}
        for key, value in node.value:
            known = first.setdefault((key.tag, str(key.value)), key)
            if known is not key:
                raise ValueError(
                    f"`{name}` must have each key once; got `{key.value}` in line {_line(key)} and in line "
                    f"{_line(known)}. Remove one of them."
                )
            _check_node(key, name, holders=holders, checked=checked)
            _check_node(value, name, holders=holders, checked=checked)


def _check_number(node: yaml.ScalarNode, name: str) -> None:
    if node.tag not in _NUMBERS:
        return
    base = 60 if ":" in node.value else 8 if _OCTAL.fullmatch(node.value) else 10
    if base != 10:
        raise ValueError(
            f"`{name}` must have numbers in base 10; got {node.value} in line {_line(node)}, which YAML reads in base "
            f"{base}. Write the number that you mean, or put a text in quotes."
        )


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
