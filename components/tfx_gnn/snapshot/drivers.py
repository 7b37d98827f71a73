"""Imports the driver of a source when it is used."""

from __future__ import annotations

import importlib
from typing import Any


def import_driver(module: str, extra: str) -> Any:
    """Imports a module.

    Args:
        module: its name, such as "adbc_driver_postgresql.dbapi".
        extra: the extra of this package that installs it.

    Raises:
        ModuleNotFoundError: if it is not installed; the message has the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        raise ModuleNotFoundError(
            f"`source` must have its driver {package!r} installed; got none. Install tfx-gnn with its extra {extra!r}.",
            name=package,
        ) from error
