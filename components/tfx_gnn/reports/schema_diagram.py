"""A drawing of a graph schema: node sets on an ellipse, edge sets as arrows between them."""

from __future__ import annotations

import html
import math

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.reports.number_texts import shorten
from tfx_gnn.reports.report_page import NUM_SERIES_COLORS

_WIDTH, _HEIGHT = 760, 440
_CENTER = _WIDTH / 2, _HEIGHT / 2
_RADIUS_X, _RADIUS_Y = 250, 145
_BOX_WIDTH, _BOX_HEIGHT = 132, 34
_NARROW = 424
_LINE = 15
_MAX_NAME = 18
_MAX_LINES = 6


def shown_node_sets(schema: GraphSchema) -> list[str]:
    """Lists the node sets that hold data, in alphabetical order: the position of one is that of its colour."""
    return sorted(name for name in schema.node_sets if name != READOUT_NODE_SET)


def draw_schema(schema: GraphSchema) -> str:
    """Draws a schema as an `<svg>` element, without the node set and the edge sets of the readout.

    Edge sets with the same ends share an arrow, and their names are written beside it.
    """
    names = shown_node_sets(schema)
    places = {name: _place(i, len(names)) for i, name in enumerate(names)}
    groups: dict[tuple[str, str], list[str]] = {}
    for name in sorted(schema.edge_sets):
        edge_set = schema.edge_sets[name]
        if edge_set.source in places and edge_set.target in places:
            groups.setdefault((edge_set.source, edge_set.target), []).append(name)
    # One or two node sets leave the sides empty, which a phone would show first.
    width = _NARROW if len(names) <= 2 else _WIDTH
    left = (_WIDTH - width) / 2
    arrows = [_arrow(places[source], places[target], edges, left) for (source, target), edges in groups.items()]
    boxes = [_box(name, places[name], i % NUM_SERIES_COLORS) for i, name in enumerate(names)]
    title = f"{len(names)} node sets: {', '.join(names)}; {sum(map(len, groups.values()))} edge sets"
    marker = (
        '<defs><marker id="schema-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" class="head"/></marker></defs>'
    )
    return (
        f'<svg viewBox="{left:g} 0 {width} {_HEIGHT}" width="{width}" height="{_HEIGHT}" role="img" '
        f'aria-labelledby="schema-title" class="schema"><title id="schema-title">{html.escape(title)}</title>'
        f"{marker}{''.join(arrows)}{''.join(boxes)}</svg>"
    )


def _place(position: int, number: int) -> tuple[float, float]:
    if number == 1:
        return _CENTER
    angle = 2 * math.pi * position / number - math.pi / 2
    return _CENTER[0] + _RADIUS_X * math.cos(angle), _CENTER[1] + _RADIUS_Y * math.sin(angle)


def _box(name: str, place: tuple[float, float], color: int) -> str:
    x, y = place
    return (
        f'<g><rect x="{x - _BOX_WIDTH / 2:.1f}" y="{y - _BOX_HEIGHT / 2:.1f}" width="{_BOX_WIDTH}" '
        f'height="{_BOX_HEIGHT}" rx="8" style="stroke:var(--series-{color})"/><title>{html.escape(name)}</title>'
        f'<text x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle">{html.escape(shorten(name, _MAX_NAME))}</text></g>'
    )


def _arrow(source: tuple[float, float], target: tuple[float, float], names: list[str], left: float) -> str:
    if source == target:
        return _loop(source, names, left)
    # Bent to its left, so that the arrow back, if there is one, takes the other side.
    dx, dy = target[0] - source[0], target[1] - source[1]
    middle = (source[0] + target[0]) / 2 + 0.16 * dy, (source[1] + target[1]) / 2 - 0.16 * dx
    start, end = _border(source, middle), _border(target, middle)
    label = middle[0] - 0.08 * dy - 0.12 * dx, middle[1] + 0.08 * dx - 0.12 * dy
    path = f"M{start[0]:.1f} {start[1]:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {end[0]:.1f} {end[1]:.1f}"
    return f'<path d="{path}" class="edge" marker-end="url(#schema-head)"/>{_label(label, names, "middle")}'


def _loop(place: tuple[float, float], names: list[str], left: float) -> str:
    # Away from the centre, where other arrows are.
    x, y = place
    side = 1 if x >= _CENTER[0] - 1 else -1
    edge = x + side * _BOX_WIDTH / 2
    path = f"M{edge:.1f} {y - 9:.1f}c{side * 44} -30 {side * 44} 48 0 18"
    anchor = "start" if side > 0 else "end"
    # Above or below the box if there is no room beside it.
    room = (_WIDTH - edge if side > 0 else edge) - left - 40
    widest = max(len(shorten(name, _MAX_NAME)) for name in names) * 7
    if room < widest:
        lines = min(len(names), _MAX_LINES + 1)
        above = y - _BOX_HEIGHT / 2 - 10 - lines * _LINE / 2
        below = y + _BOX_HEIGHT / 2 + 10 + lines * _LINE / 2
        return (
            f'<path d="{path}" class="edge" marker-end="url(#schema-head)"/>'
            f"{_label((edge + side * 34, below if y < _CENTER[1] else above), names, 'end' if side > 0 else 'start')}"
        )
    return (
        f'<path d="{path}" class="edge" marker-end="url(#schema-head)"/>{_label((edge + side * 40, y), names, anchor)}'
    )


def _border(box: tuple[float, float], toward: tuple[float, float]) -> tuple[float, float]:
    """Where the line from the middle of a box toward a point leaves the box."""
    dx, dy = toward[0] - box[0], toward[1] - box[1]
    scale = min(
        (_BOX_WIDTH / 2 + 2) / abs(dx) if dx else math.inf,
        (_BOX_HEIGHT / 2 + 2) / abs(dy) if dy else math.inf,
    )
    return box[0] + dx * scale, box[1] + dy * scale


def _label(place: tuple[float, float], names: list[str], anchor: str) -> str:
    lines = [shorten(name, _MAX_NAME) for name in names[:_MAX_LINES]]
    if len(names) > _MAX_LINES:
        lines.append(f"and {len(names) - _MAX_LINES} more")
    top = place[1] - _LINE * (len(lines) - 1) / 2 + 4
    spans = "".join(
        f'<tspan x="{place[0]:.1f}" y="{top + _LINE * i:.1f}">{html.escape(line)}</tspan>'
        for i, line in enumerate(lines)
    )
    return (
        f'<text class="edge-name" text-anchor="{anchor}">{spans}<title>{html.escape(", ".join(names))}</title></text>'
    )
