"""The summary of a finished run: metrics, locations of outputs, and a command to query the model."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tfx_gnn.components.graph_evaluator.stage import METRICS_FILE
from tfx_gnn.components.graph_evaluator.thresholds import shown_metric
from tfx_gnn.components.graph_skew_validator.report import SKEW_FILE, read_skew_report
from tfx_gnn.io.plain_console import escape_controls
from tfx_gnn.records import graph_schema_path
from tfx_gnn.records.blessing import INFRA_PREFIX, is_blessed, read_reasons
from tfx_gnn.records.examples_folder import split_dir
from tfx_gnn.records.size_constraints_file import SIZE_CONSTRAINTS_FILE
from tfx_gnn.reports.report_page import REPORT_FILE
from tfx_gnn.serving.model_interface import MODEL_ARTIFACT_FOLDER
from tfx_gnn.training.best_hyperparameters import BEST_HYPERPARAMETERS_FILE
from tfx_gnn_pipelines.config import PipelineConfig
from tfx_gnn_pipelines.lineage import ArtifactRecord, ComponentRun

_CACHED = "cached"
_BASELINES = {
    "majority_baseline": "majority class ({class})",
    "mean_baseline": "mean label",
    "random_baseline": "random order",
}
_LEFT_OUT = frozenset({"balanced_accuracy"})


def print_summary(console: Console, config: PipelineConfig, runs: Sequence[ComponentRun], seconds: float) -> bool:
    """Prints the summary of a run in which every component succeeded.

    Returns whether the model was pushed and the pushed version still exists.
    """
    outputs = {run.component: run.outputs for run in runs}
    evaluation = outputs["GraphEvaluator"]["evaluation"]
    with open(os.path.join(evaluation.uri, METRICS_FILE), encoding="utf-8") as file:
        metrics: dict[str, Any] = json.load(file)
    pushed = outputs["GraphPusher"]["pushed_model"]
    version_dir = str(pushed.properties.get("pushed_destination", ""))
    is_there = bool(version_dir) and os.path.isdir(version_dir)

    console.print()
    for table in _metrics_tables(metrics):
        console.print(table)
    console.print()
    _print_places(console, config, outputs, version_dir if is_there else "")
    _print_line(console, "skew", _skew_line(outputs["GraphSkewValidator"]["skew"]))
    console.print()
    _print_line(console, "components", _components_line(runs, seconds))
    if is_there:
        examples_dir = split_dir(outputs["SubgraphExampleGen"]["examples"].uri, config.graph_evaluator.split)
        _print_command(
            console,
            "Ask the pushed model:",
            [_program("tfx-gnn"), "predict", "--model-dir", shorten(version_dir), "--examples", shorten(examples_dir)],
            ["--limit", "5"],
        )
    else:
        verdicts = {"": outputs["GraphEvaluator"]["blessing"]}
        verdicts[INFRA_PREFIX] = outputs["GraphSkewValidator"]["infra_blessing"]
        _print_not_pushed(console, version_dir, verdicts)
    return is_there


def summarize(config: PipelineConfig, runs: Sequence[ComponentRun], seconds: float) -> dict[str, Any]:
    """Summarizes a run in which every component succeeded, for programs.

    Args:
        config: the pipeline.
        runs: the components' executions.
        seconds: how long the run took.

    Returns:
        Plain values: whether the model was pushed and where to, the evaluation, and by component its state and outputs.
    """
    outputs = {run.component: run.outputs for run in runs}
    with open(os.path.join(outputs["GraphEvaluator"]["evaluation"].uri, METRICS_FILE), encoding="utf-8") as file:
        metrics = json.load(file)
    version_dir = str(outputs["GraphPusher"]["pushed_model"].properties.get("pushed_destination", ""))
    is_there = bool(version_dir) and os.path.isdir(version_dir)
    return {
        "pipeline": config.pipeline_name,
        "root": config.root,
        "pushed": is_there,
        "pushed_model": version_dir if is_there else "",
        "seconds": round(seconds, 1),
        "metrics": metrics,
        "components": {
            run.component: {
                "state": run.state,
                "outputs": {name: artifact.uri for name, artifact in run.outputs.items()},
            }
            for run in runs
        },
    }


def shorten(path: str) -> str:
    """Returns an absolute path relative to the current folder if it is inside it, otherwise unchanged."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _metrics_tables(metrics: Mapping[str, Any]) -> list[Table]:
    """One table per task."""
    tasks: Mapping[str, Any] = metrics.get("tasks", {"": metrics})
    return [_metrics_table(task, name, metrics["split"]) for name, task in tasks.items()]


