"""Curves over epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tfx_gnn.stages.report_pages.number_texts import as_percent
from tfx_gnn.stages.report_pages.page_drawing import FAINT, NUM_SERIES_COLORS, SERIES_COLORS, draw_for_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_MARKED_EPOCHS = 30


def draw_curves(
    series: Mapping[str, Sequence[float]],
    *,
    identity: str,
    title: str,
    marked_epoch: int = 0,
    is_share: bool = False,
) -> str:
    """Draws figures by epoch.

    Args:
        series: figures of each epoch by the name of the curve, in the order of their colours; what is not finite is
            left out.
        identity: begins the ids of the drawing's parts.
        title: what the drawing shows, for those who do not see it.
        marked_epoch: epoch to mark by a line, from 1; 0 for none.
        is_share: whether figures are shares, shown as percentages from 0.

    Returns:
        An `<svg>` element, as `draw_for_page` makes it.
    """

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        num_epochs = max((len(values) for values in series.values()), default=0)
        if marked_epoch:
            axes.axvline(marked_epoch, color=FAINT, linestyle="--", linewidth=1.0)
        for i, values in enumerate(series.values()):
            axes.plot(
                range(1, len(values) + 1),
                values,
                color=SERIES_COLORS[i % NUM_SERIES_COLORS],
                linewidth=1.5,
                marker="o" if num_epochs <= _MAX_MARKED_EPOCHS else "",
                markersize=2.5,
            )
        axes.set_xlim(0.75, max(num_epochs, 2) + 0.25)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.margins(y=0.1)
        if is_share:
            largest = max((value for values in series.values() for value in values), default=0.0)
            axes.set_ylim(0.0, max(0.01, 1.1 * largest))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: as_percent(share) if share else "0%"))
        else:
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))

    return draw_for_page(draw, identity=identity, title=title, margins=(0.17, 0.97, 0.14, 0.95))
