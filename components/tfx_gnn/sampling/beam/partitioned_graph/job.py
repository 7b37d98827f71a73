"""How to partition a graph: tables, plan, rules, and what its partitions must hold for the plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfx_gnn.sampling.beam.partitioned_graph import files
from tfx_gnn.sampling.plan.plan import SamplingPlan, reached_node_sets, root_node_sets
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_files import TableUnit
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableLayout

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema

FORWARD = "forward"
BACKWARD = "backward"

SOURCE_END = "source"
TARGET_END = "target"
ENDS = (SOURCE_END, TARGET_END)
"""Ends of an edge, in the order of `LinkBlock.ends`."""
END_OF_DIRECTION = {FORWARD: SOURCE_END, BACKWARD: TARGET_END}
"""The end by which edges are looked up."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionJob:
    """One graph to partition. It is sent to every worker.

    Attributes:
        plan: what to sample.
        requirements: what the partitioned graph must hold for the plan.
        rules: what to do with rows that break a rule.
        layouts: the tables of nodes, edges and seeds, by label.
        units: units of the tables, by label.
        partitions_dir: folder to write into.
        num_partitions: number of partitions, a power of two.
        hub_degree: nodes with more edges than this in a direction are hubs in that
            direction.
    """

    plan: SamplingPlan
    requirements: PartitionRequirements
    rules: RowRules
    layouts: Mapping[str, TableLayout]
    units: Mapping[str, tuple[TableUnit, ...]]
    partitions_dir: str
    num_partitions: int
    hub_degree: int

    def is_read_once(self, label: str) -> bool:
        """Returns whether the table's rows cannot be read again: this holds for BigQuery."""
        return self.layouts[label].bigquery is not None

    def end_keys(self, label: str) -> tuple[str, ...]:
        """Names the columns with the node ids of a row: source and target, or the one node."""
        columns = self.layouts[label].columns
        return (SOURCE_KEY, TARGET_KEY) if SOURCE_KEY in columns else (ID_FEATURE,)

    def end_sets(self, label: str) -> tuple[str, ...]:
        """Names the node set of each of `end_keys`."""
        if self.layouts[label].kind == "seeds":
            return self.requirements.root_sets
        requirements = self.requirements.edge_sets[self.layouts[label].name]
        return requirements.source_set, requirements.target_set

    def time_key(self, label: str) -> str:
        """Names the time column that distinguishes edges or seeds with equal ends; "" if such rows are repetitions."""
        if self.plan.temporal is None:
            return ""
        if self.layouts[label].kind == "seeds":
            return self.plan.temporal.seed_time
        return self.plan.temporal.edge_times.get(self.layouts[label].name, "")

    def identity_keys(self, label: str) -> tuple[str, ...]:
        """Names further columns that distinguish rows with equal ends."""
        if self.layouts[label].kind == "seeds" and self.plan.seed_table is not None:
            return self.plan.seed_table.identity_features
        return ()

    def counted_ends(self, edge_set: str) -> tuple[str, ...]:
        """Lists the `ENDS` at which edges are counted per node."""
        requirements = self.requirements.edge_sets[edge_set]
        ends = {END_OF_DIRECTION[direction] for direction in requirements.directions}
        ends |= {self.degree_end(direction) for direction in requirements.degree_directions}
        ends |= {requirements.stored_degrees} - {""}
        return tuple(sorted(ends))

    def degree_end(self, direction: str) -> str:
        """Returns the end at which an in-degree hop counts edges: the end that its edges lead to."""
        return TARGET_END if direction == FORWARD else SOURCE_END


@dataclasses.dataclass(frozen=True, kw_only=True)
class EdgeRequirements:
    """What a partitioned graph must hold of one edge set.

    Attributes:
        source_set: node set of the sources.
        target_set: node set of the targets.
        directions: directions in which edges are looked up, in alphabetical order.
        features: features to store: features of the examples, times and weights.
        degree_directions: directions in which a hop chooses by in-degree.
        stored_degrees: the one of `ENDS` whose nodes negatives are drawn from by the number of their edges; "" if none
            are.
        has_ranks: whether some splits must not see all of its edges.
    """

    source_set: str
    target_set: str
    directions: tuple[str, ...]
    features: tuple[str, ...]
    degree_directions: tuple[str, ...]
    stored_degrees: str
    has_ranks: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionRequirements:
    """What a partitioned graph must hold for a sampling plan.

    Attributes:
        node_sets: by node set, the features to store, including labels.
        edge_sets: by edge set, what to store of it.
        root_sets: node sets of the seed, or of source and target.
        seed_features: features of the seed edge set or of the seed table to store in the
            seed files. The labels of seed nodes are in the node files.
    """

    node_sets: Mapping[str, tuple[str, ...]]
    edge_sets: Mapping[str, EdgeRequirements]
    root_sets: tuple[str, ...]
    seed_features: tuple[str, ...]


