"""Pages made of templates, all with the look of `page.html.j2`."""

from __future__ import annotations

from typing import Any

import jinja2

from tfx_gnn.stages.report_pages import number_texts
from tfx_gnn.stages.report_pages.page_drawing import NUM_SERIES_COLORS

REPORT_FILE = "report.html"
"""Name of a report in the folder of what it reports on."""


def render_page(package: str, template: str, **values: Any) -> str:
    """Renders a page.

    The page needs nothing beside itself: no script, no network, plots as SVG inside. It follows the
    reader's light or dark setting. Texts among the values may have any characters.

    Args:
        package: package with a folder `templates` in which the template is.
        template: name of its file; it extends `page.html.j2`, and may import from `parts.html.j2`.
        **values: what it shows.

    Returns:
        The page; equal values give equal text.

    Raises:
        jinja2.UndefinedError: if the template shows what is not among the values.
    """
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(package), jinja2.PackageLoader("tfx_gnn.stages.report_pages")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "amount": number_texts.as_amount,
        "bytes": number_texts.as_bytes,
        "count": number_texts.as_count,
        "duration": number_texts.as_duration,
        "figure": number_texts.as_figure,
        "option": number_texts.as_option,
        "percent": number_texts.as_percent,
    }
    return environment.get_template(template).render(num_colors=NUM_SERIES_COLORS, **values)
