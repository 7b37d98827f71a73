"""Matplotlib's drawings as SVG, for a page that may be light or dark."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUM_SERIES_COLORS = 6
"""Series with a colour of their own; further ones share them."""

# Matplotlib writes colours as numbers. These stand for what the page's style sheet calls by name.
INK, FAINT = "#010101", "#020202"
SERIES_COLORS = tuple(f"#0a0b{i:02d}" for i in range(NUM_SERIES_COLORS))
_PAGE_COLORS = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    **{color: f"var(--series-{i})" for i, color in enumerate(SERIES_COLORS)},
}
_SETTINGS = {
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "tfx_gnn",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
}


def draw_for_page(
    draw: Callable[[Axes], None],
    *,
    identity: str,
    title: str,
    size: tuple[float, float] = (3.6, 1.7),
    margins: tuple[float, float, float, float] = (0.145, 0.96, 0.14, 0.95),
) -> str:
    """Makes a drawing to be put into a page.

    Args:
        draw: draws on the axes; colours are `INK`, `FAINT` and those of `SERIES_COLORS`.
        identity: begins the ids of the drawing's parts, so that they differ from others' on the page.
        title: what the drawing shows, for those who do not see it; any characters.
        size: width and height, in inches of a page whose letters have 9 points.
        margins: where the axes lie: left, right, bottom and top, as shares of the drawing.

    Returns:
        An `<svg>` element. It takes its colours from that page's custom properties `--ink`, `--faint` and
        `--series-0`, `--series-1`, ...; equal drawings give equal text, whatever the user's settings.
    """
    import matplotlib as mpl
    import matplotlib.style
    from matplotlib.figure import Figure

    text = io.StringIO()
    with matplotlib.style.context("default"), mpl.rc_context(_SETTINGS):
        # Not by pyplot, which would keep the figure and might open a display.
        figure = Figure(figsize=size)
        left, right, bottom, top = margins
        figure.subplots_adjust(left=left, right=right, bottom=bottom, top=top)
        draw(figure.add_subplot())
        metadata: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, metadata=metadata)
    return _for_page(text.getvalue(), identity, title)


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
