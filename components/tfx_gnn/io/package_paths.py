"""Paths inside of Python packages, which are the same wherever a package is installed."""

from __future__ import annotations

import importlib.util
import os

PACKAGE_SCHEME = "package://"
"""Begins a path such as `package://my_graph/data`, the folder `data` in the package `my_graph`."""


def resolve_package_path(path: str) -> str:
    """Returns where a path inside of a package lies on this machine; other paths are returned unchanged.

    The package is searched, not imported.

    Raises:
        ModuleNotFoundError: if the package is not installed here.
        ValueError: if the path leaves the package.
    """
    if not path.startswith(PACKAGE_SCHEME):
        return path
    package, _, inside = path.removeprefix(PACKAGE_SCHEME).partition("/")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"`path` must be in a package that is installed; got {path!r}, and there is no package {package!r}. "
            "Install it in the environment or image that runs this.",
            name=package,
        )
    if ".." in inside.split("/"):
        raise ValueError(f"`path` must stay inside its package; got {path!r}. Leave out '..'.")
    return os.path.join(next(iter(spec.submodule_search_locations)), inside)
