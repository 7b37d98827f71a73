"""The report of a search: a page for those who want to know what matters."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from typing import Any

import tensorflow as tf

from tfx_gnn.stages.files import options_json
from tfx_gnn.stages.report_pages.curves import draw_curves
from tfx_gnn.stages.report_pages.page_template import render_page
from tfx_gnn.stages.tuning.search_space import Choice, FloatRange, IntRange, SearchRange
from tfx_gnn.stages.tuning.trials import COMPLETE
from tfx_gnn.stages.tuning.tuning_plots import draw_progress, draw_slice
from tfx_gnn.stages.tuning.tuning_summary import TuningSummary

_CURVES = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Slice:
    """One hyperparameter, and its drawing."""

    name: str
    values: str
    drawing: str


def render_tuning_report(summary: TuningSummary) -> str:
    """Shows a search on one HTML page: the best values, what each of them does, and all trials.

    Args:
        summary: what was found; names and values may have any characters.

    Returns:
        The page, as `render_page` makes it.
    """
    best = summary.best_first()
    shown = [trial for trial in best if trial.state == COMPLETE][:_CURVES]
    return render_page(
        "tfx_gnn.stages.tuning",
        "tuning_report.html.j2",
        summary=summary,
        counts=Counter(trial.state for trial in summary.trials),
        seconds=sum(trial.seconds for trial in summary.trials),
        best_first=best,
        progress=draw_progress(
            summary.trials,
            maximizes=summary.maximizes,
            identity="progress",
            title=f"{summary.objective} by trial",
        ),
        curve_trials=shown,
        curves=draw_curves(
            {str(trial.number): trial.objective_by_epoch for trial in shown},
            identity="curves",
            title=f"{summary.objective} by epoch of the best trials",
        ),
        slices=[
            _Slice(
                name=name,
                values=describe_range(values),
                drawing=draw_slice(name, values, summary.trials, summary.best, identity=f"slice-{i}"),
            )
            for i, (name, values) in enumerate(sorted(summary.search_space.items()))
        ],
        value_text=value_text,
        fixed_text=options_json.to_json(summary.fixed),
    )


def write_tuning_report(summary: TuningSummary, path: str) -> None:
    """Writes the page of `render_tuning_report`.

    Args:
        summary: what was found.
        path: file to write, in a folder that is made if need be; one that is there is replaced.
    """
    tf.io.gfile.makedirs(os.path.dirname(path) or os.curdir)
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(render_tuning_report(summary))


def value_text(value: Any) -> str:
    """Writes the value of a hyperparameter; floats have four digits, and texts no quotes."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)


def describe_range(values: SearchRange) -> str:
    """Writes what values a hyperparameter may take, as in "1e-04 to 0.1, logarithmic"."""
    if isinstance(values, Choice):
        return ", ".join(value_text(value) for value in values.values)
    assert isinstance(values, (FloatRange, IntRange))
    step = f", in steps of {values.step}" if isinstance(values, IntRange) and values.step > 1 else ""
    return f"{values.low:g} to {values.high:g}{step}{', logarithmic' if values.log else ''}"
