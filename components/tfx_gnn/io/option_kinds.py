"""Abstract option classes, whose subclass `kind` names in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KIND = "kind"
"""The field of JSON that names a subclass."""

_KINDS: dict[type, Mapping[str, type]] = {}
_DEFAULTS: dict[type, str] = {}


def register_kinds(base: type, kinds: Mapping[str, type[Any]], *, default: str = "") -> None:
    """Declares the names that JSON has for the subclasses of an abstract class.

    Called by the module that defines them, so that code that can name the class can read its options. `default` is
    the name that is meant where none is given; empty if one must be.
    """
    _KINDS[base] = kinds
    _DEFAULTS[base] = default


def abstract_classes() -> tuple[type, ...]:
    """All classes whose subclasses have names."""
    return tuple(_KINDS)


def default_kind(kind: type) -> str:
    """The name that is meant where JSON has none, of the abstract class that `kind` is or derives from; or ""."""
    return next(default for base, default in _DEFAULTS.items() if issubclass(kind, base))


def kinds_of(kind: type) -> Mapping[str, type]:
    """Names of the subclasses of the abstract class that `kind` is, or derives from."""
    return next(kinds for base, kinds in _KINDS.items() if issubclass(kind, base))
