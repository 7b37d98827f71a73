"""The configuration of an index build: tables, plan and rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfx_gnn.sampling.beam.index.requirements import BACKWARD, FORWARD, IndexRequirements
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_files import TableUnit
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableLayout

SOURCE_END = "source"
TARGET_END = "target"
ENDS = (SOURCE_END, TARGET_END)
"""Ends of an edge, in the order of `LinkBlock.ends`."""

END_OF_DIRECTION = {FORWARD: SOURCE_END, BACKWARD: TARGET_END}
"""At which end edges are looked up."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndexJob:
    """One index to build. It travels to every worker.

    Attributes:
        plan: what is sampled.
        requirements: what the plan requirements.
        rules: what happens to rows that break a rule.
        layouts: the tables of nodes, edges and seeds, by label.
        units: parts of the tables, by label.
        index_dir: folder to write into.
        num_partitions: number of partitions, a power of two.
        hub_degree: nodes with more edges than this in a direction are hubs there.
    """

    plan: SamplingPlan
    requirements: IndexRequirements
    rules: RowRules
    layouts: Mapping[str, TableLayout]
    units: Mapping[str, tuple[TableUnit, ...]]
    index_dir: str
    num_partitions: int
    hub_degree: int

    def is_read_once(self, label: str) -> bool:
        """Tells whether rows cannot be looked up again where they were read: those of BigQuery."""
        return self.layouts[label].bigquery is not None

    def end_keys(self, label: str) -> tuple[str, ...]:
        """Names the columns with the nodes that a row names: source and target, or the one node."""
        columns = self.layouts[label].columns
        return (SOURCE_KEY, TARGET_KEY) if SOURCE_KEY in columns else (ID_FEATURE,)

    def end_sets(self, label: str) -> tuple[str, ...]:
        """Names the node set of each of `end_keys`."""
        if self.layouts[label].kind == "seeds":
            return self.requirements.root_sets
        requirements = self.requirements.edge_sets[self.layouts[label].name]
        return requirements.source_set, requirements.target_set

    def time_key(self, label: str) -> str:
        """Names the column that tells edges or seeds with equal ends apart; "" if such rows are repetitions."""
        if self.plan.temporal is None:
            return ""
        if self.layouts[label].kind == "seeds":
            return self.plan.temporal.seed_time
        return self.plan.temporal.edge_times.get(self.layouts[label].name, "")

    def identity_keys(self, label: str) -> tuple[str, ...]:
        """Names further columns that tell rows with equal ends apart."""
        if self.layouts[label].kind == "seeds" and self.plan.seed_table is not None:
            return self.plan.seed_table.identity_features
        return ()

    def counted_ends(self, edge_set: str) -> tuple[str, ...]:
        """Lists the `ENDS` at which the edges of each node are counted."""
        requirements = self.requirements.edge_sets[edge_set]
        ends = {END_OF_DIRECTION[direction] for direction in requirements.directions}
        ends |= {self.degree_end(direction) for direction in requirements.degree_directions}
        ends |= {TARGET_END} if requirements.stores_in_degrees else set()
        return tuple(sorted(ends))

    def degree_end(self, direction: str) -> str:
        """Returns at which end an in-degree hop counts edges: where its edges lead."""
        return TARGET_END if direction == FORWARD else SOURCE_END
