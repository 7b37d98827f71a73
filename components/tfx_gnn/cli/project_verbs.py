"""The command `new`: copies the starter project that comes with this package."""

from __future__ import annotations

import importlib.machinery
import keyword
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

import tfx_gnn
from tfx_gnn.cli import arguments

TEMPLATE_NAME = "my_graph"
"""Name of the template's Python package, which a new project's name replaces."""


TEMPLATE_ENTRIES = (
    ".dockerignore",
    ".github",
    ".gitignore",
    ".project.schema.json",
    "Dockerfile",
    "README.md",
    "cloudbuild.yaml",
    "project.yaml",
    "pyproject.toml",
    TEMPLATE_NAME,
    "tests",
)
"""Entries of a new project; the template's folder may hold more, such as outputs of its own runs."""


_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


_MAX_NAME_LENGTH = 63  # what labels of Kubernetes hold


_FOLDERS_OF_A_PROJECT = ("runs", "tests")


def create_project(directory: str, *, name: str = "") -> tuple[Path, str]:
    """Writes a complete small project that runs as is.

    It is written into a hidden folder next to `directory` and renamed when complete, so
    a killed command leaves nothing that looks like a project.
    """
    from tfx_gnn.io.atomic_folder import atomic_folder

    template = _template_folder(Path(tfx_gnn.__file__).parent)
    folder = Path(directory).resolve()
    if name:
        _check_name("name", name, "Choose another name.")
    else:
        name = folder.name.replace("-", "_")
        _check_name("directory", name, "Give the Python package a name of its own by --name.")
    with atomic_folder(directory, name="directory") as partial:
        for entry in TEMPLATE_ENTRIES:
            _copy(template / entry, Path(partial) / entry.replace(TEMPLATE_NAME, name), name)
    return folder, name


def _template_folder(package_folder: Path) -> Path:
    # The first is for a wheel; the second for a checkout, where the library is in components/tfx_gnn.
    candidates = [package_folder / "templates" / "starter", package_folder.parents[1] / "templates" / "starter"]
    for folder in candidates:
        if (folder / TEMPLATE_NAME).is_dir():
            return folder
    raise FileNotFoundError(
        f"The installed tfx-gnn must hold its starter project; got none in {[str(path) for path in candidates]}. "
        "Install tfx-gnn again."
    )


def _check_name(argument: str, name: str, advice: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_LENGTH or keyword.iskeyword(name):
        raise ValueError(
            f"`{argument}` must make a Python package's name of lower-case letters, digits and single underscores, at "
            f"most {_MAX_NAME_LENGTH} characters, starting with a letter; got {name!r}. {advice}"
        )
    if name in _FOLDERS_OF_A_PROJECT or name in sys.stdlib_module_names or _is_installed(name):
        raise ValueError(
            f"`{argument}` must not make the name of an installed package, or of a folder that every project has "
            f"({', '.join(_FOLDERS_OF_A_PROJECT)}), because one would hide the other; got {name!r}. {advice}"
        )


def _is_installed(name: str) -> bool:
    # Skip the current folder: it may hold the new project, or an old one of the same name.
    here = os.getcwd()
    search_path = [place for place in sys.path if os.path.abspath(place) != here]
    return importlib.machinery.PathFinder.find_spec(name, search_path) is not None


def _copy(source: Path, target: Path, name: str) -> None:
    if source.is_dir():
        target.mkdir()
        for entry in sorted(source.iterdir()):
            if entry.name != "__pycache__":
                _copy(entry, target / entry.name, name)
        return
    text = source.read_bytes().decode("utf-8")
    for old, new in ((TEMPLATE_NAME, name), (TEMPLATE_NAME.replace("_", "-"), name.replace("_", "-"))):
        text = text.replace(old, new)
    target.write_bytes(text.encode("utf-8"))


def new(
    directory: Annotated[
        str, typer.Argument(help="Folder to create; must be absent or empty.", show_default=False, metavar="FOLDER")
    ],
    *,
    name: Annotated[
        str, typer.Option(help="Name of the project's Python package.", show_default="that of the folder")
    ] = "",
) -> None:
    """Start a project of your own: tables, plan, transform, model and a test, all ready to run."""
    folder, name = create_project(directory, name=name)
    arguments.say_written(project=str(folder))
    commands = [["cd", os.path.relpath(folder)], [*_command(), "run"]]
    arguments.console.print("\nTrain its model on the example data; README.md there says how to go on:", style="bold")
    for command in commands:
        arguments.console.print("  " + shlex.join(command), markup=False, soft_wrap=True)


def _command() -> list[str]:
    """Returns what starts this program in any folder."""
    folder = os.path.dirname(sys.executable)
    found = shutil.which("tfx-gnn")
    if found is not None and os.path.dirname(os.path.abspath(found)) == folder:
        return ["tfx-gnn"]
    script = shutil.which("tfx-gnn", path=folder)
    return [script] if script else [sys.executable, "-m", "tfx_gnn.cli"]
