"""Nodes and edges in requests: to add to the graph, or to ask about without keeping them.

    {"nodes": {"user": {"#id": ["eve"], "age": [30]}},
     "edges": {"bought": {"#source": ["eve", "eve"], "#target": ["i3", "i8"], "count": [1, 2]}}}

The columns are those of the tables: a list each, with one value per node or edge. The ends of edges are ids.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tfx_gnn.sampling.overlay.added_rows import NodeExistsError, UnknownNodeError
from tfx_gnn.serving.server.refusals import Refusal, malformed, shown
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY

ROW_PARTS = ("nodes", "edges")
_IDS = (ID_FEATURE, SOURCE_KEY, TARGET_KEY)
_BYTES_OF_CHARACTER = 4

_Columns = Mapping[str, Mapping[str, list[Any]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphRows:
    """New nodes and edges: lists by set and column.

    Attributes:
        nodes: columns by node set.
        edges: columns by edge set.
        num_nodes: rows by node set.
        num_edges: rows by edge set.
    """

    nodes: _Columns
    edges: _Columns

    @property
    def num_nodes(self) -> dict[str, int]:
        """Number of nodes by set."""
        return _counts(self.nodes)

    @property
    def num_edges(self) -> dict[str, int]:
        """Number of edges by set."""
        return _counts(self.edges)

    @property
    def num_rows(self) -> int:
        """Number of nodes and edges."""
        return sum(self.num_nodes.values()) + sum(self.num_edges.values())


def read_graph_rows(content: Mapping[str, Any], place: str, max_rows: int, max_id_bytes: int) -> GraphRows:
    """Reads the fields "nodes" and "edges" of an object; whether they fit the graph is left to the graph.

    Args:
        content: what JSON was read to; other fields are left alone.
        place: start of the place of the fields in the request, for messages; "" for the body itself.
        max_rows: largest number of nodes and edges.
        max_id_bytes: largest id of a node, or of an end of an edge.

    Raises:
        Refusal: if they do not have this layout, or are too many, or an id is too long.
    """
    nodes, edges = (_columns(content.get(part, {}), f"{place}{part}") for part in ROW_PARTS)
    rows = GraphRows(nodes=nodes, edges=edges)
    if not 1 <= rows.num_rows <= max_rows:
        where = " and ".join(f"`{place}{part}`" for part in ROW_PARTS)
        remedy = "Split them into several requests." if rows.num_rows else "Give each new node or edge a row."
        raise malformed(f"{where} must hold 1 to {max_rows} rows; got {rows.num_rows}. {remedy}")
    for part, sets in zip(ROW_PARTS, (nodes, edges), strict=True):
        for name, columns in sets.items():
            for key in _IDS:
                _check_ids(columns.get(key, ()), f"{place}{part}.{name}.{key}", max_id_bytes)
    return rows


def _check_ids(ids: Sequence[Any], place: str, max_bytes: int) -> None:
    """Refuses lists with a text that is longer, in UTF-8, than an id may be."""
    for number, value in enumerate(ids):
        # Most need no encoding to be told short.
        if isinstance(value, str) and len(value) * _BYTES_OF_CHARACTER > max_bytes:
            check_id_length(value.encode(errors="surrogatepass"), f"{place}[{number}]", max_bytes)


def check_id_length(text: bytes, place: str, max_bytes: int) -> None:
    """Refuses an id that is too long."""
    if len(text) > max_bytes:
        raise malformed(
            f"`{place}` must be an id of at most {max_bytes} bytes; got one of {len(text)}: {shown(text)}. Correct it, "
            "or start the server with a larger `--max-id-bytes`."
        )


def refusal_of_rows(error: ValueError, place: str) -> Refusal:
    """Makes the refusal of rows that do not fit the graph."""
    message = f"{place}{error}"
    if isinstance(error, NodeExistsError):
        return Refusal(409, "node_exists", message)
    if isinstance(error, UnknownNodeError):
        return Refusal(404, "unknown_id", message)
    return malformed(message)


def _columns(sets: Any, place: str) -> _Columns:
    if not isinstance(sets, Mapping):
        raise malformed(f"`{place}` must be an object of sets; got {shown(sets)}. Write it by set and column.")
    for name, columns in sets.items():
        if not isinstance(columns, Mapping):
            raise malformed(
                f"`{place}.{name}` must be an object of columns; got {shown(columns)}. Write a list for each column."
            )
        for key, values in columns.items():
            if not isinstance(values, list):
                raise malformed(
                    f"`{place}.{name}.{key}` must be a list; got {shown(values)}. Give one value for each row."
                )
    return sets


def _counts(sets: _Columns) -> dict[str, int]:
    return {name: max(map(len, columns.values()), default=0) for name, columns in sets.items()}
