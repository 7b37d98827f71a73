"""Loads the user's functions by name, and fingerprints their code.

Caching compares the inputs of a component, and a function's name says nothing about
its code. The fingerprint does: it changes whenever the named module changes, or any
of the user's own modules that it imports.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import pkgutil
import sys
import sysconfig
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import tfx_gnn
from tfx_gnn.io.suggestions import did_you_mean


@dataclasses.dataclass(frozen=True)
class _TopLevels:
    """The user's own packages and modules: some by name, and all that are in a folder."""

    names: frozenset[str]
    folder: Path | None

    def hold(self, module_name: str) -> bool:
        top_level = module_name.partition(".")[0]
        if top_level in self.names:
            return True
        if self.folder is None or not top_level:
            return False
        return any((self.folder / file).is_file() for file in (f"{top_level}.py", f"{top_level}/__init__.py"))


def load_function(reference: str) -> Callable[..., Any]:
    """Imports the function named by a reference such as "package.module:function"."""
    function = load_object(reference)
    if not callable(function):
        raise _no_function(reference, type(function).__name__)
    return function


def load_object(reference: str) -> Any:
    """Imports the object named by a reference such as "package.module:NAME", a function or anything else."""
    module_name, name = split_reference(reference)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise
        advice = f"or put its folder on PYTHONPATH.{alike_module(error.name)}"
        raise ModuleNotFoundError(
            f"`reference` must name an importable module; got {reference!r}. Install the package that holds "
            f"it in the environment that runs the pipeline, {advice}",
            name=error.name,
        ) from error
    value = getattr(module, name, None)
    if value is None:
        raise _no_function(reference, "missing", did_you_mean(name, dir(module)))
    return value


def alike_module(module_name: str) -> str:
    """Suggests a module of the package, or of the current folder, in which one cannot be found; "" if none is alike."""
    package, _, name = module_name.rpartition(".")
    folders = list(getattr(sys.modules.get(package), "__path__", ())) if package else [os.getcwd()]
    advice = did_you_mean(name, [found.name for found in pkgutil.iter_modules(folders)], otherwise="")
    return f" {advice}" if advice else ""


def _no_function(reference: str, what: str, advice: str = "Check the spelling.") -> ValueError:
    name = reference.partition(":")[2]
    return ValueError(
        f"`reference` must name a function of the module; got {reference!r}, where {name!r} is {what}. {advice}"
    )


def fingerprint_function(reference: str) -> str:
    """Hashes the source code that a reference leads to, without running it.

    It covers the named module and every module that it imports, directly or
    indirectly, from its own top-level package or from what stands beside it: the modules in
    that package's folder, or, where packages are installed, those of the same distribution.
    So the hash is the same in a project's folder and in an image that has it installed. Of
    other packages, only this library's version counts.
    """
    module_name, function_name = split_reference(reference)
    digest = hashlib.sha256(f"{tfx_gnn.__version__}:{function_name}".encode())
    sources: dict[str, bytes] = {}
    _collect_sources(module_name, _own_top_levels(module_name), sources)
    for name in sorted(sources):
        digest.update(name.encode() + b"\0" + hashlib.sha256(sources[name]).digest())
    return digest.hexdigest()


def split_reference(reference: str) -> tuple[str, str]:
    """Splits "package.module:function" into the names of the module and the function.

    Raises:
        ValueError: if the reference has another form.
    """
    module_name, colon, function_name = reference.partition(":")
    parts = [*module_name.split("."), function_name]
    if not colon or not all(part.isidentifier() for part in parts):
        raise ValueError(
            f"`reference` must have the form 'package.module:function'; got {reference!r}. "
            "Name the function by its importable module."
        )
    return module_name, function_name


def _own_top_levels(module_name: str) -> _TopLevels:
    """Finds the user's own top-level packages and modules, given one of their modules."""
    top_level = module_name.partition(".")[0]
    path = _source_path(top_level)
    if path is None:  # A namespace package.
        return _TopLevels(names=frozenset([top_level]), folder=None)
    folder = (path.parent if path.name == "__init__.py" else path).parent.resolve()
    together = same_distribution(top_level, folder)
    if is_installation(folder) or together:
        return _TopLevels(names=together | {top_level}, folder=None)
    return _TopLevels(names=frozenset([top_level]), folder=folder)


def is_installation(folder: Path) -> bool:
    """Tells whether a folder is one into which Python itself or packages are installed."""
    installed = {Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    # Debian keeps its packages next to the folder that sysconfig names, not in it.
    return folder in installed or folder.name in ("site-packages", "dist-packages")


def same_distribution(top_level: str, folder: Path) -> frozenset[str]:
    """Names the top-level packages and modules that were installed into a folder together with one of them."""
    together: set[str] = set()
    for distribution in importlib.metadata.distributions(path=[str(folder)]):
        record = distribution.read_text("RECORD") or ""
        files = [line.partition(",")[0].strip('"') for line in record.splitlines()]
        names = {name.removesuffix(".py") for name in (file.partition("/")[0] for file in files)}
        if top_level in names:
            together |= {name for name in names if name.isidentifier()}
    # This library counts by its version, also for the tasks that come with it.
    return frozenset(together - {tfx_gnn.__name__})


def _collect_sources(module_name: str, own: _TopLevels, sources: dict[str, bytes]) -> None:
    path = _source_path(module_name)
    if path is None:
        raise ModuleNotFoundError(
            f"`reference` must name a module with a Python source file; got {module_name!r}. "
            "Install the package that holds it, or put its folder on PYTHONPATH.",
            name=module_name,
        )
    package = module_name if path.name == "__init__.py" else module_name.rpartition(".")[0]
    sources[module_name] = path.read_bytes()
    for name in imported_names(ast.parse(sources[module_name], filename=str(path)), package):
        if name not in sources and own.hold(name) and _source_path(name) is not None:
            _collect_sources(name, own, sources)


def _source_path(module_name: str) -> Path | None:
    spec = _find_spec(module_name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _find_spec(module_name: str) -> ModuleSpec | None:
    parent = module_name.rpartition(".")[0]
    if parent:
        # Searching inside a module would import that module; a package's `__init__` is run in any case.
        parent_spec = _find_spec(parent)
        if parent_spec is None or parent_spec.submodule_search_locations is None:
            return None
    try:
        return importlib.util.find_spec(module_name)
    except ModuleNotFoundError:
        return None


def imported_names(tree: ast.Module, package: str) -> set[str]:
    """Returns names that may be modules: `from a import b` gives both `a` and `a.b`.

    Args:
        tree: the source of a module.
        package: the package that its relative imports start from.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            names.add(base)
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names
