"""The command `check`: finds in seconds what would stop a pipeline later."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tfx_gnn.cli import arguments
from tfx_gnn.io.quiet_libraries import quiet_first_compilation

if TYPE_CHECKING:
    from tfx_gnn_pipelines.checks.findings import Finding, PipelineCheck

_PROJECT_HELP = (
    "Folder with project.yaml, or such a file; package.module:ATTRIBUTE for a task in Python; the name of a bundled "
    "task."
)


def check(
    project: Annotated[
        str, typer.Argument(help=_PROJECT_HELP, metavar="PROJECT", show_default="the current folder")
    ] = "",
    *,
    tables: Annotated[str, typer.Option(help="Folder or URI of the tables.", show_default="the project's own")] = "",
    options: Annotated[
        str, typer.Option(help="YAML file that changes the project, as for `run`.", metavar="FILE", show_default=False)
    ] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="One option, as for `run`; repeatable.", metavar="NAME=VALUE", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Find in seconds what would stop a pipeline: names, tables, splits, transform, model and thresholds.

    Reads the tables, traces the transform, and tries transform and model on a few examples; trains nothing. Exits
    with 1 if it finds an error.
    """
    from tfx_gnn_pipelines.checks.pipeline_check import check_project
    from tfx_gnn_pipelines.project import find_project_file, read_config

    file = find_project_file(project)
    shortcuts = {"tables_dir": tables} if tables else {}
    quiet_first_compilation()
    # What the user's code prints must not end up in the JSON.
    with contextlib.redirect_stdout(sys.stderr):
        found = check_project(
            functools.partial(read_config, project, options_file=options, assignments=set_ or [], shortcuts=shortcuts),
            references=[] if file or ":" not in project else [project],
            files=[file] if file else [],
        )
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    else:
        show_check(found)
    if not found.passed:
        raise typer.Exit(arguments.REFUSED_EXIT_CODE)


def show_check(found: PipelineCheck) -> None:
    """Prints what a check looked at and found, and its verdict as the last line."""
    console = arguments.console
    for line in found.looked_at:
        console.print(f"checked      {line}", style="dim", markup=False, highlight=False, soft_wrap=True)
    for line in found.not_checked:
        console.print(f"not checked  {line}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    for finding in found.findings:
        _show_finding(finding)
    numbers = {"error": len(found.errors), "warning": len(found.findings) - len(found.errors)}
    counts = [f"{number} {word}{'' if number == 1 else 's'}" for word, number in numbers.items() if number]
    verdict = " and ".join(counts) or "nothing wrong"
    console.print(
        f"{'ready to run' if found.passed else 'NOT ready to run'}: {verdict}, {found.seconds:.1f} s",
        style="green" if found.passed else "red",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _show_finding(finding: Finding) -> None:
    style = "red" if finding.severity == "error" else "yellow"
    arguments.console.print(
        f"{finding.severity:<8} {finding.step}: {finding.message}",
        style=style,
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
