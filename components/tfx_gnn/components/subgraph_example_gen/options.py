"""Options of SubgraphExampleGen."""

from __future__ import annotations

import dataclasses
from typing import Literal

from tfx_gnn.io.option_groups import check_choices
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_access import TableAccess

_MAX_SHARDS = 100_000  # the names of shards have five digits


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubgraphExampleGenOptions:
    """Options of `generate_subgraph_examples`.

    Attributes:
        plan: what to sample around each seed; None if `graph_level_examples` is given.
        graph_level_examples: how to split tables of many small graphs into examples, or to make
            pairs of them, without sampling; None if `plan` is given.
        sampling_seed: seed of all random choices, in [0, 2**63).
        num_shards: files per split. The hash of a seed's id determines its file, so
            files have about the same size, and some are empty if there are few seeds.
        rules: what to do with rows of the tables that break a rule; by default each is an error.
        access: alternative file name of the tables' schema, and which files may be read.
        execution: "in_memory": one process holds the tables; "beam": a Beam pipeline
            whose workers hold partitions of the graph. Both write the same records.
        num_partitions: partitions of the graph on Beam, a power of two; 0 for one partition per
            64 MiB of input files.
        hub_degree: on Beam, nodes with more edges than this are spread over partitions.
        num_spans: spans of tables in a rolling window, at least 1: the first split, which is trained on, has examples
            of that many spans up to the newest, each made of the tables of its own span. The other splits are of
            the newest alone.
    """

    plan: SamplingPlan | None = None
    graph_level_examples: GraphLevelExamples | None = None
    sampling_seed: int = 0
    num_shards: int = 2
    rules: RowRules = dataclasses.field(default_factory=RowRules)
    access: TableAccess = dataclasses.field(default_factory=TableAccess)
    execution: Literal["in_memory", "beam"] = "in_memory"
    num_partitions: int = 0
    hub_degree: int = 4096
    num_spans: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.plan, SamplingPlan | None):
            raise TypeError(f"`plan` must be a SamplingPlan; got {type(self.plan).__name__}. Make one from hops.")
        if not isinstance(self.graph_level_examples, GraphLevelExamples | None):
            raise TypeError(
                "`graph_level_examples` must be a GraphLevelExamples; got "
                f"{type(self.graph_level_examples).__name__}. Make one."
            )
        if (self.plan is None) == (self.graph_level_examples is None):
            raise ValueError(
                "`plan` or `graph_level_examples` must be given, and only one of them; got "
                f"{'neither' if self.plan is None else 'both'}. Sample subgraphs, or take graphs as they are."
            )
        if not 0 <= self.sampling_seed < 2**63:
            raise ValueError(f"`sampling_seed` must be in [0, 2**63); got {self.sampling_seed}. Choose another number.")
        if not 1 <= self.num_shards <= _MAX_SHARDS:
            raise ValueError(
                f"`num_shards` must be in [1, {_MAX_SHARDS}]; got {self.num_shards}. Use 1 for a single file per split."
            )
        check_choices(self)
        if self.num_partitions < 0 or self.num_partitions & (self.num_partitions - 1):
            raise ValueError(
                f"`num_partitions` must be a power of two, or 0; got {self.num_partitions}. "
                "Use 0 to have it chosen by size."
            )
        if self.hub_degree < 1:
            raise ValueError(f"`hub_degree` must be at least 1; got {self.hub_degree}. Leave it out.")
        if self.num_spans < 1:
            raise ValueError(
                f"`num_spans` must be at least 1; got {self.num_spans}. Use 1 to train on the newest span alone."
            )

    @property
    def first_split(self) -> str:
        """The split that is trained on, and that has examples of every span of a window."""
        holder = self.plan or self.graph_level_examples
        assert holder is not None
        return holder.splits.names[0]
