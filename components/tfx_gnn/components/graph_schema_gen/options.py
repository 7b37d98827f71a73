"""Options of GraphSchemaGen."""

from __future__ import annotations

import dataclasses

from tfx_gnn.graph.reserved_names import GRAPH_SCHEMA_FILE


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphSchemaGenOptions:
    """What to read.

    Attributes:
        splits: splits to read; empty for all.
        schema_file: name of the graph schema beside the splits, if there is one.
    """

    splits: tuple[str, ...] = ()
    schema_file: str = GRAPH_SCHEMA_FILE
