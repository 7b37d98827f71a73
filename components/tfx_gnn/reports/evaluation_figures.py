"""Figures of an evaluation on its page: metrics against the baseline, confusions, calibration, residuals and ranks."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfx_gnn.reports.number_texts import as_amount, as_count, as_percent
from tfx_gnn.reports.report_page import FAINT, SERIES_COLORS, draw_for_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OTHER_CLASSES = "all other classes"
"""Stands for the classes that a large confusion matrix does not show."""

_BASELINES = ("majority_baseline", "mean_baseline", "random_baseline")
_MAX_CLASSES = 60
_MAX_CONFUSIONS = 12
_MAX_TICKS = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfusionMatrix:
    """A confusion matrix, with the classes of most examples first.

    Attributes:
        names: the classes; the last may be `OTHER_CLASSES`.
        cells: (row of the true class, column of the predicted class, count, share of the true class), for counts
            above 0.
        largest: the most frequent confusions as (true, predicted, count, share of the true class).
    """

    names: tuple[str, ...]
    cells: tuple[tuple[int, int, int, float], ...]
    largest: tuple[tuple[str, str, int, float], ...]


def confusion_matrix(triples: Sequence[Mapping[str, Any]], *, max_classes: int = _MAX_CLASSES) -> ConfusionMatrix:
    """Arranges counts by true and predicted class; beyond `max_classes`, the smallest classes become one."""
    support: Counter[str] = Counter()
    for triple in triples:
        support[triple["true"]] += triple["count"]
        support[triple["predicted"]] += 0
    ordered = sorted(support, key=lambda name: (-support[name], name))
    kept = ordered if len(ordered) <= max_classes else ordered[: max_classes - 1]
    names = tuple(kept) if len(kept) == len(ordered) else (*kept, OTHER_CLASSES)
    position = {name: min(row, len(names) - 1) for row, name in enumerate(ordered)}
    counts: Counter[tuple[int, int]] = Counter()
    rows: Counter[int] = Counter()
    for triple in triples:
        counts[position[triple["true"]], position[triple["predicted"]]] += triple["count"]
        rows[position[triple["true"]]] += triple["count"]
    wrong = sorted(
        (triple for triple in triples if triple["true"] != triple["predicted"]),
        key=lambda triple: (-triple["count"], triple["true"], triple["predicted"]),
    )
    return ConfusionMatrix(
        names=names,
        cells=tuple(
            (row, column, count, count / rows[row]) for (row, column), count in sorted(counts.items()) if count
        ),
        largest=tuple(
            (one["true"], one["predicted"], one["count"], one["count"] / support[one["true"]])
            for one in wrong[:_MAX_CONFUSIONS]
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricRow:
    """A metric of the model and of the baseline.

    Attributes:
        name: the metric.
        value: the model's.
        baseline: the baseline's; None if it has none.
        interval: lower and upper end of the interval of the model's; None without.
    """

    name: str
    value: float
    baseline: float | None
    interval: tuple[float, float] | None = None


def metric_rows(task: Mapping[str, Any]) -> list[MetricRow]:
    """Lists the metrics of a task's evaluation, in its order."""
    baseline = baseline_of(task)
    rows = []
    for name, value in task.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or name.startswith(("num_", "format_")):
            continue
        of_baseline = baseline.get(name)
        rows.append(
            MetricRow(
                name=name,
                value=float(value),
                baseline=float(of_baseline) if isinstance(of_baseline, (int, float)) else None,
                interval=_interval(task, "metrics", name),
            )
        )
    return rows


def change_rows(task: Mapping[str, Any]) -> list[MetricRow]:
    """Lists metrics of the model, beside those of the latest blessed one and the interval of the difference."""
    blessed = task.get("change", {}).get("latest_blessed", {})
    return [
        MetricRow(name=name, value=float(task[name]), baseline=float(value), interval=_interval(task, "changes", name))
        for name, value in blessed.items()
        if name in task
    ]


def trees_rows(task: Mapping[str, Any]) -> list[MetricRow]:
    """Lists metrics of the model, beside those of trees and the interval of the difference."""
    trees = task.get("trees_baseline", {})
    model, intervals = trees.get("model", {}), trees.get("intervals", {})
    return [
        MetricRow(name=name, value=float(model[name]), baseline=float(value), interval=_ends(intervals.get(name)))
        for name, value in trees.get("trees", {}).items()
        if name in model
    ]


def trees_words(task: Mapping[str, Any]) -> str:
    """Says in a sentence what the graph adds to trees, or why there are none; empty if that was not asked for."""
    trees = task.get("trees_baseline", {})
    if "reason" in trees:
        return f"There are no trees to compare with: {trees['reason']}."
    if "meaning" not in trees:
        return ""
    counts = f"{as_count(trees['num_training_rows'])} training and {as_count(trees['num_examples'])} evaluated examples"
    meaning = trees["meaning"]
    return f"{meaning[:1].upper()}{meaning[1:]}; on {counts}, {100 * trees['confidence']:g}% interval."


