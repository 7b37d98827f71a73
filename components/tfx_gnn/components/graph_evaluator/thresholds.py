"""Thresholds on metrics, and the messages that say whether they are met."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tfx_gnn.components.graph_evaluator.change_report import improvement
from tfx_gnn.components.graph_evaluator.classification import ClassificationMeasure
from tfx_gnn.components.graph_evaluator.evaluation_report import SliceEvaluation, TaskEvaluation
from tfx_gnn.components.graph_evaluator.measures import SINGLE_TASK, Measure
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.records import warning_kinds
from tfx_gnn.records.metric_names import (
    CALIBRATION_ERROR,
    ERRORS,
    R2,
    full_metric_name,
    is_share,
    metric_of_full_name,
    shown_metric,
)

if TYPE_CHECKING:
    from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions

Thresholds = Mapping[str, Mapping[str, float]]

_Bound = TypeVar("_Bound")
_HITS = "hits_at_"
_ROUNDING = 1e-9
_KINDS = ("min", "max", "gain")
_IS_BETTER = {
    (True, True): "is below",
    (True, False): "is not below",
    (False, True): "exceeds",
    (False, False): "does not exceed",
}
"""Words by (metric is an error, model is better)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether one bound is met.

    Attributes:
        passed: whether the bound is met.
        sentence: the metric, its value and the bound in words.
        metric: name of the metric within its task.
        bounds: the bound by kind, "min", "max", "gain", "change" or "trees"; all bounds of a metric that could not be
            computed.
        value: the metric; None if it could not be computed.
        baseline: the baseline's, for "change" the latest blessed model's, for "trees" that of trees; None if it could
            not be computed.
        task: name of the task; a single task has the name "".
        slice_key: feature and value of the slice; both "" for all examples.
    """

    passed: bool
    sentence: str
    metric: str
    bounds: Mapping[str, float]
    value: float | None
    baseline: float | None
    task: str
    slice_key: tuple[str, str]


def normalize_thresholds(
    option: str, thresholds: Mapping[str, Any], metrics: Collection[str]
) -> dict[str, dict[str, float]]:
    """Normalizes bounds: metric to a dict with some of "min", "max" and "gain".

    A plain number is a minimum or, for an error metric, a maximum. "gain" is the improvement over the
    baseline that the metric must exceed.
    """
    checked = {}
    for name, bound in thresholds.items():
        _check_is_metric(option, name, metrics)
        if not isinstance(bound, Mapping):
            bound = {"max" if metric_of_full_name(name) in ERRORS else "min": bound}
        if not bound or not all(kind in _KINDS and _is_number(value) for kind, value in bound.items()):
            raise ValueError(
                f"`{option}` must give a number, or a dict of numbers with some of {list(_KINDS)}, for each metric; "
                f"got {dict(bound)!r} for {name!r}. Write for example {{'rmse': {{'max': 1.3}}}}."
            )
        if "gain" in bound and metric_of_full_name(name) == CALIBRATION_ERROR:
            raise ValueError(
                f"`{option}` must not require a gain of {name!r} over the baseline, which has no confidence; got "
                f"{dict(bound)!r}. Give a maximum, such as 0.05."
            )
        checked[name] = {kind: float(value) for kind, value in bound.items()}
        for kind, value in checked[name].items():
            _check_decides(option, name, kind, value)
    return checked


def normalize_change_thresholds(
    option: str, thresholds: Mapping[str, Any], metrics: Collection[str]
) -> dict[str, float]:
    """Checks the least improvements over the latest blessed model, by metric."""
    checked = {}
    for name, least in thresholds.items():
        _check_is_metric(option, name, metrics)
        if not _is_number(least):
            raise ValueError(
                f"`{option}` must give a number for each metric, by how much it must be better; got {least!r} for "
                f"{name!r}. Write for example {{'accuracy': -0.005}} for what may be worse by 0.005."
            )
        _check_decides(option, name, "gain", least)
        checked[name] = float(least)
    return checked


def normalize_interval_limits(limits: Mapping[str, Any], metrics: Collection[str]) -> dict[str, float]:
    """Checks the largest widths of intervals on slices, by metric."""
    for name, limit in limits.items():
        _check_is_metric("max_slice_intervals", name, metrics)
        if not _is_number(limit) or limit <= 0.0:
            raise ValueError(
                f"`max_slice_intervals` must give a width above 0 for each metric; got {limit!r} for {name!r}. Write "
                "for example {'accuracy': 0.1}."
            )
    return {name: float(limit) for name, limit in limits.items()}


def _check_is_metric(option: str, name: str, metrics: Collection[str]) -> None:
    if name not in metrics:
        raise ValueError(
            f"`{option}` must name metrics of the task; got {name!r}. Choose among {sorted(metrics)}. "
            f"{did_you_mean(name, metrics)}"
        )


def _check_decides(option: str, name: str, kind: str, bound: float) -> None:
    """Refuses a bound that every model meets, or none."""
    metric = metric_of_full_name(name)
    least, most = -math.inf if metric == R2 else 0.0, 1.0 if metric == R2 or is_share(metric) else math.inf
    widest = most - least
    all_meet, none_meets = {
        "min": (bound <= least, bound > most),
        "max": (bound >= most, bound < least),
        "gain": (bound < -widest, bound >= widest),
    }[kind]
    if all_meet or none_meets:
        fate = "every model meets" if all_meet else "no model can meet"
        ends = (("at least", least), ("at most", most))
        shown = " and ".join(f"{words} {end:g}" for words, end in ends if math.isfinite(end))
        raise ValueError(
            f"`{option}` must be a bound that some models miss and some meet; got {{{kind!r}: {bound:g}}} for "
            f"{name!r}, which {fate}: the metric is {shown}. Choose a value in between, or leave it out."
        )


def check_thresholds(
    thresholds: Thresholds,
    values: Mapping[str, float],
    baseline: Mapping[str, float],
    *,
    baseline_name: str,
    task: str = SINGLE_TASK,
    slice_key: tuple[str, str] = ("", ""),
    slice_range: str = "",
) -> list[Verdict]:
    """Checks metrics against bounds in the form of `normalize_thresholds`.

    A metric that could not be computed misses every bound. `slice_key` is as in `Verdict`; `slice_range` is that of a
    slice by quantiles. `check_task_thresholds` adds the rule that the main metric must beat the baseline.
    """
    verdicts = []
    place = _place(task, slice_key, slice_range)

    def add(sentence: str, *, passed: bool, metric: str, bounds: Mapping[str, float]) -> None:
        verdicts.append(
            Verdict(
                passed=passed,
                sentence=sentence,
                metric=metric,
                bounds=bounds,
                value=values.get(metric),
                baseline=baseline.get(metric),
                task=task,
                slice_key=slice_key,
            )
        )

    for name, bounds in thresholds.items():
        shown = f"{place}{place and ': '}{shown_metric(name)}"
        if name not in values:
            add(f"{shown} could not be computed from these examples", passed=False, metric=name, bounds=bounds)
            continue
        value = values[name]
        for kind, bound in bounds.items():
            if kind == "min":
                passed = value >= bound
                words = f"is {'at least' if passed else 'below'} {bound:g}"
            elif kind == "max":
                passed = value <= bound
                words = f"is {'at most' if passed else 'above'} {bound:g}"
            else:
                of_baseline = baseline[name]
                passed = value < of_baseline - bound if name in ERRORS else value > of_baseline + bound
                words = (
                    f"{_IS_BETTER[name in ERRORS, passed]} {baseline_name}'s {of_baseline:.4f} by more than {bound:g}"
                )
            add(f"{shown} {value:.4f} {words}", passed=passed, metric=name, bounds={kind: bound})
    return verdicts


def check_change_thresholds(
    thresholds: Mapping[str, float],
    values: Mapping[str, float],
    others: Mapping[str, float],
    *,
    whose: str = "the latest blessed model's",
    kind: str = "change",
    task: str = SINGLE_TASK,
    slice_key: tuple[str, str] = ("", ""),
    slice_range: str = "",
) -> list[Verdict]:
    """Checks metrics against those of another model, with bounds from `normalize_change_thresholds`.

    `whose` names that model, and `kind` that of the bounds. A metric that only one model has misses its bound;
    one that neither has, on a slice, is left out.
    """
    verdicts = []
    place = _place(task, slice_key, slice_range)
    for name, least in thresholds.items():
        value, of_other = values.get(name), others.get(name)
        shown = f"{place}{place and ': '}{shown_metric(name)}"
        if value is None or of_other is None:
            if slice_key[0] and value is None and of_other is None:
                continue
            passed, sentence = False, f"{shown} could not be compared with {whose}"
        else:
            # Differences of decimal fractions are not exact.
            passed = improvement(name, value, of_other) >= least - _ROUNDING
            sentence = f"{shown} {value:.4f} {_change_words(least, passed=passed)} than {whose} {of_other:.4f}"
        verdicts.append(
            Verdict(
                passed=passed,
                sentence=sentence,
                metric=name,
                bounds={kind: least},
                value=value,
                baseline=of_other,
                task=task,
                slice_key=slice_key,
            )
        )
    return verdicts


def check_task_changes(
    task: str,
    measure: Measure,
    evaluation: TaskEvaluation,
    *,
    slices: Mapping[str, Mapping[str, SliceEvaluation]],
    options: GraphEvaluatorOptions,
) -> list[Verdict]:
    """Checks one task against the latest blessed model: a verdict per bound, but for slices only the missed bounds.

    The main metric must not be worse, unless `change_thresholds` has a bound for it.
    """
    change = evaluation.change
    if change is None:
        return []
    bounds = {change.metric: 0.0, **metrics_of_task(options.change_thresholds, task, measure.metrics)}
    found = check_change_thresholds(bounds, evaluation.quality.metrics, change.quality.metrics, task=task)
    for position, verdict in enumerate(found):
        is_doubtful = not verdict.passed and change.upper is not None and change.upper >= bounds[verdict.metric]
        if is_doubtful and verdict.metric == change.metric:
            sentence = (
                f"{verdict.sentence}; chance may explain that: the {100 * change.confidence:g}% interval of the "
                f"difference on {change.num_examples} examples is {change.lower:.4f} to {change.upper:.4f}. Evaluate "
                "more examples, or allow a small loss by `change_thresholds`"
            )
            found[position] = dataclasses.replace(verdict, sentence=sentence)
    bounds = metrics_of_task(options.slice_change_thresholds, task, measure.metrics)
    for feature, by_value in slices.items():
        for value, one_slice in by_value.items():
            blessed = change.slices.get((feature, value))
            if one_slice.num_examples >= options.min_slice_examples and blessed is not None:
                of_slice = check_change_thresholds(
                    _without(bounds, one_slice.too_wide_changes),
                    one_slice.quality.metrics,
                    blessed.metrics,
                    task=task,
                    slice_key=(feature, value),
                    slice_range=one_slice.range,
                )
                found += [verdict for verdict in of_slice if not verdict.passed]
    return found


def count_undecided_slices(
    task: str, slices: Mapping[str, Mapping[str, SliceEvaluation]], options: GraphEvaluatorOptions
) -> list[str]:
    """Says how many slices are too small for the bounds on slices, or have intervals that are too wide."""
    if not options.slice_thresholds and not options.slice_change_thresholds:
        return []
    least = options.min_slice_examples
    counts = {
        feature: sum(one.num_examples < least for one in by_value.values()) for feature, by_value in slices.items()
    }
    return [
        warning_kinds.SMALL_SLICES.mark(
            f"{_place(task, ('', ''))}{task and ': '}{count} of {len(slices[feature])} slices of {feature!r} have less "
            f"than {least} labelled examples, so no bound applies to them."
        )
        for feature, count in counts.items()
        if count
    ] + _count_wide_intervals(task, slices, options)


def _count_wide_intervals(
    task: str, slices: Mapping[str, Mapping[str, SliceEvaluation]], options: GraphEvaluatorOptions
) -> list[str]:
    """Says for how many slices an interval is too wide, in a sentence for each feature and bounded metric."""
    sentences = []
    for full_name, limit in options.max_slice_intervals.items():
        for option, kind in (("slice_thresholds", "too_wide"), ("slice_change_thresholds", "too_wide_changes")):
            metric = metric_of_full_name(full_name)
            if full_name != full_metric_name(task, metric) or full_name not in getattr(options, option):
                continue
            what = shown_metric(metric) if kind == "too_wide" else f"the change of {shown_metric(metric)}"
            for feature, by_value in slices.items():
                large = [one for one in by_value.values() if one.num_examples >= options.min_slice_examples]
                count = sum(metric in getattr(one, kind) for one in large)
                if count:
                    place = _place(task, ("", ""))
                    sentences.append(
                        warning_kinds.WIDE_SLICE_INTERVALS.mark(
                            f"{place}{place and ': '}{count} of {len(by_value)} slices of {feature!r} have too few "
                            f"examples to decide on {what}: its interval is wider than {limit:g}, so no bound on it "
                            "applies to them."
                        )
                    )
    return sentences


def _without(bounds: Mapping[str, _Bound], names: Collection[str]) -> dict[str, _Bound]:
    return {name: bound for name, bound in bounds.items() if name not in names}


def _change_words(least: float, *, passed: bool) -> str:
    if least == 0.0:
        return "is not worse" if passed else "is worse"
    if least < 0.0:
        return f"is {'at most' if passed else 'more than'} {-least:g} worse"
    return f"is {'at least' if passed else 'less than'} {least:g} better"


def _place(task: str, slice_key: tuple[str, str], slice_range: str = "") -> str:
    """Names a task and a slice for the beginning of a sentence."""
    feature, value = slice_key
    of_slice = [f"{feature} = {value!r}", *([slice_range] if slice_range else [])] if feature else []
    return ", ".join([*_words_of_task(task), *of_slice])


def check_task_thresholds(
    task: str,
    measure: Measure,
    evaluation: TaskEvaluation,
    *,
    slices: Mapping[str, Mapping[str, SliceEvaluation]],
    options: GraphEvaluatorOptions,
) -> list[Verdict]:
    """Checks one task against its bounds: one verdict per bound, but for slices only the missed bounds.

    The main metric must also beat the baseline's, beyond chance if `evaluation` has a comparison, unless `thresholds`
    sets a negative gain. `slice_thresholds` apply to slices
    with at least `min_slice_examples` labelled examples.
    """
    quality = evaluation.quality
    main = measure.main_metric_of(quality)
    bounds = _task_thresholds(task, measure, main, options)
    found = check_thresholds(
        bounds, quality.metrics, quality.baseline, baseline_name=evaluation.baseline_name, task=task
    )
    comparison = evaluation.comparison
    # A negative gain allows a model to be worse. If the metric is not even better, the sentence above says enough.
    if comparison is not None and bounds[main]["gain"] >= 0.0 and comparison.gain > 0.0:
        found.append(
            Verdict(
                passed=comparison.is_better,
                sentence=": ".join([*_words_of_task(task), comparison.meaning]),
                metric=main,
                bounds={"gain": 0.0},
                value=quality.metrics[main],
                baseline=quality.baseline[main],
                task=task,
                slice_key=("", ""),
            )
        )
    slice_thresholds = metrics_of_task(options.slice_thresholds, task, measure.metrics)
    for feature, by_value in slices.items():
        for value, one_slice in by_value.items():
            if one_slice.num_examples >= options.min_slice_examples:
                of_slice = check_thresholds(
                    _without(slice_thresholds, one_slice.too_wide),
                    one_slice.quality.metrics,
                    one_slice.quality.baseline,
                    baseline_name=evaluation.baseline_name,
                    task=task,
                    slice_key=(feature, value),
                    slice_range=one_slice.range,
                )
                found += [verdict for verdict in of_slice if not verdict.passed]
    return found


def check_thresholds_on_data(
    task: str, measure: Measure, evaluation: TaskEvaluation, options: GraphEvaluatorOptions
) -> list[str]:
    """Finds metrics and bounds that say nothing about a model on these examples.

    Returns:
        Warnings, in sentences.

    Raises:
        ValueError: if a bound is on a metric that has the same value for every model.
    """
    quality = evaluation.quality
    thresholds = metrics_of_task(options.thresholds, task, measure.metrics)
    warnings = []
    # A random order reaches 1 only if all ranks are small enough to count.
    constant = [name for name in quality.metrics if name.startswith(_HITS) and quality.baseline[name] > 1.0 - 1e-9]
    for name in constant:
        rank = name.removeprefix(_HITS)
        reason = f"no true pair of split {options.split!r} has more than {rank} candidates"
        full_name = full_metric_name(task, name)
        if name in thresholds:
            raise ValueError(
                f"`thresholds` must bound metrics that differ between models; got {full_name!r}, which is 1 for every "
                f"model, because {reason}. Bound 'mrr', or hits up to a smaller rank."
            )
        says_nothing = f"{full_name} is 1 for every model, because {reason}: it says nothing here."
        warnings.append(warning_kinds.ALWAYS_ONE.mark(says_nothing))
    if isinstance(measure, ClassificationMeasure) and quality.baseline["accuracy"] == 1.0:
        warnings.append(
            warning_kinds.ONE_CLASS.mark(
                f"All examples of split {options.split!r} have the class that the baseline predicts, so no model can "
                "be better: evaluate examples of several classes."
            )
        )
    main = measure.main_metric_of(quality)
    for name, bounds in _task_thresholds(task, measure, main, options).items():
        for kind, bound in bounds.items():
            of_baseline = quality.baseline.get(name)
            if kind == "gain" or of_baseline is None:
                continue
            if (of_baseline >= bound) if kind == "min" else (of_baseline <= bound):
                warnings.append(
                    warning_kinds.LOOSE_BOUND.mark(
                        f"{shown_metric(full_metric_name(task, name))} {'at least' if kind == 'min' else 'at most'} "
                        f"{bound:g} is met by {evaluation.baseline_name}, which reaches {of_baseline:.4f}: choose a "
                        "stricter bound."
                    )
                )
    return warnings


def _task_thresholds(task: str, measure: Measure, main: str, options: GraphEvaluatorOptions) -> Thresholds:
    """Returns the bounds of one task: of its main metric, from options of their own, and from `thresholds`."""
    bounds: dict[str, dict[str, float]] = {main: {"gain": 0.0}}

    def add(name: str, of_metric: Mapping[str, float]) -> None:
        bounds[name] = {**bounds.get(name, {}), **of_metric}

    if isinstance(measure, ClassificationMeasure):
        if main == "accuracy" or options.min_accuracy_over_majority:
            add("accuracy", {"gain": options.min_accuracy_over_majority})
        for name, least in (("accuracy", options.min_accuracy), ("macro_f1", options.min_macro_f1)):
            if least > 0.0:
                add(name, {"min": least})
    for name, of_metric in metrics_of_task(options.thresholds, task, measure.metrics).items():
        add(name, of_metric)
    return bounds


def _words_of_task(task: str) -> list[str]:
    return [f"task {task!r}"] if task != SINGLE_TASK else []


def metrics_of_task(bounds: Mapping[str, _Bound], task: str, metrics: Collection[str]) -> dict[str, _Bound]:
    """Returns the bounds of one task's metrics, by their names within the task."""
    by_name = {full_metric_name(task, metric): metric for metric in metrics}
    return {by_name[name]: bound for name, bound in bounds.items() if name in by_name}


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    # Integers beyond float's range compare, too.
    return -sys.float_info.max <= value <= sys.float_info.max