def requirements_of_plan(plan: SamplingPlan, schema: GraphSchema) -> PartitionRequirements:
    """Lists the node sets and edge sets that sampling by a plan reads, and what to store of each."""
    roots = tuple(root_node_sets(plan, schema).values())
    node_sets = set(reached_node_sets(plan, schema))
    edge_sets = {name: _edge_needs(plan, schema, name) for name in plan.table_edge_sets}
    for requirements in edge_sets.values():
        node_sets |= {requirements.source_set, requirements.target_set}
    of_nodes = {name: _features(plan, schema.node_sets[name].features, name) for name in sorted(node_sets)}
    if plan.negatives:
        drawn_set = root_node_sets(plan, schema)[plan.negatives.side]
        single = {plan.negatives.weight_feature, plan.negatives.time_feature} - {""}
        of_nodes[drawn_set] |= {*plan.negatives.condition_features, *single}
    return PartitionRequirements(
        node_sets={name: tuple(sorted(features)) for name, features in of_nodes.items()},
        edge_sets=edge_sets,
        root_sets=roots,
        seed_features=_seed_features(plan, schema),
    )


def _edge_needs(plan: SamplingPlan, schema: GraphSchema, name: str) -> EdgeRequirements:
    hops = [hop for hop in plan.hops if hop.edge_set == name]
    directions: set[str] = {hop.direction for hop in hops}
    if name in plan.induced_edge_sets:
        directions.add(FORWARD)
    is_seed_set = name == plan.seed_edge_set
    if is_seed_set and plan.negatives and plan.negatives.excludes_neighbors:
        directions.add(FORWARD)
    features = _features(plan, schema.edge_sets[name].features, name)
    features |= {hop.weight_feature for hop in hops if hop.weight_feature}
    if plan.temporal and name in plan.temporal.edge_times:
        features.add(plan.temporal.edge_times[name])
    edge_set = schema.edge_sets[name]
    return EdgeRequirements(
        source_set=edge_set.source,
        target_set=edge_set.target,
        directions=tuple(sorted(directions)),
        features=tuple(sorted(features)),
        degree_directions=tuple(sorted({hop.direction for hop in hops if hop.weighs_by_degree})),
        stored_degrees=plan.negatives.side
        if is_seed_set and plan.negatives and plan.negatives.distribution == "in_degree"
        else "",
        has_ranks=_has_ranks(plan, schema, name),
    )


def _has_ranks(plan: SamplingPlan, schema: GraphSchema, edge_set: str) -> bool:
    if plan.is_link_plan:
        return edge_set in plan.split_edge_sets
    ends = {schema.edge_sets[edge_set].source, schema.edge_sets[edge_set].target}
    return plan.splits.visibility == "inductive" and plan.seed_node_set in ends


def _features(plan: SamplingPlan, declared: Mapping[str, object], set_name: str) -> set[str]:
    taken = sorted(files.RESERVED.intersection(declared) - {files.ID, files.SOURCE, files.TARGET})
    if taken:
        raise ValueError(
            f"`features` must not have the name of a column of the partitions; got {taken} in set {set_name!r}. "
            "Rename them: `source` can name the column."
        )
    return set(declared) - files.RESERVED - set(plan.excluded_features.get(set_name, ()))


def _seed_features(plan: SamplingPlan, schema: GraphSchema) -> tuple[str, ...]:
    if plan.seed_table:
        return tuple(sorted({*plan.label_features, *plan.seed_inputs} & set(plan.seed_table_features)))
    if not plan.is_link_plan:
        return ()
    declared = schema.edge_sets[plan.seed_edge_set].features
    kept = _features(plan, declared, plan.seed_edge_set) if plan.keeps_seed_edge else set()
    return tuple(sorted(kept | (set(plan.label_features) & set(declared))))
