"""The command `check`: finds in seconds what would stop a pipeline later."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from typing import Annotated

import typer

from tfx_gnn.cli import arguments
from tfx_gnn.io.quiet_libraries import quiet_first_compilation


def check(
    context: typer.Context,
    project: arguments.Project = "",
    *,
    tables: arguments.ProjectTables = "",
    options: arguments.ProjectOptions = "",
    set_: arguments.ProjectSettings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show warnings, and the traceback behind each error.")] = False,
) -> None:
    """Find in seconds what would stop a pipeline: names, tables, splits, transform, model and thresholds.

    Reads the tables, traces the transform, and tries transform and model on a few examples; trains nothing. Exits
    with 1 if it finds an error.
    """
    arguments.say_begun(f"Checking {project or 'the project in this folder'}", as_json=as_json)
    from tfx_gnn_pipelines.checks.check_summary import print_check
    from tfx_gnn_pipelines.checks.pipeline_check import check_project
    from tfx_gnn_pipelines.project import read_config, user_files

    context.obj["debug"] = debug = debug or context.obj["debug"]
    files = user_files(project)
    shortcuts = {"tables_dir": tables} if tables else {}
    if not debug:
        quiet_first_compilation()
    # What the user's code prints must not end up in the JSON.
    with contextlib.redirect_stdout(sys.stderr):
        found = check_project(
            functools.partial(read_config, project, options_file=options, assignments=set_ or [], shortcuts=shortcuts),
            files=files,
            debug=debug,
        )
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    else:
        print_check(arguments.console, found)
    if not found.passed:
        raise typer.Exit(arguments.REFUSED_EXIT_CODE)
