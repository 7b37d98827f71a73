"""The commands that show what runs of a pipeline found, as pages."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfx_gnn.cli import arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfx_gnn.reports.comparison_page import ComparedRun, Comparison
    from tfx_gnn.reports.run_contents import RunContents
    from tfx_gnn.reports.run_record import RecordedRun

_RUN_HELP = (
    "Root of a pipeline, such as runs/debian_sections, for its latest run; ROOT@N for its run N; the folder of a "
    "project; or that of a pushed version."
)

_DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")

Output = Annotated[str, typer.Option(help="File of the page.", metavar="FILE", show_default=False)]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Only write the page; do not open a browser.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what was found as JSON; open nothing.")]
Data = Annotated[
    bool,
    typer.Option(
        "--data", help="Print statistics of the data by feature and split instead; write no page. Also with --json."
    ),
]


def show(
    run: Annotated[str, typer.Argument(help=_RUN_HELP, show_default="the newest below ./runs", metavar="[RUN]")] = "",
    *,
    output: Output = "",
    no_open: NoOpen = False,
    data: Data = False,
    as_json: AsJson = False,
) -> None:
    """Show a run of a pipeline as one page: data, checks, training, evaluation, skew and push.

    The page is one file that needs no network: send it to whom you like. Runs that failed are shown, too.
    By default it is written to index.html in the run's root, where a run leaves it at its end, or to run_N.html if
    the run is not the latest.
    """
    if data:
        if output:
            raise ValueError(
                f"`--output` must be left out with `--data`, which writes no page; got {output!r}. Leave out one of "
                "them: the page has the same statistics."
            )
        _print_data(run, as_json=as_json)
        return
    from tfx_gnn.reports.report_page import write_page
    from tfx_gnn.reports.run_contents import read_contents
    from tfx_gnn.reports.run_page import render_run_page
    from tfx_gnn_pipelines.recorded_run import newest_root, read_run

    record = read_run(run or newest_root())
    contents = read_contents(record.folders())
    path = output or record.page
    write_page(render_run_page(record, contents), path)
    if as_json:
        typer.echo(json.dumps({"page": os.path.abspath(path), **_found(record, contents)}, indent=2))
        return
    arguments.say_written(page=path)
    _open(path, no_open=no_open)


def _print_data(run: str, *, as_json: bool) -> None:
    # None of these imports TensorFlow.
    from tfx_gnn.cli.data_tables import print_data_figures
    from tfx_gnn.reports.data_summary import read_data_figures
    from tfx_gnn_pipelines.recorded_run import newest_root, read_run

    record = read_run(run or newest_root())
    figures = read_data_figures(record)
    if as_json:
        about = {"root": record.root, "run": record.number, "num_runs": record.num_runs, "name": record.name}
        typer.echo(json.dumps({**about, **figures.as_json()}, indent=2))
        return
    print_data_figures(record, figures)


def _found(run: RecordedRun, contents: RunContents) -> dict[str, Any]:
    from tfx_gnn.reports.evaluation_figures import metric_rows
    from tfx_gnn.reports.outcome import outcome_of
    from tfx_gnn.reports.run_contents import split_sizes
    from tfx_gnn.reports.run_warnings import run_warnings

    outcome = outcome_of(run, contents.files)
    return {
        "root": run.root,
        "run": run.number,
        "num_runs": run.num_runs,
        "name": run.name,
        "outcome": f"{outcome.title} {outcome.text}".strip(),
        "stopped_by_check": list(run.stop),
        "warnings": run_warnings(contents.files),
        "steps": [
            {"component": step.component, "state": step.state, "seconds": step.seconds, "error": step.error}
            for step in run.steps
        ],
        "splits": split_sizes(contents),
        "metrics": {
            name: {row.name: row.value for row in metric_rows(task)} for name, task in contents.tasks().items()
        },
        "problems": list(contents.problems),
    }


def _open(path: str, *, no_open: bool) -> None:
    import sys
    import webbrowser

    # Without a display, a browser for terminals would take this one over.
    has_display = sys.platform in ("darwin", "win32") or any(map(os.environ.get, _DISPLAYS))
    if not no_open and not (has_display and webbrowser.open(Path(path).resolve().as_uri())):
        arguments.console.print("No browser opened; open the page yourself.", style="dim")


def compare(
    runs: Annotated[list[str], typer.Argument(help=_RUN_HELP, metavar="RUN RUN [RUN ...]")],
    *,
    output: Output = "",
    no_open: NoOpen = False,
    as_json: AsJson = False,
) -> None:
    """Set runs side by side: options, data, metrics with paired tests, curves, classes, slices, sizes and times.

    Differences are from the first run. A difference of a metric is called a gain or a loss only if a paired test on the
    examples that both runs evaluated says so. By default the page is written to comparison.html in the first run's
    root.
    """
    # None of these imports TensorFlow.
    from tfx_gnn.reports.comparison_page import MAX_RUNS, name_runs, render_comparison_page
    from tfx_gnn.reports.report_page import write_page
    from tfx_gnn.reports.run_contents import read_contents
    from tfx_gnn_pipelines.recorded_run import read_run

    if not 2 <= len(runs) <= MAX_RUNS:
        raise ValueError(f"`RUN` must be given 2 to {MAX_RUNS} times; got {len(runs)}. Name the runs to compare.")
    records = [read_run(run) for run in runs]
    named = name_runs([(record, read_contents(record.folders(), with_graphs=False)) for record in records])
    named, comparison = _compared(named)
    path = output or os.path.join(records[0].root, "comparison.html")
    write_page(render_comparison_page(named, comparison), path)
    if as_json:
        typer.echo(json.dumps({"page": os.path.abspath(path), **comparison.as_json(named)}, indent=2))
        return
    from tfx_gnn.cli.comparison_tables import print_comparison

    print_comparison(named, comparison)
    arguments.say_written(page=path)
    _open(path, no_open=no_open)


def _compared(runs: Sequence[ComparedRun]) -> tuple[list[ComparedRun], Comparison]:
    """Tests the metrics of all runs against those of the first, and compares all else."""
    import dataclasses

    from tfx_gnn.components.graph_evaluator.run_comparison import compare_evaluations
    from tfx_gnn.reports.comparison_page import compare_runs

    first, *others = runs
    found = [first]
    for one in others:
        tasks = [task for task in first.contents.tasks() if task in one.contents.tasks()]
        of_first, of_other = ((run.title, run.evaluation_folder) for run in (first, one))
        found.append(dataclasses.replace(one, paired=compare_evaluations(of_first, of_other, tasks)))
    return found, compare_runs(found, _defaults_of)


def _defaults_of(component: str) -> dict[str, Any]:
    """Reads the defaults of a step's options as plain JSON; empty for a component of the user's own."""
    from tfx_gnn.io import options_json
    from tfx_gnn.io.option_groups import flat_defaults
    from tfx_gnn_pipelines.config import step_kinds

    kinds = {"".join(part.capitalize() for part in step.split("_")): kind for step, kind in step_kinds().items()}
    if component not in kinds:
        return {}
    return {name: json.loads(options_json.to_json(value)) for name, value in flat_defaults(kinds[component]).items()}
