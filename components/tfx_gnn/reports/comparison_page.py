"""The page that sets runs of pipelines side by side."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.reports import number_texts
from tfx_gnn.reports.data_figures import shown_dtype
from tfx_gnn.reports.evaluation_figures import metric_rows
from tfx_gnn.reports.outcome import Outcome, outcome_of
from tfx_gnn.reports.report_page import NUM_SERIES_COLORS, draw_curves, render_page
from tfx_gnn.reports.run_contents import RunContents
from tfx_gnn.reports.run_page import STEPS, number_or_nan, page_script, script_hash, split_sizes
from tfx_gnn.reports.run_record import RecordedRun

MAX_RUNS = NUM_SERIES_COLORS
"""Runs that fit side by side, each with a colour of its own."""

ABSENT = "\N{EN DASH}"
_ERRORS = ("rmse", "mae", "loss")
_MAX_ROWS = 400
_NOISE_SECONDS = 1.0
_NOISE_SHARE = 0.15
"""Times of the same work differ by so much between runs, whichever is more."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One of the runs.

    Attributes:
        title: name of the run on the page, which no other run has.
        run: what it did.
        contents: what its artifacts say.
        outcome: how it ended.
    """

    title: str
    run: RecordedRun
    contents: RunContents
    outcome: Outcome


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValueRow:
    """A figure of every run.

    Attributes:
        names: what it is, from the general to the particular.
        values: one value for each run; None where a run has none.
        deltas: differences from the first run; None where either is absent.
        moods: "good", "bad" or "plain" for each difference.
    """

    names: tuple[str, ...]
    values: tuple[float | None, ...]
    deltas: tuple[float | None, ...]
    moods: tuple[str, ...]

    @property
    def largest_change(self) -> float:
        """Largest absolute difference from the first run."""
        return max((abs(delta) for delta in self.deltas if delta is not None), default=0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextRow:
    """Something in words that differs between runs.

    Attributes:
        names: what it is, from the general to the particular.
        values: one text for each run.
    """

    names: tuple[str, ...]
    values: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything that differs between runs, and the figures of all.

    Attributes:
        options: options of steps that differ.
        data: splits, schemas and fingerprints that differ.
        metrics: (task, metric) of every run.
        classes: (task, class) and its F1, largest change first.
        slices: (task, feature, value, metric), largest change first.
        sizes: numbers of parameters, padded nodes and the like.
        seconds: seconds of each step; None where a step was cached.
    """

    options: tuple[TextRow, ...]
    data: tuple[TextRow, ...]
    metrics: tuple[ValueRow, ...]
    classes: tuple[ValueRow, ...]
    slices: tuple[ValueRow, ...]
    sizes: tuple[ValueRow, ...]
    seconds: tuple[ValueRow, ...]


def name_runs(runs: Sequence[tuple[RecordedRun, RunContents]]) -> list[ComparedRun]:
    """Gives each run a title that no other run has."""
    titles = [run.title for run, _ in runs]
    if len(set(titles)) < len(titles):
        titles = [run.root if run.num_runs == 1 else f"{run.root}@{run.number}" for run, _ in runs]
    return [
        ComparedRun(title=title, run=run, contents=contents, outcome=outcome_of(run, contents.files))
        for title, (run, contents) in zip(titles, runs, strict=True)
    ]


def compare_runs(runs: Sequence[ComparedRun]) -> Comparison:
    """Compares runs.

    Args:
        runs: at least two; differences are from the first.

    Returns:
        What differs, and the figures of all runs.
    """
    contents = [one.contents for one in runs]
    return Comparison(
        options=tuple(_differing(_options(one.run) for one in runs)),
        data=tuple(_differing(_data(one.run, one.contents) for one in runs)),
        metrics=tuple(_value_rows((_metrics(one) for one in contents), better=_better_metric)),
        classes=_by_change(_value_rows((_classes(one) for one in contents), better=lambda _: 1)),
        slices=_by_change(_value_rows((_slices(one) for one in contents), better=_better_metric)),
        sizes=tuple(_value_rows((_sizes(one) for one in contents), better=lambda _: 0)),
        seconds=tuple(_value_rows((_seconds(one.run) for one in runs), better=lambda _: -1, noise=_is_noise)),
    )


def render_comparison_page(runs: Sequence[ComparedRun]) -> str:
    """Renders runs side by side as one self-contained HTML page."""
    script = page_script("page.js")
    comparison = compare_runs(runs)
    return render_page(
        "comparison.html.j2",
        runs=runs,
        comparison=comparison,
        identical=identical_results(comparison),
        curves=_curves(runs),
        notes=_notes(runs),
        script=script,
        script_hash=script_hash(script),
    )


def identical_results(comparison: Comparison) -> bool:
    """Tells whether all runs that were measured have the same metrics."""
    return bool(comparison.metrics) and not any(row.largest_change for row in comparison.metrics)


