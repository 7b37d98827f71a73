"""The page that shows one run of a pipeline."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from tfx_gnn.records.metric_names import shown_metric
from tfx_gnn.records.warning_kinds import split_mark
from tfx_gnn.reports import number_texts
from tfx_gnn.reports.data_figures import set_rows
from tfx_gnn.reports.data_summary import make_data_figures
from tfx_gnn.reports.degree_figures import degree_histograms
from tfx_gnn.reports.evaluation_figures import (
    ConfusionMatrix,
    MetricRow,
    baseline_words,
    calibration_words,
    change_rows,
    change_words,
    confusion_matrix,
    draw_ranks,
    draw_reliability,
    draw_residuals,
    interval_words,
    metric_rows,
    rank_words,
    residual_words,
    training_remarks,
    trees_rows,
    trees_words,
)
from tfx_gnn.reports.next_steps import next_steps
from tfx_gnn.reports.outcome import DONE, as_clock, duration_of, outcome_of
from tfx_gnn.reports.report_page import draw_curves, number_or_nan, page_script, render_page, script_hash
from tfx_gnn.reports.run_contents import RunContents, split_sizes
from tfx_gnn.reports.run_record import STEPS, RecordedRun, RecordedStep
from tfx_gnn.reports.run_warnings import run_warnings
from tfx_gnn.reports.schema_diagram import draw_schema

_OPTIONAL_STEPS = frozenset({"LatestBlessedModelResolver", "GraphTuner"})

_VALIDATION = "val_"
_NOT_METRICS = frozenset(
    {"feature", "value", "range", "num_examples", "baseline", "latest_blessed", "intervals", "too_few_examples"}
)
_MAX_TARGETS = 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class _KeyFigure:
    name: str
    value: str
    note: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Curve:
    name: str
    series: tuple[str, ...]
    drawing: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Residuals:
    """The residuals of one target."""

    target: int
    words: str
    drawing: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Evaluation:
    """What the page shows of one task."""

    name: str
    identity: str
    kind: str
    num_examples: int
    num_without_label: int
    metrics: list[MetricRow]
    baseline: str
    interval_words: str
    changes: list[MetricRow]
    change_words: str
    trees: list[MetricRow]
    trees_words: str
    per_class: list[tuple[str, Mapping[str, Any]]]
    confusion: ConfusionMatrix | None
    calibration: Mapping[str, Any]
    calibration_words: str
    reliability: str
    mistakes: Sequence[Mapping[str, Any]]
    num_targets: int
    residuals: list[_Residuals]
    largest_residuals: Sequence[Mapping[str, Any]]
    rank_words: str
    ranks: str
    worst_ranks: Sequence[Mapping[str, Any]]
    slices: Sequence[Mapping[str, Any]]
    slice_metrics: list[str]


def render_run_page(run: RecordedRun, contents: RunContents) -> str:
    """Renders a run as one self-contained HTML page, also a run that failed half-way.

    The page needs no network, and no script but its own may run in it.
    """
    script = page_script("page.js", "subgraph.js")
    schema, sizes = contents.schema, split_sizes(contents)
    sampling = contents.file("sampling")
    warnings = run_warnings(contents.files)
    return render_page(
        "run.html.j2",
        run=run,
        files=contents.files,
        problems=contents.problems,
        reports=contents.reports,
        outcome=outcome_of(run, contents.files),
        warnings=warnings,
        names_warnings=any(split_mark(one)[1] for one in warnings),
        next_steps=next_steps(run, contents.files),
        key_figures=_key_figures(run, contents),
        spans=_spans(run.steps),
        not_started=not_started(run),
        versions=_versions(run, contents),
        splits=sizes,
        schema_rows=set_rows(schema, sampling) if schema is not None else [],
        schema_drawing=draw_schema(schema) if schema is not None else "",
        data=make_data_figures(contents.statistics, contents.distances, sizes),
        degrees=degree_histograms(contents.statistics, sizes),
        has_examples=bool(contents.examples),
        examples=contents.examples,
        example_notes=contents.example_notes,
        budgets=_budgets(contents),
        remarks=_remarks(contents),
        curves=_curves(contents),
        evaluations=[_evaluation(name, task) for name, task in contents.tasks().items()],
        skew_rows=_skew_rows(contents),
        pushed_at=_pushed_at(run),
        script=script,
        script_hash=script_hash(script),
    )


def not_started(run: RecordedRun) -> list[str]:
    """Lists the usual steps that an unfinished run did not reach."""
    if all(step.state in DONE for step in run.steps):
        return []
    known = {step.component for step in run.steps}
    return [name for name in STEPS if name not in known | _OPTIONAL_STEPS]


def _key_figures(run: RecordedRun, contents: RunContents) -> list[_KeyFigure]:
    figures = []
    for name, task in contents.tasks().items():
        for row in metric_rows(task)[:2]:
            ends = f"[{row.interval[0]:.3f}, {row.interval[1]:.3f}]" if row.interval else ""
            baseline = f"baseline {row.baseline:.3f}" if row.baseline is not None else ""
            note = "; ".join(filter(None, (ends, baseline)))
            label = f"{name}: {shown_metric(row.name)}" if name else shown_metric(row.name)
            figures.append(_KeyFigure(name=label, value=f"{row.value:.3f}", note=note))
    sizes = split_sizes(contents)
    if sizes:
        figures.append(
            _KeyFigure(
                name="examples", value=number_texts.as_count(sum(sizes.values())), note=f"in {len(sizes)} splits"
            )
        )
    training = contents.file("training")
    if training:
        epochs = len(training.get("epochs", ()))
        figures.append(
            _KeyFigure(
                name="training", value=number_texts.as_duration(training.get("seconds", 0.0)), note=f"{epochs} epochs"
            )
        )
        figures.append(_KeyFigure(name="parameters", value=number_texts.as_count(training.get("num_parameters", 0))))
    if any(step.started for step in run.steps):
        cached = sum(step.state == "cached" for step in run.steps)
        figures.append(
            _KeyFigure(
                name="whole run",
                value=number_texts.as_duration(duration_of(run.steps)),
                note=f"{cached} of {len(run.steps)} steps cached",
            )
        )
    return figures


def _spans(steps: Sequence[RecordedStep]) -> list[tuple[float, float]]:
    """Start and length of each step, as fractions of the run."""
    timed = [step for step in steps if step.started]
    if not timed:
        return [(0.0, 0.0)] * len(steps)
    start, whole = min(step.started for step in timed), max(duration_of(steps), 1e-9)
    return [
        (max(0.0, step.started - start) / whole, min(1.0, step.seconds / whole)) if step.started else (0.0, 0.0)
        for step in steps
    ]


def _versions(run: RecordedRun, contents: RunContents) -> dict[str, str]:
    """Versions and fingerprints that the run wrote down."""
    found: dict[str, str] = {}
    for step in run.steps:
        for artifact in step.outputs:
            if version := artifact.properties.get("tfx_version"):
                found.setdefault("TFX", version)
            if span := artifact.properties.get("span_name"):
                found.setdefault("span of the tables", span)
        options = step.options
        for option, label in (
            ("library_version", "tfx_gnn"),
            ("tables_fingerprint", "tables"),
            ("code_fingerprint", f"your code in {step.component}"),
        ):
            if options.get(option):
                found.setdefault(label, str(options[option]))
    for name, label in (("examples_verdict", "examples"), ("verdict", "model")):
        subject = contents.file(name).get("subject")
        if isinstance(subject, dict) and subject.get("fingerprint"):
            found[label] = str(subject["fingerprint"])
    return found


def _budgets(contents: RunContents) -> list[dict[str, Any]]:
    budgets = contents.file("budgets").get("budgets", {})
    rows = []
    for name, budget in budgets.items():
        rows.append(
            {
                "name": name,
                "fill": float(budget.get("fill", 0.0)),
                "graphs_per_batch": budget.get("graphs_per_batch", 0),
                "num_nodes": sum(budget.get("total_num_nodes", {}).values()),
                "num_edges": sum(budget.get("total_num_edges", {}).values()),
                "bytes_per_batch": int(budget.get("bytes_per_batch", 0)),
            }
        )
    return rows


def _remarks(contents: RunContents) -> list[str]:
    training = contents.file("training")
    if not training:
        return []
    return training_remarks(
        training.get("epochs", ()),
        training.get("exported_epoch", 0),
        stopped_early=bool(training.get("stopped_early")),
    )


def _curves(contents: RunContents) -> list[_Curve]:
    training = contents.file("training")
    epochs = training.get("epochs", ())
    names = dict.fromkeys(name.removeprefix(_VALIDATION) for logs in epochs for name in logs)
    curves = []
    for position, name in enumerate(sorted(names, key=lambda name: name != "loss")):
        series = {
            shown: [number_or_nan(logs.get(prefix + name)) for logs in epochs]
            for shown, prefix in (("training", ""), ("validation", _VALIDATION))
            if any(prefix + name in logs for logs in epochs)
        }
        drawing = draw_curves(
            series,
            identity=f"curve-{position}",
            title=f"{name} by epoch",
            marked_epoch=int(training.get("exported_epoch", 0)),
        )
        curves.append(_Curve(name=name, series=tuple(series), drawing=drawing))
    return curves


def _evaluation(name: str, task: Mapping[str, Any]) -> _Evaluation:
    identity = "task-" + hashlib.sha256(name.encode()).hexdigest()[:8]
    calibration, ranks = task.get("calibration", {}), task.get("ranks", [])
    slices = task.get("slices", [])
    slice_metrics = dict.fromkeys(key for one in slices for key in one if key not in _NOT_METRICS)
    per_class = task.get("per_class", {})
    return _Evaluation(
        name=name,
        identity=identity,
        kind=str(task.get("kind", "")),
        num_examples=int(task.get("num_examples", 0)),
        num_without_label=int(task.get("num_examples_without_label", 0)),
        metrics=metric_rows(task),
        baseline=baseline_words(task),
        interval_words=interval_words(task),
        changes=change_rows(task),
        change_words=change_words(task),
        trees=trees_rows(task),
        trees_words=trees_words(task),
        per_class=sorted(per_class.items(), key=lambda item: (-item[1]["support"], item[0])),
        confusion=confusion_matrix(task["confusion"]) if task.get("confusion") else None,
        calibration=calibration,
        calibration_words=calibration_words(calibration) if calibration else "",
        reliability=draw_reliability(calibration, identity=f"{identity}-reliability") if calibration else "",
        mistakes=task.get("confident_mistakes", []),
        num_targets=len(task.get("residuals", [])),
        residuals=_residuals(task, identity),
        largest_residuals=task.get("largest_residuals", []),
        rank_words=rank_words(ranks) if ranks else "",
        ranks=draw_ranks(ranks, identity=f"{identity}-ranks") if ranks else "",
        worst_ranks=task.get("worst_ranks", []),
        slices=slices,
        slice_metrics=list(slice_metrics),
    )


def _residuals(task: Mapping[str, Any], identity: str) -> list[_Residuals]:
    """Draws the residuals of the first targets that have a label."""
    known = [one for one in task.get("residuals", []) if one["bins"]]
    return [
        _Residuals(
            target=one["target"],
            words=residual_words(one["bins"]),
            drawing=draw_residuals(
                one["bins"], identity=f"{identity}-residuals-{one['target']}", title="Examples by residual"
            ),
        )
        for one in known[:_MAX_TARGETS]
    ]


def _skew_rows(contents: RunContents) -> list[Mapping[str, Any]]:
    """Features that differ, and all outputs."""
    skew = contents.file("skew")
    if not skew:
        return []
    rounding = skew.get("rounding")
    return [
        *(row for row in skew.get("features", ()) if row.get("num_differing")),
        *([rounding] if rounding else []),
        *skew.get("outputs", ()),
    ]


def _pushed_at(run: RecordedRun) -> str:
    for step in run.steps:
        if step.component == "GraphPusher" and step.started and step.state == "complete":
            return as_clock(step.started + step.seconds)
    return ""
