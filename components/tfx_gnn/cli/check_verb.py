"""The command `check`: finds in seconds what would stop a pipeline later."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tfx_gnn.cli import arguments
from tfx_gnn.cli.errors import ERROR_EXIT_CODE
from tfx_gnn.io.quiet_libraries import quiet_first_compilation

if TYPE_CHECKING:
    from tfx_gnn_pipelines.checks.findings import Finding, PipelineCheck

_PROJECT_HELP = "Task of your own as package.module:ATTRIBUTE, or the name of a bundled one."


def check(
    project: Annotated[str, typer.Argument(help=_PROJECT_HELP, metavar="PROJECT", show_default=False)],
    *,
    tables: Annotated[str, typer.Option(help="Folder or URI of the tables.", show_default="the task's own")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Find in seconds what would stop a pipeline: names, tables, splits, transform, model and thresholds.

    Reads the tables, traces the transform, and tries transform and model on a few examples; trains nothing. Exits
    with 1 if it finds an error.
    """
    # What the user's code prints must not end up in the JSON.
    with contextlib.redirect_stdout(sys.stderr):
        found = check_reference(project, tables_dir=tables)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        if not found.passed:
            raise typer.Exit(arguments.REFUSED_EXIT_CODE)
        return
    show_check(found)
    if not found.passed:
        raise typer.Exit(arguments.REFUSED_EXIT_CODE)


def check_reference(reference: str, *, tables_dir: str = "") -> PipelineCheck:
    """Checks the pipeline of a task, which is given as `python -m tfx_gnn_pipelines` takes it."""
    from tfx_gnn_pipelines.checks.pipeline_check import check_project
    from tfx_gnn_pipelines.config import quickstart
    from tfx_gnn_pipelines.task import load_task

    _check_reference(reference)
    quiet_first_compilation()
    return check_project(
        lambda: quickstart(load_task(reference), root=os.path.join("runs", "check"), tables_dir=tables_dir),
        references=[reference] if ":" in reference else [],
    )


def _check_reference(reference: str) -> None:
    """Refuses a bundled task that does not exist, which is wrong usage rather than a finding."""
    from tfx_gnn_pipelines.task import task_names

    if ":" not in reference and reference not in task_names():
        typer.echo(
            f"`PROJECT` must be package.module:ATTRIBUTE or one of {task_names()}; got {reference!r}. Check the "
            "spelling.",
            err=True,
        )
        raise typer.Exit(ERROR_EXIT_CODE)


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
