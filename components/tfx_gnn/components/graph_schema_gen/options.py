"""Options of GraphSchemaGen."""

from __future__ import annotations

import dataclasses

from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphSchemaGenOptions:
    """Options that select what GraphSchemaGen reads.

    Attributes:
        splits: splits to read; empty for all.
        schema_file: file name of the graph schema next to the splits, if there is one.
    """

    splits: tuple[str, ...] = ()
    schema_file: str = GRAPH_SCHEMA_FILE
