"""Options of GraphIndexer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from tfx_gnn.io.option_groups import check_choices
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_access import TableAccess


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphIndexerOptions:
    """Options of `build_graph_index`.

    Attributes:
        rules: what to do with rows of the tables that break a rule; by default each is an error.
        extra_columns: columns to put into the index as text, declared or not, by the name of the set or the label of
            its table; plans that split seeds by a column need it.
        edge_times: by edge set, an integer feature; two edges with the same ends are duplicates only if this feature
            is equal too. Name those of the plan's `temporal.edge_times` if `rules` drop or refuse duplicates.
        access: alternative file name of the tables' schema, and which files may be read.
        execution: "in_memory": one process, whose memory grows with the number of nodes; "beam": a Beam pipeline, whose
            workers hold parts of the tables. Both write the same bytes.
    """

    rules: RowRules = dataclasses.field(default_factory=RowRules)
    extra_columns: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    edge_times: Mapping[str, str] = dataclasses.field(default_factory=dict)
    access: TableAccess = dataclasses.field(default_factory=TableAccess)
    execution: Literal["in_memory", "beam"] = "in_memory"

    def __post_init__(self) -> None:
        check_choices(self)
