"""Shows graphs and their specs as small tables in notebooks.

The tables take the notebook's own colours, so they suit light and dark themes. All names are escaped.
"""

from __future__ import annotations

import html
from typing import Any

import tensorflow as tf

_CELL = "text-align:left;vertical-align:top;padding:.2em .8em .2em 0;border:0;border-top:1px solid currentColor"
_HEAD = "text-align:left;padding:.2em .8em .2em 0;border:0"


def graph_html(title: str, spec: Any, graph: Any = None) -> str:
    """Renders a spec as HTML; with the numbers of items of `graph`, if it is given and has values."""
    rows = []
    for kind, sets, pieces in (
        ("node set", spec.node_sets_spec, graph.node_sets if graph is not None else {}),
        ("edge set", spec.edge_sets_spec, graph.edge_sets if graph is not None else {}),
    ):
        for name, one in sets.items():
            items = _num_items(one, pieces.get(name) if pieces else None)
            rows.append(_row(kind, name, _ends(one) if kind == "edge set" else "", items, one.features_spec))
    components = _num_items(spec.context_spec, graph.context if graph is not None else None)
    rows.insert(0, _row("context", "", "", components, spec.context_spec.features_spec))
    heads = "".join(f'<th style="{_HEAD}">{head}</th>' for head in ("", "name", "ends", "items", "features"))
    shape = html.escape(str(spec.shape.as_list() if spec.shape.rank is not None else "unknown"))
    return (
        '<div style="overflow-x:auto;max-width:100%"><table style="border-collapse:collapse;background:none;'
        'color:inherit;font-size:.9em">'
        f'<caption style="text-align:left;color:inherit"><b>{html.escape(title)}</b> of shape {shape}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _row(kind: str, name: str, ends: str, items: str, features: Any) -> str:
    described = "<br>".join(
        f"<code>{html.escape(feature)}</code> {html.escape(_field_text(spec))}" for feature, spec in features.items()
    )
    cells = (kind, f"<b>{html.escape(name)}</b>", html.escape(ends), html.escape(items), described)
    shown = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
    return f"<tr>{shown}</tr>"


def _field_text(spec: Any) -> str:
    shape = spec.shape
    dims = "?" if shape.rank is None else ", ".join("?" if size is None else str(size) for size in shape.as_list())
    ragged = " ragged" if isinstance(spec, tf.RaggedTensorSpec) else ""
    return f"{spec.dtype.name} [{dims}]{ragged}"


def _ends(spec: Any) -> str:
    adjacency = spec.adjacency_spec
    if hasattr(adjacency, "source_name"):
        return f"{adjacency.source_name} \N{RIGHTWARDS ARROW} {adjacency.target_name}"
    return ", ".join(f"{tag}: {name}" for tag, (name, _) in sorted(adjacency.get_index_specs_dict().items()))


def _num_items(spec: Any, piece: Any) -> str:
    sizes = getattr(piece, "sizes", None)
    if sizes is not None and hasattr(sizes, "numpy"):
        return f"{int(tf.reduce_sum(sizes)):,}"
    return "?" if spec.total_size is None else f"{spec.total_size:,}"
