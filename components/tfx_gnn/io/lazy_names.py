"""Imports the public names of a package when they are first used.

A package whose `__init__.pyi` says `from tfx_gnn.pkg.module import Name as Name` provides `Name` at run time with

    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

One list serves both sides: type checkers and editors read the stub, and a module is imported only if its
names are used.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def lazy_names(package: str, init_file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns `__getattr__`, `__dir__` and `__all__` of a package, from the stub next to its `__init__.py`."""
    stub = ast.parse(Path(init_file).with_suffix(".pyi").read_text(encoding="utf-8"))
    modules = {
        alias.name: statement.module
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
    }

    def get_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    names = sorted(modules)
    return get_name, lambda: sorted({*vars(sys.modules[package]), *names}), names
