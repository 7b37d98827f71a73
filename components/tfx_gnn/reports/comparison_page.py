"""The page that sets runs of pipelines side by side."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tfx_gnn.reports import number_texts
from tfx_gnn.reports.evaluation_figures import metric_rows
from tfx_gnn.reports.option_differences import TextRow, differing_options, differing_texts
from tfx_gnn.reports.outcome import Outcome, outcome_of
from tfx_gnn.reports.paired_metrics import BOOTSTRAP, CONFIDENCE, GAIN, LOSS, UNCLEAR, PairedMetric, PairedTask
from tfx_gnn.reports.report_page import (
    NUM_SERIES_COLORS,
    draw_curves,
    number_or_nan,
    page_script,
    render_page,
    script_hash,
)
from tfx_gnn.reports.run_contents import RunContents, split_sizes
from tfx_gnn.reports.run_record import STEPS, RecordedRun

MAX_RUNS = NUM_SERIES_COLORS
"""Runs that fit side by side, each with a colour of its own."""

_MAX_ROWS = 400
_MOODS = {GAIN: "good", LOSS: "bad", UNCLEAR: "plain"}
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
        paired: by task, its answers compared with those of the first run, example by example; empty for the first run,
            and where one of the two has no evaluation of the task.
    """

    title: str
    run: RecordedRun
    contents: RunContents
    outcome: Outcome
    paired: Mapping[str, PairedTask] = dataclasses.field(default_factory=dict)

    @property
    def evaluation_folder(self) -> str:
        """Folder of its evaluation; empty if it has none."""
        has_evaluation = bool(self.contents.file("evaluation"))
        return self.run.folders().get("GraphEvaluator", {}).get("evaluation", "") if has_evaluation else ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValueRow:
    """A figure of every run.

    Attributes:
        names: what it is, from the general to the particular.
        values: one value for each run; None where a run has none.
        deltas: differences from the first run; None where either is absent.
        moods: "good", "bad" or "plain" for each difference.
        tests: for a metric, what a paired test says of each difference; None where there was none. Empty for other
            figures.
    """

    names: tuple[str, ...]
    values: tuple[float | None, ...]
    deltas: tuple[float | None, ...]
    moods: tuple[str, ...]
    tests: tuple[PairedMetric | None, ...] = ()

    @property
    def largest_change(self) -> float:
        """Largest absolute difference from the first run."""
        return max((abs(delta) for delta in self.deltas if delta is not None), default=0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything that differs between runs, and the figures of all.

    Attributes:
        options: options of steps that differ; values that are defaults say so.
        data: splits, schemas and fingerprints that differ.
        metrics: (task, metric) of every run.
        classes: (task, class) and its F1, largest change first.
        slices: (task, feature, value, metric), largest change first.
        sizes: numbers of parameters, padded nodes and the like.
        seconds: seconds of each step; None where a step was cached.
        notes: sentences on what was tested, and on what was not.
    """

    options: tuple[TextRow, ...]
    data: tuple[TextRow, ...]
    metrics: tuple[ValueRow, ...]
    classes: tuple[ValueRow, ...]
    slices: tuple[ValueRow, ...]
    sizes: tuple[ValueRow, ...]
    seconds: tuple[ValueRow, ...]
    notes: tuple[str, ...]

    def as_json(self, runs: Sequence[ComparedRun]) -> dict[str, Any]:
        """Returns it with the runs' titles and the counts of their common examples, as plain JSON."""
        paired = [{task: dataclasses.asdict(one) for task, one in run.paired.items()} for run in runs]
        for of_run in paired:
            for one in of_run.values():
                # They are with the metrics.
                del one["metrics"]
        return {"runs": [run.title for run in runs], **dataclasses.asdict(self), "paired": paired}


def name_runs(runs: Sequence[tuple[RecordedRun, RunContents]]) -> list[ComparedRun]:
    """Gives each run a title that no other run has."""
    titles = [run.title for run, _ in runs]
    if len(set(titles)) < len({(run.root, run.number) for run, _ in runs}):
        titles = [run.root if run.num_runs == 1 else f"{run.root}@{run.number}" for run, _ in runs]
    counts: dict[str, int] = {}
    for i, title in enumerate(titles):
        counts[title] = counts.get(title, 0) + 1
        if counts[title] > 1:
            # The same run again.
            titles[i] = f"{title} ({counts[title]})"
    return [
        ComparedRun(title=title, run=run, contents=contents, outcome=outcome_of(run, contents.files))
        for title, (run, contents) in zip(titles, runs, strict=True)
    ]


def compare_runs(
    runs: Sequence[ComparedRun], read_defaults: Callable[[str], Mapping[str, Any]] = lambda _: {}
) -> Comparison:
    """Compares runs.

    A difference of a metric is good or bad only if a paired test says so. Those of classes and of slices are not
    tested, and neither good nor bad.

    Args:
        runs: at least two; differences are from the first.
        read_defaults: returns the default of each option of a component, as plain JSON.

    Returns:
        What differs, and the figures of all runs.
    """
    contents = [one.contents for one in runs]
    return Comparison(
        options=tuple(differing_options([one.run for one in runs], read_defaults)),
        data=tuple(differing_texts(_data(one.run, one.contents) for one in runs)),
        metrics=_tested_rows(runs),
        classes=_by_change(_value_rows((_classes(one) for one in contents), better=lambda _: 0)),
        slices=_by_change(_value_rows((_slices(one) for one in contents), better=lambda _: 0)),
        sizes=tuple(_value_rows((_sizes(one) for one in contents), better=lambda _: 0)),
        seconds=tuple(_value_rows((_seconds(one.run) for one in runs), better=lambda _: -1, noise=_is_noise)),
        notes=tuple(_notes(runs)),
    )


def render_comparison_page(runs: Sequence[ComparedRun], comparison: Comparison) -> str:
    """Renders runs side by side, and what `compare_runs` found, as one self-contained HTML page."""
    script = page_script("page.js")
    return render_page(
        "comparison.html.j2",
        runs=runs,
        comparison=comparison,
        identical=identical_results(comparison),
        curves=_curves(runs),
        script=script,
        script_hash=script_hash(script),
    )


def identical_results(comparison: Comparison) -> bool:
    """Tells whether all runs that were measured have the same metrics."""
    return bool(comparison.metrics) and not any(row.largest_change for row in comparison.metrics)


def _data(run: RecordedRun, contents: RunContents) -> dict[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    for split, number in split_sizes(contents).items():
        found["examples", split] = number_texts.as_count(number)
    for step in run.steps:
        if step.component == "SubgraphExampleGen" and step.options.get("tables_fingerprint"):
            found["tables", "fingerprint"] = str(step.options["tables_fingerprint"])
    for key, kind in contents.features.items():
        found["feature", key] = kind
    return found


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


def _tested_rows(runs: Sequence[ComparedRun]) -> tuple[ValueRow, ...]:
    """Lists metrics with what paired tests say of them."""
    tested = [
        {(task, one.metric): one for task, paired in run.paired.items() for one in paired.metrics} for run in runs
    ]
    rows = _value_rows((_metrics(run.contents) for run in runs), better=lambda _: 0)
    found = []
    for row in rows:
        tests = tuple(of_run.get((row.names[0], row.names[1])) for of_run in tested)
        moods = tuple(_MOODS[one.verdict] if one is not None else "plain" for one in tests)
        found.append(dataclasses.replace(row, tests=tests, moods=moods))
    return tuple(found)


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
    """Says what was tested, on which examples, and why anything was not."""
    first, *others = runs
    notes = []
    if not first.evaluation_folder:
        notes.append(f"{first.title} has no evaluation, so no difference is tested.")
        others = []
    for one in others:
        if not one.evaluation_folder:
            notes.append(f"{one.title} has no evaluation, so no difference of it is tested.")
        for task, paired in one.paired.items():
            notes.append(_note(first, one, f" of task {task}" if task else "", paired))
        for task in sorted(first.contents.tasks().keys() ^ one.contents.tasks().keys()):
            has, lacks = (first, one) if task in first.contents.tasks() else (one, first)
            name = f"task {task!r}" if task else "a single task"
            if one.evaluation_folder:
                notes.append(f"Only {has.title} evaluated {name}: {lacks.title} has nothing to compare it with.")
    tests = [test for one in others for paired in one.paired.values() for test in paired.metrics]
    if tests:
        num_replicas = min(paired.num_replicas for one in others for paired in one.paired.values() if paired.metrics)
        kinds = " and ".join(sorted({test.test for test in tests} - {BOOTSTRAP}))
        of_accuracy = f"Accuracy has the p value of the {kinds} test, other metrics" if kinds else "Metrics have"
        if kinds:
            of_accuracy += " have"
        notes.append(
            f"{of_accuracy} that of a paired bootstrap of {num_replicas:,} replicas, which also gives the "
            f"{100 * CONFIDENCE:g}% intervals. A gain or a loss has an interval without 0 and p < {1 - CONFIDENCE:.2g}."
        )
        notes.append(
            f"{_counted(len(tests), 'difference was', 'differences were')} tested. The p values are not corrected for "
            f"their number: where there is no difference, 1 test in {1 / (1 - CONFIDENCE):.0f} finds one."
        )
    return notes


def _note(first: ComparedRun, one: ComparedRun, of_task: str, paired: PairedTask) -> str:
    if paired.reason:
        return f"The metrics{of_task} of {one.title} are not tested: {paired.reason.removesuffix('.')}."
    counts = {first.title: paired.first, one.title: paired.other}
    shares = " and ".join(f"{number_texts.as_count(kept)} of {title}" for title, (kept, _) in counts.items())
    text = f"{_counted(paired.num_common, 'example is', 'examples are')} common{of_task}, of {shares}."
    for title, (kept, evaluated) in counts.items():
        if kept < evaluated:
            text += f" Of {evaluated:,} examples, {title} kept the {kept:,} with the smallest hashes."
    if paired.num_other_labels:
        text += f" Left out: {_counted(paired.num_other_labels, 'example', 'examples')} with another label."
    return text


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
