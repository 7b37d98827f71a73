"""Histograms of graph sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tfx_gnn.stages.report_pages.page_drawing import INK, NUM_SERIES_COLORS, SERIES_COLORS, draw_for_page
from tfx_gnn.stages.sizes.size_constraints_file import SetSizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEAVY_TAIL = 8
"""A set whose largest size is so many times its median is shown with a logarithmic vertical axis."""

_LINE_STYLES = {"tight": "-", "fit_or_skip": "--", "packing": ":"}
_MAX_TICKS = 6


def size_histogram(
    sizes: Mapping[str, SetSizes], room: Mapping[str, float], *, main_split: str, identity: str, title: str
) -> str:
    """Draws how many graphs have how many items of one set.

    Args:
        sizes: sizes by split, in the order of their colours.
        room: items that a budget has for each real graph, by kind of budget.
        main_split: split whose histogram is filled; those of others are outlines.
        identity: begins the ids of the drawing's parts, so that they differ from others' on the page.
        title: what the drawing shows, for those who do not see it; any characters.

    Returns:
        An `<svg>` element, as `draw_for_page` makes it; equal arguments give equal text.
    """
    return draw_for_page(lambda axes: _draw(axes, sizes, room, main_split), identity=identity, title=title)


def is_heavy_tailed(sizes: Mapping[str, SetSizes]) -> bool:
    """Tells whether some graphs are far larger than most.

    Args:
        sizes: sizes of one set by split.

    Returns:
        Whether a linear axis would hide the largest graphs.
    """
    return any(one.maximum >= HEAVY_TAIL * max(1.0, one.quantiles["p50"]) for one in sizes.values())


def _draw(axes: Axes, sizes: Mapping[str, SetSizes], room: Mapping[str, float], main_split: str) -> None:
    bounds, shares = _bins(sizes, max(room.values(), default=0.0))
    # Bins double in size, so equally wide bars are a logarithmic axis; that it may begin at 0 is why it is made here.
    edges = np.arange(len(bounds), dtype=np.float64)
    floor = 0.0
    if is_heavy_tailed(sizes):
        floor = min(float(share[share > 0].min(initial=1.0)) for share in shares.values()) / 2
        axes.set_yscale("log")
    for i, (split, share) in enumerate(shares.items()):
        filled = split == main_split or len(shares) == 1
        axes.stairs(
            np.maximum(share, floor),
            edges,
            baseline=floor,
            color=SERIES_COLORS[i % NUM_SERIES_COLORS],
            fill=filled,
            alpha=0.55 if filled else 1.0,
            linewidth=1.4,
        )
    for kind, items in room.items():
        axes.axvline(
            float(np.interp(items, bounds, edges)), color=INK, linestyle=_LINE_STYLES.get(kind, "-."), linewidth=1.2
        )
    axes.set_xlim(0, edges[-1])
    step = -(-len(bounds) // _MAX_TICKS)
    axes.set_xticks(edges[::step], [_short(bound) for bound in bounds[::step]])
    _percent_ticks(axes, floor)


def _bins(sizes: Mapping[str, SetSizes], reach: float) -> tuple[list[int], dict[str, npt.NDArray[np.float64]]]:
    """Cuts away bins at both ends that no split has graphs in, and adds bins up to `reach`."""
    bounds = sorted({bound for one in sizes.values() for bound in one.histogram_bounds})
    while bounds[-1] <= reach:
        bounds.append(max(1, 2 * bounds[-1]))
    counts = {
        split: np.array([*one.histogram_counts, *[0] * (len(bounds) - 1 - len(one.histogram_counts))], np.float64)
        for split, one in sizes.items()
    }
    used = np.flatnonzero(sum(counts.values()))
    last_line = int(np.searchsorted(bounds, reach, side="right")) - 1
    first = int(used[0]) if used.size else 0
    last = max(int(used[-1]) if used.size else 0, last_line if reach else 0) + 1
    return bounds[first : last + 1], {
        split: count[first:last] / max(1.0, count.sum()) for split, count in counts.items()
    }


def _percent_ticks(axes: Axes, floor: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    if floor:
        axes.set_ylim(floor, 1.4)
        axes.yaxis.set_major_locator(LogLocator(numticks=5))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, None)
        axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g}%"))


def _short(number: int) -> str:
    for unit, factor in (("G", 2**30), ("M", 2**20), ("k", 2**10)):
        if number >= factor:
            return f"{number // factor}{unit}"
    return str(number)
