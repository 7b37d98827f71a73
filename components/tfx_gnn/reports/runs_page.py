"""The page that lists the runs of all pipelines of a folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tfx_gnn.reports.evaluation_figures import MetricRow, metric_rows
from tfx_gnn.reports.outcome import Outcome, duration_of, outcome_of
from tfx_gnn.reports.report_page import render_page
from tfx_gnn.reports.run_record import RecordedRun
from tfx_gnn.reports.run_warnings import run_warnings, tasks_of

Files = Mapping[str, Mapping[str, Any]]
"""Contents of JSON files of a run, as `RunContents.files`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Row:
    """One run in the list.

    Attributes:
        run: the run.
        page: its page, relative to the list; empty if it has none.
        outcome: how it ended.
        metrics: the first metric of each task, by the task's name.
        num_warnings: number of warnings of its steps.
        seconds: from the start of its first step to the end of the last one.
    """

    run: RecordedRun
    page: str
    outcome: Outcome
    metrics: Mapping[str, MetricRow]
    num_warnings: int
    seconds: float


def render_runs_page(runs: Sequence[tuple[RecordedRun, Files, str]], *, folder: str, num_left_out: int) -> str:
    """Renders the list of runs as one self-contained HTML page.

    Args:
        runs: each run, what its files say, and its page relative to this one; "" without a page.
        folder: the folder with the roots of the pipelines.
        num_left_out: number of runs that are not in the list.
    """
    return render_page(
        "runs.html.j2",
        folder=folder,
        num_left_out=num_left_out,
        rows=[
            _Row(
                run=run,
                page=page,
                outcome=outcome_of(run, files),
                metrics=_first_metrics(files.get("evaluation", {})),
                num_warnings=len(run_warnings(files)),
                seconds=duration_of(run.steps),
            )
            for run, files, page in runs
        ],
    )


def _first_metrics(evaluation: Mapping[str, Any]) -> dict[str, MetricRow]:
    listed = {name: metric_rows(task) for name, task in tasks_of(evaluation).items()}
    return {name: rows[0] for name, rows in listed.items() if rows}
