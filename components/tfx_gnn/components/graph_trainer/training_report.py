"""The HTML report of a training."""

from __future__ import annotations

import dataclasses
import math

from tfx_gnn.reports.report_page import draw_curves, render_page, write_page
from tfx_gnn.training.loop.summary import TrainingSummary
from tfx_gnn.training.options import VALIDATION_LOSS

_VALIDATION = "val_"
_NOTED_WAIT = 0.2
_NOTED_WAIT_SECONDS = 10.0
_NOTED_REMOVAL = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Curve:
    """A curve's data and its drawing."""

    name: str
    series: tuple[str, ...]
    drawing: str


def render_training_report(summary: TrainingSummary) -> str:
    """Renders a training as one HTML page: curves, input, layers, options and where it stopped."""
    return render_page(
        "training_report.html.j2",
        summary=summary,
        names=_metric_names(summary),
        exported=summary.epochs[summary.exported_epoch - 1] if summary.exported_epoch else {},
        curves=_curves(summary),
        input_curves=_input_curves(summary),
        notes=training_notes(summary),
        monitor=summary.options.get("monitor", VALIDATION_LOSS),
        is_finite=math.isfinite,
    )


def write_training_report(summary: TrainingSummary, path: str) -> None:
    """Writes the page of `render_training_report`."""
    write_page(render_training_report(summary), path)


def training_notes(summary: TrainingSummary) -> list[str]:
    """Suggests improvements for the next training, in sentences."""
    notes = list(summary.warnings)
    monitor = summary.options.get("monitor", VALIDATION_LOSS)
    losses = [logs.get(VALIDATION_LOSS, math.nan) for logs in summary.epochs]
    finite = [loss for loss in losses if math.isfinite(loss)]
    if len(finite) > 1:
        lowest = losses.index(min(finite)) + 1
        if monitor != VALIDATION_LOSS:
            if summary.exported_epoch == len(losses):
                notes.append(f"`{monitor}` was best in the last epoch: more epochs may give a better model.")
        elif lowest == len(losses):
            notes.append("The validation loss was lowest in the last epoch: more epochs may give a better model.")
        elif lowest != summary.exported_epoch:
            notes.append(
                f"The validation loss was lowest in epoch {lowest}, but epoch {summary.exported_epoch} was exported: "
                "`early_stopping_patience` exports the best one."
            )
    graphs = sum(one.num_graphs for one in summary.epoch_inputs)
    removed = sum(one.num_removed_graphs for one in summary.epoch_inputs)
    if removed > _NOTED_REMOVAL * max(graphs + removed, 1):
        notes.append(
            f"Training never saw {removed:,} of {graphs + removed:,} graphs, because their batches did not fit: "
            "batching 'packed' leaves none out."
        )
    # The first epoch also waits for files that are not in memory yet.
    later = summary.epoch_inputs[1:] or summary.epoch_inputs
    seconds = [one.num_graphs / one.graphs_per_second if one.graphs_per_second else 0.0 for one in later]
    waited = sum(time * one.input_bound_share for time, one in zip(seconds, later, strict=True))
    if waited > max(_NOTED_WAIT_SECONDS, _NOTED_WAIT * sum(seconds)):
        notes.append(
            f"Steps waited for their input {100 * waited / sum(seconds):.0f}% of the time: precomputed batches "
            "(`tfx-gnn batches`) or more processors make training faster."
        )
    if summary.num_eval_examples_of_unknown_class:
        notes.append(
            f"{summary.num_eval_examples_of_unknown_class:,} labels of the evaluation split are missing, or of a class "
            "that training does not know; they are not scored."
        )
    return notes


def _metric_names(summary: TrainingSummary) -> list[str]:
    """Metric names without the validation prefix; the loss first, then in the model's order."""
    names = dict.fromkeys(name.removeprefix(_VALIDATION) for logs in summary.epochs for name in logs)
    return sorted(names, key=lambda name: name != "loss")


def _curves(summary: TrainingSummary) -> list[_Curve]:
    curves = []
    for position, name in enumerate(_metric_names(summary)):
        series = {
            shown: [logs.get(prefix + name, math.nan) for logs in summary.epochs]
            for shown, prefix in (("training", ""), ("validation", _VALIDATION))
            if any(prefix + name in logs for logs in summary.epochs)
        }
        drawing = draw_curves(
            series,
            identity=f"metric-{position}",
            title=f"{name} by epoch",
            marked_epoch=summary.exported_epoch,
        )
        curves.append(_Curve(name=name, series=tuple(series), drawing=drawing))
    return curves


def _input_curves(summary: TrainingSummary) -> list[_Curve]:
    inputs = summary.epoch_inputs
    figures = {
        "graphs a second": ([one.graphs_per_second for one in inputs], False),
        "time waited for input": ([one.input_bound_share for one in inputs], True),
        "padding": ([1.0 - one.fill for one in inputs], True),
        "graphs removed": ([one.removed_share for one in inputs], True),
    }
    return [
        _Curve(
            name=name,
            series=(),
            drawing=draw_curves({name: values}, identity=f"input-{i}", title=f"{name} by epoch", is_share=is_share),
        )
        for i, (name, (values, is_share)) in enumerate(figures.items())
    ]
