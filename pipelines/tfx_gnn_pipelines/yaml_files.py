"""YAML files of options, read as plain values."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """Reads 1e-3 as a number, as JSON and YAML 1.2 do; in YAML 1.1 it is a text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+\Z"), list("-+0123456789")
)


def read_yaml(path: str, *, option: str) -> Any:
    """Reads a file of texts, numbers, lists and mappings; an empty one is an empty mapping.

    Args:
        path: the file.
        option: command-line option that named it.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not YAML, or holds other kinds of values, such as dates.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"`{option}` must name a file; got {path!r}, which is not there. Check the path."
        ) from error
    plain = parse_yaml(text, name=path)
    return {} if plain is None else plain


def parse_yaml(text: str, *, name: str) -> Any:
    """Reads texts, numbers, lists and mappings; errors call the text `name`.

    Raises:
        ValueError: if it is not YAML, or holds other kinds of values, such as dates.
    """
    try:
        # The loader is a safe one.
        plain = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(
            f"`{name}` must be YAML; got text that is not: {' '.join(str(error).split())}. Fix it, or put texts with "
            "special characters in quotes."
        ) from error
    try:
        json.dumps(plain)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must hold texts, numbers, lists and mappings; got another kind of value: {error}. Put dates and "
            "the like in quotes."
        ) from error
    return plain