def _metrics_table(metrics: Mapping[str, Any], task: str, split: str) -> Table:
    table = Table(title=f"{split} split, {metrics['num_examples']} examples", title_justify="left")
    (kind,) = [kind for kind in _BASELINES if kind in metrics]
    baseline = metrics[kind]
    names = [name for name in metrics if name in baseline and name not in _LEFT_OUT]
    table.add_column(task)
    for name in names:
        table.add_column(shown_metric(name), justify="right")
    table.add_row("this model", *(f"{metrics[name]:.3f}" for name in names), style="bold")
    shown = _BASELINES[kind].format(**baseline)
    table.add_row(Text(escape_controls(shown)), *(f"{baseline[name]:.3f}" for name in names))
    return table


def _print_places(
    console: Console, config: PipelineConfig, outputs: Mapping[str, Mapping[str, ArtifactRecord]], version_dir: str
) -> None:
    budgets_dir = outputs["SizeConstraintLearner"]["size_constraints"].uri
    logs_dir = shorten(os.path.join(outputs["GraphTrainer"]["model_run"].uri, "logs"))
    if "GraphTuner" in outputs:
        _print_line(console, "search", _search_line(outputs["GraphTuner"]["best_hyperparameters"]))
    places = {
        "graph schema": graph_schema_path(outputs["GraphSchemaGen"]["graph_schema"].uri),
        "budgets": os.path.join(budgets_dir, SIZE_CONSTRAINTS_FILE),
        "budget report": os.path.join(budgets_dir, REPORT_FILE),
        "model": os.path.join(outputs["GraphTrainer"]["model"].uri, MODEL_ARTIFACT_FOLDER),
        "metrics": os.path.join(outputs["GraphEvaluator"]["evaluation"].uri, METRICS_FILE),
        "pushed model": version_dir,
        "lineage": config.metadata_path,
    }
    for name, path in places.items():
        if path:
            _print_line(console, name, shorten(path))
    _print_line(console, "TensorBoard", f"{shlex.quote(_program('tensorboard'))} --logdir {shlex.quote(logs_dir)}")


def _search_line(best: ArtifactRecord) -> str:
    with open(os.path.join(best.uri, BEST_HYPERPARAMETERS_FILE), encoding="utf-8") as file:
        values = [f"{name}={value}" for name, value in json.load(file).items()]
    return ", ".join([*values, shorten(os.path.join(best.uri, REPORT_FILE))])


def _skew_line(skew: ArtifactRecord) -> str:
    report = read_skew_report(skew.uri)
    path = shorten(os.path.join(skew.uri, SKEW_FILE))
    return f"largest difference {report.largest_difference:g} in {report.num_compared} examples, {path}"


def _print_not_pushed(console: Console, version_dir: str, verdicts: Mapping[str, ArtifactRecord]) -> None:
    if version_dir:
        console.print(
            f"An earlier run pushed the model, but {shorten(version_dir)} is gone. Run with --no-cache to push again.",
            style="bold yellow",
            markup=False,
            highlight=False,
        )
        return
    console.print("The model was not pushed, because it was not blessed:", style="bold yellow")
    for prefix, verdict in verdicts.items():
        for reason in [] if is_blessed(verdict.uri, prefix=prefix) else read_reasons(verdict.uri):
            console.print(f"  {reason}", markup=False, highlight=False)


def _components_line(runs: Sequence[ComponentRun], seconds: float) -> str:
    cached = [run.component for run in runs if run.state == _CACHED]
    ran = [run.component for run in runs if run.state != _CACHED]
    parts = [f"{len(runs)} in {seconds:.0f} s"]
    for what, names in (("cached", cached), ("run", ran)):
        if names:
            parts.append(f"{what}: {'all' if len(names) == len(runs) else ', '.join(names)}")
    return "; ".join(parts)


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