def interval_words(task: Mapping[str, Any]) -> str:
    """Says what the intervals on the page are; empty without any."""
    intervals = task.get("intervals", {})
    if "num_resampled" not in intervals:
        return ""
    return (
        f"{100 * intervals['confidence']:g}% intervals are from a bootstrap of "
        f"{as_count(intervals['num_resampled'])} examples."
    )


def _interval(task: Mapping[str, Any], kind: str, name: str) -> tuple[float, float] | None:
    return _ends(task.get("intervals", {}).get(kind, {}).get(name))


def _ends(ends: Mapping[str, float] | None) -> tuple[float, float] | None:
    return (float(ends["lower"]), float(ends["upper"])) if ends else None


def change_words(task: Mapping[str, Any]) -> str:
    """Says in which interval the difference to the latest blessed model is; empty if there is none."""
    change = task.get("change", {})
    if change.get("lower") is None or change.get("upper") is None:
        return ""
    return (
        f"The {100 * change['confidence']:g}% interval of the improvement in {change['metric']} on "
        f"{as_count(change['num_examples'])} examples is {change['lower']:.4f} to {change['upper']:.4f}."
    )


def baseline_of(task: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the baseline of a task's evaluation; empty if it has none."""
    return next((task[name] for name in _BASELINES if isinstance(task.get(name), dict)), {})


def baseline_words(task: Mapping[str, Any]) -> str:
    """Names the baseline of a task's evaluation."""
    baseline = baseline_of(task)
    if "class" in baseline:
        return f"always {baseline['class']}"
    return "the mean label" if "mean_baseline" in task else "a random order"


def draw_reliability(calibration: Mapping[str, Any], *, identity: str) -> str:
    """Draws accuracy by confidence; the area of a point is its share of the examples."""
    bins = calibration["bins"]
    total = sum(one["num_examples"] for one in bins) or 1

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=FAINT, linestyle="--", linewidth=1.0)
        axes.plot(
            [one["mean_confidence"] for one in bins],
            [one["accuracy"] for one in bins],
            color=SERIES_COLORS[0],
            linewidth=1.2,
        )
        axes.scatter(
            [one["mean_confidence"] for one in bins],
            [one["accuracy"] for one in bins],
            s=[8 + 160 * one["num_examples"] / total for one in bins],
            color=SERIES_COLORS[0],
        )
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.02)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])

    error = calibration["expected_calibration_error"]
    return draw_for_page(
        draw,
        identity=identity,
        title=f"Accuracy by confidence; expected calibration error {error:.3f}",
        size=(3.6, 2.4),
        margins=(0.14, 0.97, 0.1, 0.97),
    )


def calibration_words(calibration: Mapping[str, Any]) -> str:
    """Says whether the model is over- or underconfident, from the means over all examples."""
    bins = calibration["bins"]
    total = sum(one["num_examples"] for one in bins)
    confidence = sum(one["mean_confidence"] * one["num_examples"] for one in bins) / total
    accuracy = sum(one["accuracy"] * one["num_examples"] for one in bins) / total
    gap = confidence - accuracy
    if abs(gap) < 0.02:
        return f"Mean confidence {confidence:.3f} and accuracy {accuracy:.3f} agree within 0.02."
    direction = "overconfident" if gap > 0 else "underconfident"
    return f"Mean confidence is {confidence:.3f}, accuracy {accuracy:.3f}: the model is {direction} by {abs(gap):.3f}."


