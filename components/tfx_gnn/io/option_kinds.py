"""Abstract option classes, whose subclass is named by `kind` in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KIND = "kind"
"""The JSON field that names a subclass."""

_KINDS: dict[type, Mapping[str, type]] = {}
_DEFAULTS: dict[type, str] = {}


def register_kinds(base: type, kinds: Mapping[str, type[Any]], *, default: str = "") -> None:
    """Declares the JSON names of the subclasses of an abstract class.

    The module that defines them calls this, so that code that can name the class can read its options. `default` is
    the name to use if JSON has none; empty if a name is required.
    """
    _KINDS[base] = kinds
    _DEFAULTS[base] = default


def abstract_classes() -> tuple[type, ...]:
    """Returns all classes whose subclasses have names."""
    return tuple(_KINDS)


def default_kind(kind: type) -> str:
    """Returns the default name, or "", of the abstract class that `kind` is or derives from."""
    return next(default for base, default in _DEFAULTS.items() if issubclass(kind, base))


def kinds_of(kind: type) -> Mapping[str, type]:
    """Returns the subclasses, by name, of the abstract class that `kind` is or derives from."""
    return next(kinds for base, kinds in _KINDS.items() if issubclass(kind, base))
