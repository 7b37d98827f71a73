"""The summary of a finished run: metrics, locations of outputs, and a command to query the model."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tfx_gnn.components.graph_evaluator.metric_names import shown_metric
from tfx_gnn.io.plain_console import escape_controls
from tfx_gnn_pipelines.run_outcome import CACHED, RunOutcome, StepOutcome, tasks_of

_BASELINES = {
    "majority_baseline": "majority class ({class})",
    "mean_baseline": "mean label",
    "random_baseline": "random order",
}
_LEFT_OUT = frozenset({"balanced_accuracy"})


def print_summary(console: Console, outcome: RunOutcome, seconds: float) -> None:
    """Prints the summary of a run."""
    console.print()
    for table in _metrics_tables(outcome.metrics):
        console.print(table)
    for name, task in tasks_of(outcome.metrics).items():
        trees = task.get("trees_baseline", {})
        words = trees.get("meaning") or (f"not compared: {trees['reason']}" if trees else "")
        if words:
            _print_line(console, "trees", f"task {name!r}: {words}" if name else words)
    compared = outcome.metrics.get("latest_blessed_model")
    if compared is not None:
        _print_line(console, "compared with", compared["description"])
    console.print()
    _print_places(console, outcome)
    _print_line(console, "skew", f"{outcome.skew}, {shorten(outcome.skew_file)}")
    _print_warnings(console, outcome.warnings)
    console.print()
    _print_line(console, "components", _components_line(outcome.steps, seconds))
    if outcome.is_pushed:
        model, examples = shorten(outcome.pushed_model), shorten(outcome.examples_dir)
        _print_command(
            console,
            "Ask the pushed model:",
            [_program("tfx-gnn"), "predict", "--model-dir", model, "--examples", examples],
            ["--limit", "5"],
        )
    else:
        _print_not_pushed(console, outcome)


def summarize(outcome: RunOutcome, seconds: float) -> dict[str, Any]:
    """Summarizes a run for programs.

    Args:
        outcome: what it found.
        seconds: how long it took.

    Returns:
        Plain values: whether the model was pushed and where to, the evaluation, and by component its state and outputs.
    """
    is_pushed = outcome.is_pushed
    return {
        "pipeline": outcome.pipeline,
        "root": outcome.root,
        "pushed": is_pushed,
        "pushed_model": outcome.pushed_model if is_pushed else "",
        "seconds": round(seconds, 1),
        "metrics": outcome.metrics,
        "warnings": list(outcome.warnings),
        "components": {step.component: {"state": step.state, "outputs": step.outputs} for step in outcome.steps},
    }


def shorten(path: str) -> str:
    """Returns an absolute path relative to the current folder if it is inside it, otherwise unchanged."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _metrics_tables(metrics: Mapping[str, Any]) -> list[Table]:
    """One table per task."""
    return [_metrics_table(task, name, metrics["split"]) for name, task in tasks_of(metrics).items()]


def _metrics_table(metrics: Mapping[str, Any], task: str, split: str) -> Table:
    table = Table(title=f"{split} split, {metrics['num_examples']} examples", title_justify="left")
    (kind,) = [kind for kind in _BASELINES if kind in metrics]
    baseline = metrics[kind]
    names = [name for name in metrics if name in baseline and name not in _LEFT_OUT]
    table.add_column(task)
    for name in names:
        table.add_column(shown_metric(name), justify="right")
    table.add_row("this model", *(f"{metrics[name]:.3f}" for name in names), style="bold")
    if "change" in metrics:
        blessed = metrics["change"]["latest_blessed"]
        table.add_row("latest blessed", *(f"{blessed[name]:.3f}" if name in blessed else "" for name in names))
    trees = metrics.get("trees_baseline", {}).get("trees", {})
    if trees:
        table.add_row("trees alone", *(f"{trees[name]:.3f}" if name in trees else "" for name in names))
    shown = _BASELINES[kind].format(**baseline)
    table.add_row(Text(escape_controls(shown)), *(f"{baseline[name]:.3f}" for name in names))
    return table


def _print_places(console: Console, outcome: RunOutcome) -> None:
    if outcome.search:
        _print_line(console, "search", f"{outcome.search}, {shorten(outcome.search_report)}")
    places = dict(outcome.places)
    lineage = places.pop("lineage")
    if outcome.is_pushed:
        places["pushed model"] = outcome.pushed_model
    for name, path in {**places, "lineage": lineage}.items():
        _print_line(console, name, shorten(path))
    logs_dir = shlex.quote(shorten(outcome.logs_dir))
    _print_line(console, "TensorBoard", f"{shlex.quote(_program('tensorboard'))} --logdir {logs_dir}")


def _print_not_pushed(console: Console, outcome: RunOutcome) -> None:
    if outcome.pushed_model:
        # Not pushed again by itself: somebody may have removed a version that should not serve.
        record = next(step.outputs["pushed_model"] for step in outcome.steps if step.component == "GraphPusher")
        console.print(
            f"An earlier run pushed the model, but {shorten(outcome.pushed_model)} is gone. To push it again, remove "
            f"the record of that push, {shorten(record)}, and run again.",
            style="bold yellow",
            markup=False,
            highlight=False,
        )
        return
    console.print("The model was not pushed, because it was not blessed:", style="bold yellow")
    for reason in outcome.objections:
        console.print(f"  {reason}", markup=False, highlight=False)


def _components_line(steps: Sequence[StepOutcome], seconds: float) -> str:
    cached = [step.component for step in steps if step.state == CACHED]
    ran = [step.component for step in steps if step.state != CACHED]
    parts = [f"{len(steps)} in {seconds:.0f} s"]
    for what, names in (("cached", cached), ("run", ran)):
        if names:
            parts.append(f"{what}: {'all' if len(names) == len(steps) else ', '.join(names)}")
    return "; ".join(parts)


def _print_warnings(console: Console, warnings: Sequence[str]) -> None:
    if not warnings:
        return
    counted = "1 warning:" if len(warnings) == 1 else f"{len(warnings)} warnings, the most severe first:"
    console.print(f"\n{counted}", style="bold yellow", highlight=False)
    for warning in warnings:
        console.print(f"  {escape_controls(warning)}", markup=False, highlight=False, soft_wrap=True)


def _program(name: str) -> str:
    """Path of a program of this environment, as the user can type it in the current folder."""
    path = os.path.join(os.path.dirname(sys.executable), name)
    return shorten(path) if os.path.exists(path) else name


def _print_line(console: Console, name: str, value: str) -> None:
    console.print(
        Text(f"{name:<13} ", style="dim"), Text(escape_controls(value)), sep="", soft_wrap=True, highlight=False
    )


def _print_command(console: Console, title: str, command: Sequence[str], options: Sequence[str]) -> None:
    console.print()
    console.print(title, style="bold")
    console.print("  " + shlex.join([*command, *options]), soft_wrap=True, markup=False, highlight=False)
