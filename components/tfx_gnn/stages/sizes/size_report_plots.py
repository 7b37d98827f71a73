"""Histograms of graph sizes as SVG, for a page that may be light or dark."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.stages.sizes.size_constraints_file import SetSizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUM_SPLIT_COLORS = 6
"""Splits with a colour of their own; further ones share them."""
HEAVY_TAIL = 8
"""A set whose largest size is so many times its median is shown with a logarithmic vertical axis."""

_LINE_STYLES = {"tight": "-", "fit_or_skip": "--", "packing": ":"}
_MAX_TICKS = 6
# Matplotlib writes colours as numbers. These stand for what the page's style sheet calls by name.
_INK, _FAINT = "#010101", "#020202"
_SPLIT_COLORS = [f"#0a0b{i:02d}" for i in range(NUM_SPLIT_COLORS)]
_PAGE_COLORS = {
    _INK: "var(--ink)",
    _FAINT: "var(--faint)",
    **{color: f"var(--split-{i})" for i, color in enumerate(_SPLIT_COLORS)},
}
_SETTINGS = {
    "axes.edgecolor": _FAINT,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "tfx_gnn",
    "text.color": _INK,
    "text.parse_math": False,
    "xtick.color": _FAINT,
    "xtick.labelcolor": _INK,
    "ytick.color": _FAINT,
    "ytick.labelcolor": _INK,
}


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
        An `<svg>` element to be put into a page. It takes its colours from that page's custom
        properties `--ink`, `--faint` and `--split-0`, `--split-1`, ...; equal arguments give
        equal text.
    """
    import matplotlib as mpl
    import matplotlib.style
    from matplotlib.figure import Figure

    text = io.StringIO()
    with matplotlib.style.context("default"), mpl.rc_context(_SETTINGS):
        # Not by pyplot, which would keep the figure and might open a display.
        figure = Figure(figsize=(3.6, 1.7))
        figure.subplots_adjust(left=0.145, right=0.96, bottom=0.14, top=0.95)
        _draw(figure.add_subplot(), sizes, room, main_split)
        metadata: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, metadata=metadata)
    return _for_page(text.getvalue(), identity, title)


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
            color=_SPLIT_COLORS[i % NUM_SPLIT_COLORS],
            fill=filled,
            alpha=0.55 if filled else 1.0,
            linewidth=1.4,
        )
    for kind, items in room.items():
        axes.axvline(
            float(np.interp(items, bounds, edges)), color=_INK, linestyle=_LINE_STYLES.get(kind, "-."), linewidth=1.2
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


def _for_page(text: str, identity: str, title: str) -> str:
    """Leaves of a file what belongs into a page, with ids that no other drawing has."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.DOTALL)
    referenced = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    text = re.sub(
        r' id="([^"]+)"', lambda found: f' id="{identity}-{found[1]}"' if found[1] in referenced else "", text
    )
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{identity}-", text)
    text = re.sub(r"font-family: [^;\"]+", "font-family: inherit", text)
    for color, name in _PAGE_COLORS.items():
        text = text.replace(color, name)
    text = re.sub(r"\s*\n\s*", " ", text).strip()
    accessible = f' role="img" aria-labelledby="{identity}-title"'
    text = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"', accessible, text, count=1)
    return text.replace(">", f'><title id="{identity}-title">{html.escape(title)}</title>', 1)