def wider_residual_bins(bins: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Joins neighbouring bins in pairs until there are few enough for the number of examples.

    By Rice's rule, twice the cube root of the number of examples; at least 10. Bins of equal width that begin at a
    multiple of it stay so.
    """
    wider = [dict(one) for one in bins]
    limit = max(10.0, 2.0 * sum(one["num_examples"] for one in bins) ** (1 / 3))
    while (width := wider[0]["high"] - wider[0]["low"]) * limit < wider[-1]["high"] - wider[0]["low"]:
        counts: Counter[float] = Counter()
        for one in wider:
            counts[math.floor(one["low"] / (2 * width)) * 2 * width] += one["num_examples"]
        wider = [{"low": low, "high": low + 2 * width, "num_examples": count} for low, count in sorted(counts.items())]
    return wider


def draw_residuals(bins: Sequence[Mapping[str, Any]], *, identity: str, title: str) -> str:
    """Draws a histogram of residuals, with a dashed line at 0."""
    bins = wider_residual_bins(bins)

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        axes.bar(
            [one["low"] for one in bins],
            [one["num_examples"] for one in bins],
            width=[one["high"] - one["low"] for one in bins],
            align="edge",
            color=SERIES_COLORS[0],
        )
        axes.axvline(0.0, color=FAINT, linestyle="--", linewidth=1.0)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))

    return draw_for_page(draw, identity=identity, title=title, margins=(0.17, 0.97, 0.14, 0.95))


def residual_words(bins: Sequence[Mapping[str, Any]]) -> str:
    """Says on which side of the predictions the labels are."""
    total = sum(one["num_examples"] for one in bins)
    below = sum(one["num_examples"] for one in bins if one["low"] < 0)
    return (
        f"Of {as_count(total)} examples, the label is below the prediction in {as_percent(below / total)}, and equal "
        "to it or above in the others."
    )


def draw_ranks(bins: Sequence[Mapping[str, Any]], *, identity: str) -> str:
    """Draws a histogram of ranks, with a line across each bar for a random order."""

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        positions = range(len(bins))
        axes.bar(positions, [one["num_pairs"] for one in bins], width=0.8, color=SERIES_COLORS[0])
        axes.hlines(
            [one["num_by_chance"] for one in bins],
            [position - 0.45 for position in positions],
            [position + 0.45 for position in positions],
            color=SERIES_COLORS[1],
            linewidth=2.0,
        )
        shown = positions[:: max(1, math.ceil(len(bins) / _MAX_TICKS))]
        axes.set_xticks(shown, [f"{bins[position]['low']:,}" for position in shown])
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))

    return draw_for_page(draw, identity=identity, title="True pairs by rank", margins=(0.17, 0.97, 0.14, 0.95))


def rank_words(bins: Sequence[Mapping[str, Any]]) -> str:
    """Says how many true pairs come first, and how many would in a random order."""
    total = sum(one["num_pairs"] for one in bins)
    first = bins[0]
    return (
        f"Of {as_count(total)} true pairs, {as_count(first['num_pairs'])} rank first; in a random order "
        f"{as_amount(first['num_by_chance'])} would on average."
    )


_LASTING_RISE = 1.02
_LASTING_FALL = 1.01
_LARGE_GAP = 0.1


def training_remarks(
    epochs: Sequence[Mapping[str, float]], exported_epoch: int, *, stopped_early: bool = False
) -> list[str]:
    """Says in sentences whether a training overfitted, or ended too early.

    Args:
        epochs: loss and metrics of each epoch; those of validation begin with "val_".
        exported_epoch: epoch whose weights were exported, from 1.
        stopped_early: whether early stopping ended it before its last epoch.
    """
    remarks = []
    losses = [_finite(logs.get("val_loss")) for logs in epochs]
    known = [(loss, epoch) for epoch, loss in enumerate(losses, 1) if loss is not None]
    if len(known) > 1:
        lowest, best = min(known)
        last, last_epoch = known[-1]
        before, after = _finite(epochs[best - 1].get("loss")), _finite(epochs[last_epoch - 1].get("loss"))
        fell = before is not None and after is not None and after < before
        earlier = [loss for loss, epoch in known if epoch <= last_epoch - max(1, last_epoch // 5)]
        if best == last_epoch and earlier and lowest < min(earlier) / _LASTING_FALL:
            remarks.append(
                f"The validation loss was still falling: it was lowest in the last epoch ({lowest:.4g}). More epochs "
                "may give a better model."
            )
        elif last > _LASTING_RISE * lowest and fell:
            remarks.append(
                f"Overfitting after epoch {best}: the validation loss rose from {lowest:.4g} to {last:.4g} in epoch "
                f"{last_epoch}, while the training loss fell from {before:.4g} to {after:.4g}. "
                + _overfitting_remedy(
                    best=best, last=last_epoch, exported_epoch=exported_epoch, stopped_early=stopped_early
                )
            )
        else:
            remarks.append(
                f"The validation loss hardly changed at the end: it was lowest in epoch {best} ({lowest:.4g}), and "
                f"{last:.4g} in epoch {last_epoch}."
            )
    if 0 < exported_epoch <= len(epochs):
        logs = epochs[exported_epoch - 1]
        train, validation = _finite(logs.get("accuracy")), _finite(logs.get("val_accuracy"))
        if train is not None and validation is not None and train - validation > _LARGE_GAP:
            remarks.append(
                f"In the exported epoch {exported_epoch}, accuracy is {train:.3f} in training and {validation:.3f} in "
                "validation: the network knows its training graphs much better than new ones."
            )
    return remarks


def _overfitting_remedy(*, best: int, last: int, exported_epoch: int, stopped_early: bool) -> str:
    """Advises no early stopping to a training that stopped early or exported an epoch before its last."""
    if exported_epoch == best:
        return (
            f"The weights of epoch {best} were exported, so the model does not suffer from it. Dropout, weight decay "
            "or more data may give a better one."
        )
    if exported_epoch == last and not stopped_early:
        return "Early stopping (early_stopping_patience) exports the best epoch; dropout or weight decay may help too."
    return "Dropout, weight decay or more data may help."


def _finite(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and math.isfinite(value)
    return float(value) if is_number else None
