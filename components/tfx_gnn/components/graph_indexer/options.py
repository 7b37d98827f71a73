"""Options of GraphIndexer."""

from __future__ import annotations

import dataclasses

from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_access import TableAccess


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphIndexerOptions:
    """Options of `build_graph_index`.

    Attributes:
        rules: what to do with rows of the tables that break a rule; by default each is an error.
        access: alternative file name of the tables' schema, and which files may be read.
    """

    rules: RowRules = dataclasses.field(default_factory=RowRules)
    access: TableAccess = dataclasses.field(default_factory=TableAccess)
