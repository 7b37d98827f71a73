"""Renders reports from templates, with plots.

Matplotlib drawings become SVG that suits light and dark pages.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
import markupsafe

from tfx_gnn.io.page_style import PAGE_STYLE
from tfx_gnn.io.whole_files import write_whole
from tfx_gnn.records.metric_names import metric_meaning, shown_metric
from tfx_gnn.records.warning_kinds import KINDS_BY_NAME, split_mark
from tfx_gnn.reports import number_texts
from tfx_gnn.reports.number_texts import as_percent
from tfx_gnn.reports.paired_metrics import as_signed, p_value_words

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

    `series` holds the figures of all epochs by name of the curve, in the order of colours; non-finite figures are left
    out. `marked_epoch` counts from 1; 0 marks none.
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


NUM_SERIES_COLORS = 6
"""Number of series with their own colour; further series reuse these colours."""


# Matplotlib writes colours as numbers. These are placeholders for named colours of the page's style sheet.
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
    """Makes a drawing for a page, as an `<svg>` element.

    `draw` uses the colours `INK`, `FAINT` and `SERIES_COLORS`, which become the page's custom properties `--ink`,
    `--faint`, `--series-0`, ... `identity` is the prefix of the ids of the drawing's parts, which makes them unique on
    the page. `size` is in inches, on a page with 9-point text; `margins` are left, right, bottom and top, as fractions.
    Equal drawings give equal text, whatever the user's settings.
    """
    import matplotlib as mpl
    import matplotlib.style
    from matplotlib.figure import Figure

    text = io.StringIO()
    with matplotlib.style.context("default"), mpl.rc_context(_SETTINGS):
        # Not pyplot, which would keep the figure and might open a display.
        figure = Figure(figsize=size)
        left, right, bottom, top = margins
        figure.subplots_adjust(left=left, right=right, bottom=bottom, top=top)
        draw(figure.add_subplot())
        metadata: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, metadata=metadata)
    return _for_page(text.getvalue(), identity, title)


def _for_page(text: str, identity: str, title: str) -> str:
    """Reduces an SVG file to what belongs in a page, with ids that no other drawing has."""
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


_BETWEEN_BACKTICKS = re.compile("`([^`]+)`")

REPORT_FILE = "report.html"
"""Name of the report file in the folder that it reports on."""


def render_page(template: str, **values: Any) -> str:
    """Renders a page.

    The page is self-contained: it needs no network, and includes plots as SVG. It has no script unless its template
    allows one by its hash. It follows the reader's light or dark setting. Text values may contain any characters.

    The template is a file in `templates/`; it extends `page.html.j2`, and may import from `parts.html.j2`. Equal
    values give equal text.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tfx_gnn.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["page_style"] = markupsafe.Markup(PAGE_STYLE.strip())
    environment.filters |= {
        "amount": number_texts.as_amount,
        "bytes": number_texts.as_bytes,
        "count": number_texts.as_count,
        "duration": number_texts.as_duration,
        "aligned": number_texts.as_aligned,
        "figure": number_texts.as_figure,
        "message": _as_message,
        "metric_meaning": metric_meaning,
        "name_parts": number_texts.name_parts,
        "option": number_texts.as_option,
        "p_value": p_value_words,
        "percent": number_texts.as_percent,
        "shorten": number_texts.shorten,
        "shown_metric": shown_metric,
        "signed": as_signed,
        "time": number_texts.as_time,
        "warning": _as_warning,
    }
    return environment.get_template(template).render(num_colors=NUM_SERIES_COLORS, **values)


def _as_message(text: str) -> markupsafe.Markup:
    """Shows what is between two backticks, as messages mark names and commands, as code."""
    return markupsafe.Markup(_BETWEEN_BACKTICKS.sub(r"<code>\1</code>", str(markupsafe.escape(text))))


def _as_warning(text: str) -> markupsafe.Markup:
    """Shows a warning as a message, and what its kind means when the pointer rests on its name."""
    words, name = split_mark(text)
    if not name:
        return _as_message(words)
    kind = KINDS_BY_NAME.get(name)
    # A check of GraphExampleValidator: its message says all.
    meaning = f"{kind.meaning} {kind.remedy}".replace("`", "") if kind else ""
    mark = '<abbr title="{0}">[{1}]</abbr>' if meaning else "[{1}]"
    return _as_message(words) + " " + markupsafe.Markup(mark).format(meaning, name)


def write_page(page: str, path: str) -> None:
    """Writes a page atomically, replacing an existing one; creates its folder if necessary."""
    folder = os.path.dirname(path)
    if "://" in path:
        import tensorflow as tf

        tf.io.gfile.makedirs(folder)
    else:
        os.makedirs(folder or os.curdir, exist_ok=True)
    write_whole(path, page)


def page_script(*names: str) -> str:
    """Reads scripts of pages and joins them."""
    folder = resources.files("tfx_gnn.reports") / "templates"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def script_hash(script: str) -> str:
    """Returns the hash by which a page's policy allows this script and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def number_or_nan(value: Any) -> float:
    """Returns a figure, NaN if it is absent or no number."""
    return float(value) if isinstance(value, (int, float)) else math.nan
