"""Options of GraphSchemaGen."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphSchemaGenOptions:
    """Options that select what GraphSchemaGen reads.

    Attributes:
        splits: splits to read; empty for all.
        schema_file: file name of the graph schema next to the splits, if there is one.
        edge_set_ends: node sets of the source and the target, by edge set, where no graph schema is given and the
            examples do not show what edges join.
    """

    splits: tuple[str, ...] = ()
    schema_file: str = GRAPH_SCHEMA_FILE
    edge_set_ends: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, ends in self.edge_set_ends.items():
            if not (isinstance(ends, tuple) and len(ends) == 2 and all(isinstance(end, str) and end for end in ends)):
                raise ValueError(
                    f"`edge_set_ends` must give the node sets of the source and the target; got {ends!r} for edge set "
                    f"{name!r}. Write a pair of names."
                )
