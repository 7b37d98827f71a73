"""The weights of an explanation as rows of texts, for tables on a terminal and on a page."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfx_gnn.serving.explanation import EdgeWeight, Explanation, NodeWeight


def weight_text(weight: float | None) -> str:
    """Formats a weight with its sign."""
    return "" if weight is None else f"{weight:+.4f}"


def _edge_text(one: EdgeWeight) -> str:
    """Names an edge by the ids of its ends, or their positions."""
    source, target = (
        index if own_id is None else own_id
        for index, own_id in ((one.source, one.source_id), (one.target, one.target_id))
    )
    return f"{one.edge_set}: {source} -> {target}"


def _node_text(one: NodeWeight) -> str:
    """Names a node by its id, or its position."""
    return f"{one.node_set} {one.index if one.id is None else one.id}"


def weight_rows(explained: Explanation, most: int) -> list[tuple[tuple[str, float | None], ...]]:
    """Arranges the largest weights of edges, nodes and features side by side; weights of 0 are left out."""
    edges = [(_edge_text(edge), edge.weight) for edge in explained.edges[:most] if edge.weight]
    nodes = [(_node_text(node), node.weight) for node in explained.nodes[:most] if node.weight]
    features = [(key.removeprefix("nodes/"), weight) for key, weight in explained.features.items() if weight]
    nothing: Any = ("", None)
    return list(itertools.zip_longest(edges, nodes, features[:most], fillvalue=nothing))
