"""What both ways of making examples tell about their seeds and tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfx_gnn.tables.row_rules import TableReport


@dataclasses.dataclass(frozen=True, kw_only=True)
class MadeExamples:
    """What a folder of examples was made from.

    Attributes:
        num_seeds: by split, seeds; or graphs that were taken whole.
        num_no_seeds: rows that could be seeds and are none: those that
            `SplitPlan.unused_values` excludes, and edges of the first split that are for
            message passing only.
        tables: what became of the rows, by label of the table.
    """

    num_seeds: Mapping[str, int]
    num_no_seeds: int
    tables: Mapping[str, TableReport]
