"""Finds the files that the user's code may consist of, without running any of it.

`user_code.fingerprint_function` hashes the modules that a function imports. This goes further, for those who must not
miss a change: whole packages with all their files, modules that are only named in a text, and files beside them.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from tfx_gnn.io.user_code import imported_names, is_installation, same_distribution

_MODULE_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_LONGEST_NAME = 255
COMPILED = "__pycache__"
"""Folder of compiled modules, which Python writes whenever it imports their sources."""


def code_places(module_names: Iterable[str], *, without: Collection[str] = ()) -> list[str]:
    """Lists the files and package folders that modules may consist of, in alphabetical order.

    These are the whole packages of the modules and, of packages and modules that are not installed, everything that
    their sources name: what they import, and each text in them that is the name of a module or of a file beside the
    package, in it, or beside the source. Of what is installed, the packages of the same distribution belong to it.
    What a program puts together while it runs, such as the name of a module, is not seen.

    Args:
        module_names: modules, each as "package.module".
        without: top-level packages that are neither listed nor followed, unless `module_names` has them.

    Raises:
        ModuleNotFoundError: if one of the modules has no file.
        SyntaxError: if a source is no Python.
        OSError: if a source cannot be read.
    """
    found = _CodePlaces(without)
    for name in module_names:
        if not found.add(name):
            raise ModuleNotFoundError(
                f"`module_names` must name modules with files; got {name!r}. Install the package that holds it, or put "
                "its folder on PYTHONPATH.",
                name=name,
            )
    return sorted(map(str, found.places))


class _CodePlaces:
    def __init__(self, without: Collection[str]) -> None:
        self._without = without
        self._seen: set[str] = set()
        self.places: set[Path] = set()

    def add(self, module_name: str) -> bool:
        """Adds the package or module that holds a module, and what its sources name; False if there is no file."""
        unit = _find_unit(module_name)
        if unit is None:
            return False
        name, place = unit
        if place in self.places:
            return True
        self.places.add(place)
        if is_installation(place.parent):
            for other in same_distribution(name.partition(".")[0], place.parent):
                self._add_installed(other)
        elif name not in self._without:
            self._follow(name, place)
        return True

    def _add_installed(self, name: str) -> None:
        unit = _find_unit(name)
        if unit is not None:
            self.places.add(unit[1])

    def _follow(self, name: str, place: Path) -> None:
        for source in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            tree = _parsed(source)
            inside = [name, *source.relative_to(place).parent.parts]
            package = ".".join(inside) if place.is_dir() else name.rpartition(".")[0]
            texts = {
                node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
            modules = imported_names(tree, package) | {text for text in texts if _MODULE_NAME.fullmatch(text)}
            for module in sorted(modules - self._seen):
                self._add_own(module)
            self.places.update(_files_beside(texts, {place.parent, place if place.is_dir() else place.parent}, source))

    def _add_own(self, module_name: str) -> None:
        """Adds a module that a source names, if it is not one of those that are installed."""
        self._seen.add(module_name)
        top_level = module_name.partition(".")[0]
        if top_level in sys.stdlib_module_names or top_level in self._without:
            return
        unit = _find_unit(module_name)
        if unit is not None and not any(map(is_installation, unit[1].parents)):
            self.add(module_name)


def _parsed(source: Path) -> ast.Module:
    text = source.read_bytes()
    if b"\0" in text:
        # Releases of Python differ in the error they raise.
        raise SyntaxError(f"{source} must be Python; got null bytes.")
    return ast.parse(text, filename=str(source))


def _files_beside(texts: Iterable[str], folders: Collection[Path], source: Path) -> Iterator[Path]:
    for text in texts:
        if text and len(text) <= _LONGEST_NAME and "\n" not in text:
            for folder in {*folders, source.parent}:
                path = os.path.join(folder, text)
                if os.path.isfile(path):
                    yield Path(path)


def _find_unit(module_name: str) -> tuple[str, Path] | None:
    """Finds the outermost package with an `__init__`, or the module, on the way to a module; None if none has a file.

    Packages without an `__init__` are only passed through: they may be any folder.
    """
    found: ModuleSpec | None = None
    name = ""
    for part in module_name.split("."):
        name = f"{name}.{part}" if name else part
        if found is None:
            found = _find_top_level(name)
        else:
            found = PathFinder.find_spec(name, list(found.submodule_search_locations or ()))
        if found is None:
            return None
        if found.origin and found.has_location:
            origin = Path(found.origin).resolve()
            return name, origin.parent if found.submodule_search_locations is not None else origin
        if found.submodule_search_locations is None:
            return None  # built into Python
    return None


def _find_top_level(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ValueError:  # a module that was made while running, such as __main__
        return None
