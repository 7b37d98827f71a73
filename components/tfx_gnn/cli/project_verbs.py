"""Verbs around a user's project: new."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from typing import Annotated

import typer

from tfx_gnn.cli import arguments
from tfx_gnn.cli.starter_project import create_project


def new(
    directory: Annotated[
        str, typer.Argument(help="Folder to make; absent or empty.", show_default=False, metavar="FOLDER")
    ],
    *,
    name: Annotated[
        str, typer.Option(help="Name of the project's Python package.", show_default="that of the folder")
    ] = "",
) -> None:
    """Start a project of your own: tables, plan, transform, model and a test that run as they stand."""
    folder, name = create_project(directory, name=name)
    arguments.say_written(project=str(folder))
    commands = [["cd", os.path.relpath(folder)], [_python(), "-m", "tfx_gnn_pipelines", f"{name}:TASK"]]
    arguments.console.print("\nTrain its model on the example data; README.md there says how to go on:", style="bold")
    for command in commands:
        arguments.console.print("  " + shlex.join(command), markup=False, soft_wrap=True)


def _python() -> str:
    """This interpreter, as it can be typed in any folder."""
    found = shutil.which("python")
    is_this = found is not None and os.path.dirname(os.path.abspath(found)) == os.path.dirname(sys.executable)
    return "python" if is_this else sys.executable
