"""Finds the line of the user's files that a message is about."""

from __future__ import annotations

import ast
import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tfx_gnn.io.user_errors import UserPlace, place_of_function, place_of_result

_ABOUT = re.compile(r"^`([^`]+)` must ")
_GOT = re.compile(r"; got (?:\w+=)?'([^']+)'")
_HOP = re.compile(r" in hop '([^']+)'")
_UNUSED_HOP = re.compile(r" hop '([^']+)', from which no hop starts")
_FEATURE = re.compile(r"'((?:nodes|edges)/[^'.]+|context)\.([^']+)'")
_COLUMN = re.compile(r"^`([^`]+)` must be one column")
_LINE = re.compile(r"; got (.+?), lines? (\d+)")
_LINE_OF_FILE = re.compile(r"^`([^`]+)` must .*\bline (\d+)")
_SCHEMA = re.compile(r" in (\S.*?\.pbtxt)\b")
_NAMES_A_COLUMN = re.compile(r"(?:.+_)?columns?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Setting:
    """A key of YAML, an argument of a call or a key of a dict, with its value.

    Attributes:
        name: the key.
        path: names from the top of the file, joined by dots; empty in Python, where a value may be put together.
        line: line of the key, or of an argument's value.
        texts: all texts in its value.
        text: its value, if that is one text.
        inner: node of the value.
        owner: node of the mapping, call or dict.
    """

    name: str
    path: str
    line: int
    texts: frozenset[str]
    text: str | None
    inner: object
    owner: object


class _UserFile:
    """A file of the user, in which names are looked for: Python, YAML, or another text.

    Attributes:
        path: the file.
        settings: what is set in it by name.
        texts: the texts in it, with their lines; for another text than Python and YAML, those in quotes.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.settings: list[_Setting] = []
        self.texts: list[tuple[str, int]] = []
        try:
            source = Path(path).read_text(encoding="utf-8")
            if path.endswith(".py"):
                self._read_python(ast.parse(source))
            elif path.endswith(".pbtxt"):
                for number, line in enumerate(source.splitlines(), 1):
                    self.texts += [(text, number) for text in re.findall(r'"([^"]*)"', line.partition("#")[0])]
            else:
                root = yaml.compose(source, yaml.SafeLoader)
                self._read_yaml(root, "", set())
        except (OSError, SyntaxError, UnicodeDecodeError, yaml.YAMLError):
            pass  # Nothing can be found in it.

    def lines_of_text(self, text: str) -> list[int]:
        return [line for known, line in self.texts if known == text]

    def _read_python(self, tree: ast.AST) -> None:
        for node in ast.walk(tree):
            pairs: Iterable[tuple[str, int, ast.expr]] = ()
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                self.texts.append((node.value, node.lineno))
            elif isinstance(node, ast.Call):
                pairs = [(one.arg, one.value.lineno, one.value) for one in node.keywords if one.arg]
            elif isinstance(node, ast.Dict):
                pairs = [
                    (key.value, key.lineno, value)
                    for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                ]
            for name, line, value in pairs:
                constants = [inner.value for inner in ast.walk(value) if isinstance(inner, ast.Constant)]
                self.settings.append(
                    _Setting(
                        name=name,
                        path="",
                        line=line,
                        texts=frozenset(text for text in constants if isinstance(text, str)),
                        text=value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None,
                        inner=value,
                        owner=node,
                    )
                )

    def _read_yaml(self, node: yaml.Node | None, path: str, seen: set[int]) -> frozenset[str]:
        """Notes what is in a node; returns its texts. An alias is read where its anchor is."""
        if node is None or id(node) in seen:
            return frozenset()
        seen.add(id(node))
        texts: frozenset[str] = frozenset()
        if isinstance(node, yaml.ScalarNode):
            self.texts.append((node.value, node.start_mark.line + 1))
            return frozenset([node.value])
        if isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                texts |= self._read_yaml(item, f"{path}{number}.", seen)
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner_path = f"{path}{key.value}"
                inner = self._read_yaml(value, f"{inner_path}.", seen)
                self.texts.append((str(key.value), key.start_mark.line + 1))
                self.settings.append(
                    _Setting(
                        name=str(key.value),
                        path=inner_path,
                        line=key.start_mark.line + 1,
                        texts=inner,
                        text=value.value if isinstance(value, yaml.ScalarNode) else None,
                        inner=value,
                        owner=node,
                    )
                )
                texts |= inner | {str(key.value)}
        return texts


_Search = Callable[[str, _UserFile], Iterable[int]]


def place_of_message(message: str, files: Iterable[str]) -> UserPlace | None:
    """Finds the line that holds what a message of this library quotes as wrong, if only one line has it.

    That is, in this order: a hop that no other uses; the column, key, hop or feature that the message names; the line
    that the message names itself; the text in "got 'TEXT'", in the user's files and in a graph schema that the message
    names.

    Args:
        message: the message.
        files: Python and YAML files to look into.
    """
    readers = list(map(_UserFile, files))
    for search in (_of_unused_hop, _of_column, _of_path, _of_pair, _of_hop, _of_feature):
        place = _only_place(search, message, readers)
        if place is not None:
            return place
    return (
        _named_in(message)
        or _only_place(_of_text, message, readers)
        or _only_place(_of_text, message, map(_UserFile, _SCHEMA.findall(message)))
    )


def place_of_argument(name: str, files: Iterable[str], *, message: str = "") -> UserPlace | None:
    """Finds the only line that sets an argument, or a key of YAML, of this name.

    Args:
        name: the name.
        files: Python and YAML files to look into.
        message: message that may quote a text, which the value must then hold.
    """
    got = _GOT.search(message)

    def search(_message: str, file: _UserFile) -> Iterator[int]:
        for one in file.settings:
            if one.name == name and (got is None or not one.texts or got[1] in one.texts):
                yield one.line

    return _only_place(search, message, map(_UserFile, files))


def place_in_function(function: Callable[..., Any] | None, message: str, files: Iterable[str]) -> UserPlace | None:
    """Finds the line of a function of the user that a message is about.

    That is what it returns or the loss that it compiles, if the message speaks of these; else its head.

    Args:
        function: the function; None if there is none.
        message: the message.
        files: Python and YAML files to look into for a loss.
    """
    head = place_of_function(function)
    if function is None or head is None:
        return None
    if " compile a loss " in message:
        return place_of_argument("loss", files) or head
    return place_of_result(function) if " must return " in message else head


def argument_of(message: str) -> str:
    """Returns the name that a message of this library begins with; empty for another message."""
    about = _ABOUT.search(message)
    return about[1] if about else ""


def _only_place(search: _Search, message: str, readers: Iterable[_UserFile]) -> UserPlace | None:
    places = {(file.path, line) for file in readers for line in search(message, file)}
    if len(places) != 1:
        return None
    ((path, line),) = places
    return UserPlace(path=path, line=line)


def _of_unused_hop(message: str, file: _UserFile) -> Iterator[int]:
    """Finds a hop whose name or edge set was changed, so that no other starts from it."""
    unused = _UNUSED_HOP.search(message)
    return (one.line for one in _named_hops(unused[1], file)) if unused else iter(())


def _of_column(message: str, file: _UserFile) -> Iterator[int]:
    column = _COLUMN.search(message)
    for one in file.settings if column else ():
        if column and _NAMES_A_COLUMN.fullmatch(one.name) and column[1] in one.texts:
            yield one.line


def _of_path(message: str, file: _UserFile) -> Iterator[int]:
    name = argument_of(message)
    return (one.line for one in file.settings if "." in name and one.path == name)


def _of_pair(message: str, file: _UserFile) -> Iterator[int]:
    """Finds the setting of the message's name that holds the text that it got."""
    got, name = _GOT.search(message), argument_of(message).rpartition(".")[2]
    return (one.line for one in file.settings if got and one.name == name and got[1] in one.texts)


def _of_hop(message: str, file: _UserFile) -> Iterator[int]:
    """Finds the option of a hop, or else the name of the hop, which is its edge set if it has no other."""
    hop = _HOP.search(message)
    for name in _named_hops(hop[1], file) if hop else ():
        of_hop = [one.line for one in file.settings if one.owner is name.owner and one.name == argument_of(message)]
        yield from of_hop or [name.line]


def _named_hops(hop: str, file: _UserFile) -> list[_Setting]:
    """Finds the names of hops; for a hop without one, its edge set."""
    named = [one for one in file.settings if one.name == "name" and one.text == hop]
    if named:
        return named
    has_name = {id(one.owner) for one in file.settings if one.name == "name"}
    is_backward = {id(one.owner) for one in file.settings if one.name == "direction" and one.text == "backward"}
    return [
        one
        for one in file.settings
        if one.name == "edge_set"
        and id(one.owner) not in has_name
        and hop == (f"{one.text}_reverse" if id(one.owner) in is_backward else one.text)
    ]


def _of_feature(message: str, file: _UserFile) -> Iterator[int]:
    """Finds a feature in a mapping of the features of a set, which is named as "user" or "nodes/user"."""
    feature = _FEATURE.search(message)
    if feature is None:
        return
    sets = {feature[1], feature[1].rpartition("/")[2]}
    owners = [one.inner for one in file.settings if one.name in sets]
    for one in file.settings:
        if one.name == feature[2] and any(one.owner is owner for owner in owners):
            yield one.line


def _of_text(message: str, file: _UserFile) -> Sequence[int]:
    got = _GOT.search(message)
    return file.lines_of_text(got[1]) if got else []


def _named_in(message: str) -> UserPlace | None:
    """Finds a local file and a line in it that a message names."""
    found = _LINE.search(message)
    # A path may have spaces, and any words before it.
    words = found[1].split(" in ")[1:] if found else []
    paths = [" in ".join(words[start:]) for start in range(len(words))]
    of_file = _LINE_OF_FILE.search(message)
    places = [(path, found[2]) for path in paths if found] + ([(of_file[1], of_file[2])] if of_file else [])
    return next((UserPlace(path=path, line=int(line)) for path, line in places if os.path.isfile(path)), None)