def _options(run: RecordedRun) -> dict[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    for step in run.steps:
        for name, value in _flattened(step.options):
            found[step.component, name] = value
    return found


def _flattened(value: Any, prefix: str = "") -> Iterable[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flattened(inner, f"{prefix}.{name}" if prefix else str(name))
    else:
        yield prefix, value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _data(run: RecordedRun, contents: RunContents) -> dict[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    for split, number in split_sizes(contents).items():
        found["examples", split] = number_texts.as_count(number)
    for step in run.steps:
        if step.component == "SubgraphExampleGen" and step.options.get("tables_fingerprint"):
            found["tables", "fingerprint"] = str(step.options["tables_fingerprint"])
    if contents.schema is not None:
        found.update(_schema(contents.schema))
    return found


def _schema(schema: GraphSchema) -> dict[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    for kind, sets in (("node set", schema.node_sets), ("edge set", schema.edge_sets)):
        for name, one in sets.items():
            found[kind, name] = "present"
            for feature, value in one.features.items():
                found[kind, f"{name}.{feature}"] = shown_dtype(value)
    for feature, value in schema.context.features.items():
        found["context", feature] = shown_dtype(value)
    return found


def _differing(by_run: Iterable[Mapping[tuple[str, ...], str]]) -> list[TextRow]:
    tables = list(by_run)
    keys = dict.fromkeys(key for table in tables for key in table)
    rows = [TextRow(names=key, values=tuple(table.get(key, ABSENT) for table in tables)) for key in keys]
    return [row for row in rows if len(set(row.values)) > 1]


def _is_noise(first: float, delta: float) -> bool:
    """Tells whether the same work may take so many seconds more or less."""
    return abs(delta) < max(_NOISE_SECONDS, _NOISE_SHARE * first)


def _value_rows(
    by_run: Iterable[Mapping[tuple[str, ...], float]],
    *,
    better: Callable[[tuple[str, ...]], int],
    noise: Callable[[float, float], bool] = lambda _first, _delta: False,
) -> list[ValueRow]:
    tables = list(by_run)
    rows = []
    for key in dict.fromkeys(key for table in tables for key in table):
        values = tuple(table.get(key) for table in tables)
        first = values[0]
        deltas = tuple(None if first is None or value is None else value - first for value in values)
        direction = better(key)
        moods = tuple(
            "plain"
            if not delta or not direction or noise(first or 0.0, delta)
            else "good"
            if delta * direction > 0
            else "bad"
            for delta in deltas
        )
        rows.append(ValueRow(names=key, values=values, deltas=deltas, moods=moods))
    return rows


def _by_change(rows: Sequence[ValueRow]) -> tuple[ValueRow, ...]:
    return tuple(sorted(rows, key=lambda row: (-row.largest_change, row.names))[:_MAX_ROWS])


def _better_metric(key: tuple[str, ...]) -> int:
    """1 if a larger value of the metric, the last name, is better; -1 if a smaller one is."""
    return -1 if key[-1] in _ERRORS or key[-1].endswith("error") else 1


def _metrics(contents: RunContents) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for task, evaluation in contents.tasks().items():
        for row in metric_rows(evaluation):
            found[task, row.name] = row.value
        calibration = evaluation.get("calibration")
        if calibration:
            found[task, "expected_calibration_error"] = calibration["expected_calibration_error"]
    return found


def _classes(contents: RunContents) -> dict[tuple[str, ...], float]:
    return {
        (task, name): one["f1"]
        for task, evaluation in contents.tasks().items()
        for name, one in evaluation.get("per_class", {}).items()
    }


def _slices(contents: RunContents) -> dict[tuple[str, ...], float]:
    return {
        (task, one["feature"], one["value"], metric): value
        for task, evaluation in contents.tasks().items()
        for one in evaluation.get("slices", ())
        for metric, value in one.items()
        if isinstance(value, float)
    }


def _sizes(contents: RunContents) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    training = contents.file("training")
    for name, label in (
        ("num_parameters", "parameters"),
        ("num_steps", "training steps"),
        ("num_train_examples", "training examples"),
        ("exported_epoch", "exported epoch"),
    ):
        if name in training:
            found[(label,)] = float(training[name])
    budget = training.get("budget") or {}
    for name, label in (("total_num_nodes", "nodes of a padded batch"), ("total_num_edges", "edges of a padded batch")):
        if name in budget:
            found[(label,)] = float(sum(budget[name].values()))
    if "bytes_per_batch" in budget:
        found[("bytes of a padded batch",)] = float(budget["bytes_per_batch"])
    return found


def _seconds(run: RecordedRun) -> dict[tuple[str, ...], float]:
    seconds = {step.component: step.seconds for step in run.steps if step.started and step.state != "cached"}
    ordered = sorted(seconds, key=lambda name: STEPS.index(name) if name in STEPS else len(STEPS))
    return {(name,): seconds[name] for name in ordered}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Curve:
    """A figure by epoch, of the runs at these positions."""

    name: str
    runs: tuple[int, ...]
    drawing: str


def _curves(runs: Sequence[ComparedRun]) -> list[_Curve]:
    epochs = [one.contents.file("training").get("epochs", ()) for one in runs]
    names = dict.fromkeys(name for of_run in epochs for logs in of_run for name in logs)
    ordered = sorted(names, key=lambda name: (not name.endswith("loss"), not name.startswith("val_")))
    curves = []
    for position, name in enumerate(ordered):
        # An empty series keeps the colours of the runs after it.
        series = {
            str(i): [number_or_nan(logs.get(name)) for logs in of_run] or [math.nan] for i, of_run in enumerate(epochs)
        }
        drawing = draw_curves(series, identity=f"curve-{position}", title=f"{name} by epoch, one curve for each run")
        shown = f"validation {name.removeprefix('val_')}" if name.startswith("val_") else f"training {name}"
        known = tuple(i for i, of_run in enumerate(epochs) if any(name in logs for logs in of_run))
        curves.append(_Curve(name=shown, runs=known, drawing=drawing))
    return curves


def _notes(runs: Sequence[ComparedRun]) -> list[str]:
    """Says how far a difference in accuracy may be chance."""
    notes = []
    for task, evaluation in runs[0].contents.tasks().items():
        number, accuracy = evaluation.get("num_examples", 0), evaluation.get("accuracy")
        if number and isinstance(accuracy, (int, float)):
            error = math.sqrt(max(accuracy * (1 - accuracy), 0.0) / number)
            of_task = f" of task {task}" if task else ""
            notes.append(
                f"With {number:,} examples, one standard error of the accuracy{of_task} is {error:.3f}: smaller "
                "differences say little."
            )
    return notes
