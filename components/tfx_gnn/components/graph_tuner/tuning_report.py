"""The HTML report of a search, with plots of the hyperparameters' influence."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfx_gnn.components.graph_tuner.search_space import Choice, FloatRange, IntRange, SearchRange
from tfx_gnn.components.graph_tuner.trials import COMPLETE, Trial, TuningSummary
from tfx_gnn.io import options_json
from tfx_gnn.reports.report_page import FAINT, INK, SERIES_COLORS, draw_curves, draw_for_page, render_page, write_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARGINS = (0.17, 0.97, 0.14, 0.95)

_MAX_LABEL = 12


def draw_progress(trials: Sequence[Trial], *, maximizes: bool, identity: str, title: str) -> str:
    """Draws the objective of each trial, and the best value so far."""

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        complete = [(trial.number, trial.value) for trial in trials if trial.value is not None]
        best: list[float] = []
        for _, value in complete:
            best.append(value if not best else (max if maximizes else min)(best[-1], value))
        numbers = [number for number, _ in complete]
        axes.step(numbers, best, where="post", color=SERIES_COLORS[1], linewidth=1.5)
        axes.scatter(numbers, [value for _, value in complete], color=SERIES_COLORS[0], s=9)
        axes.set_xlim(-0.5, max(len(trials) - 0.5, 1))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        _finish(axes)

    return draw_for_page(draw, identity=identity, title=title, margins=_MARGINS)


def draw_slice(name: str, values: SearchRange, trials: Sequence[Trial], best: Trial, *, identity: str) -> str:
    """Draws the objective over the values of one hyperparameter, and marks the best trial."""

    def place(trial: Trial) -> float:
        value = trial.hyperparameters[name]
        return values.texts.index(json.dumps(value, sort_keys=True)) if isinstance(values, Choice) else value

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        complete = [trial for trial in trials if trial.state == COMPLETE and trial is not best]
        points = [(place(trial), trial.value) for trial in complete if trial.value is not None]
        axes.scatter([x for x, _ in points], [y for _, y in points], color=SERIES_COLORS[0], s=9, alpha=0.7)
        if best.value is not None:
            axes.scatter([place(best)], [best.value], color=INK, s=22, marker="D")
        if isinstance(values, Choice):
            axes.set_xticks(range(len(values.texts)), [_shortened(text) for text in values.texts])
            axes.set_xlim(-0.5, len(values.texts) - 0.5)
        elif isinstance(values, (FloatRange, IntRange)):
            _set_range(axes, values)
            if not values.log:
                axes.xaxis.set_major_locator(MaxNLocator(5, integer=isinstance(values, IntRange)))
        _finish(axes)

    return draw_for_page(draw, identity=identity, title=f"Objective by {name}", margins=_MARGINS)


def _set_range(axes: Axes, values: FloatRange | IntRange) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if values.log:
        axes.set_xscale("log")
        margin = (values.high / values.low) ** 0.04
        axes.set_xlim(values.low / margin, values.high * margin)
        # Within one order of magnitude, ticks at powers of ten alone would leave the axis bare.
        is_narrow = math.log10(values.high / values.low) < 2
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if is_narrow else (1.0,)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        margin = 0.04 * (values.high - values.low)
        axes.set_xlim(values.low - margin, values.high + margin)


def _finish(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.margins(y=0.12)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axes.grid(visible=True, axis="y", color=FAINT, alpha=0.25, linewidth=0.6)


def _shortened(text: str) -> str:
    text = text.strip('"')
    return text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 1]}…"


_CURVES = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Slice:
    """One hyperparameter, and its drawing."""

    name: str
    values: str
    drawing: str


def render_tuning_report(summary: TuningSummary) -> str:
    """Renders a search as one HTML page: the best values, the effect of each hyperparameter, and all trials."""
    best = summary.best_first()
    shown = [trial for trial in best if trial.state == COMPLETE][:_CURVES]
    return render_page(
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
    """Writes the page of `render_tuning_report`."""
    write_page(render_tuning_report(summary), path)


def value_text(value: Any) -> str:
    """Formats a hyperparameter's value; floats have four digits, and strings no quotes."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)


def describe_range(values: SearchRange) -> str:
    """Describes the values that a hyperparameter may take, as in "1e-04 to 0.1, logarithmic"."""
    if isinstance(values, Choice):
        return ", ".join(value_text(value) for value in values.values)
    assert isinstance(values, (FloatRange, IntRange))
    step = f", in steps of {values.step}" if isinstance(values, IntRange) and values.step > 1 else ""
    return f"{values.low:g} to {values.high:g}{step}{', logarithmic' if values.log else ''}"
