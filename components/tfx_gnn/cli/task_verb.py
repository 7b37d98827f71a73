"""The command `task`: makes the seeds of a prediction task from tables, and shows what they are."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.prediction_task_flags import with_prediction_task
from tfx_gnn.prediction_tasks.task_options import PredictionTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfx_gnn.prediction_tasks import AnchorStatistics, SeedTableReport

_MOST_SHOWN = 40


@with_prediction_task
def task(
    project: Annotated[
        str,
        typer.Argument(
            help="Folder with project.yaml that has a `task`, or such a file; or, with --predict, a folder of tables "
            "with graph_schema.pbtxt.",
            metavar="PROJECT",
            show_default="the current folder",
        ),
    ] = "",
    *,
    asked: PredictionTask | None = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print the SQL, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Make the seeds of a prediction task: entities, times, labels and splits, from tables by DuckDB.

    For a project, the seed table is written beside its tables, as `tfx-gnn run` does anew. For a folder of tables,
    nothing is written.
    """
    from tfx_gnn.prediction_tasks import make_seed_table
    from tfx_gnn_pipelines.project import make_seeds, read_prediction_task

    path = ""
    if asked is not None:
        report = make_seed_table(asked, project or ".", "")
    else:
        found = read_prediction_task(project)
        if found is None:
            raise ValueError(
                f"`PROJECT` must have a `task` that says what is predicted for which entities; got {project or '.'!r} "
                "without one. Write one into project.yaml, or describe it by --predict and --for-each."
            )
        report, path = make_seeds(found), found.seed_table
    if as_json:
        typer.echo(json.dumps({**dataclasses.asdict(report), "seed_table": path}))
        return
    if explain:
        for statement in report.statements:
            arguments.console.print(f"{statement};\n", markup=False, highlight=False, soft_wrap=True)
    show_seeds(report)
    if path:
        arguments.say_written(seed_table=os.path.normpath(path))


def show_seeds(report: SeedTableReport) -> None:
    """Prints how many seeds a task has, by split and anchor, and what became of the other candidates."""
    reasons = sorted({reason for split in report.splits for reason in split.dropped})
    has_mean = report.description.label_kind != "text"
    mean = {"truth": "base rate", "number": "mean label"}.get(report.description.label_kind, "")
    shown = Table(
        "split", "anchor", "candidates", *(reason.replace("_", " ") for reason in reasons), "seeds",
        *([mean] if has_mean else []), title=f"Seeds: {report.description.task.for_each}",
    )  # fmt: skip
    for column in shown.columns[2:]:
        column.justify = "right"
    for row in _rows(report):
        numbers = (row.num_candidates, *(row.dropped.get(reason, 0) for reason in reasons), row.num_seeds)
        label: list[Any] = ["" if row.mean_label is None else f"{row.mean_label:.4g}"] if has_mean else []
        shown.add_row(row.split, _as_shown(row.time), *(f"{number:,}" for number in numbers), *label)
    arguments.console.print(shown)
    for remark in report.remarks:
        arguments.console.print(remark, style="yellow", markup=False, soft_wrap=True)


def _rows(report: SeedTableReport) -> Sequence[AnchorStatistics]:
    """Lists the anchors of each split, or only the splits where the anchors are too many to read."""
    if len(report.anchors) > _MOST_SHOWN:
        return report.splits
    return [
        row
        for split in report.splits
        for row in (*(anchor for anchor in report.anchors if anchor.split == split.split), split)
    ]


def _as_shown(time: str) -> str:
    return time.removesuffix(" 00:00:00") or "all"
