"""What an index must contain for a sampling plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfx_gnn.sampling.beam.index import files
from tfx_gnn.sampling.plan.plan import SamplingPlan, reached_node_sets, root_node_sets

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema

FORWARD = "forward"
BACKWARD = "backward"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EdgeRequirements:
    """What is needed of one edge set.

    Attributes:
        source_set: node set of the sources.
        target_set: node set of the targets.
        directions: in which directions edges are looked up, in alphabetical order.
        features: features that its files hold: those of the examples, times and weights.
        degree_directions: directions in which a hop chooses by in-degree.
        stores_in_degrees: whether negatives are drawn by the in-degrees of its targets.
        has_ranks: whether its edges are visible from some splits only.
    """

    source_set: str
    target_set: str
    directions: tuple[str, ...]
    features: tuple[str, ...]
    degree_directions: tuple[str, ...]
    stores_in_degrees: bool
    has_ranks: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndexRequirements:
    """What an index must hold for a sampling plan.

    Attributes:
        node_sets: by node set, the features that its files hold, labels among them.
        edge_sets: by edge set, what is needed of it.
        root_sets: node sets of the seed, or of source and target.
        seed_features: features of the seed edge set or of the seed table that the seed
            files hold. The labels of seed nodes are in their node files.
    """

    node_sets: Mapping[str, tuple[str, ...]]
    edge_sets: Mapping[str, EdgeRequirements]
    root_sets: tuple[str, ...]
    seed_features: tuple[str, ...]


def requirements_of_plan(plan: SamplingPlan, schema: GraphSchema) -> IndexRequirements:
    """Lists the node sets and edge sets that sampling by a plan looks up, and what is needed of each."""
    roots = tuple(root_node_sets(plan, schema).values())
    node_sets = set(reached_node_sets(plan, schema))
    edge_sets = {name: _edge_needs(plan, schema, name) for name in plan.table_edge_sets}
    for requirements in edge_sets.values():
        node_sets |= {requirements.source_set, requirements.target_set}
    of_nodes = {name: _features(plan, schema.node_sets[name].features, name) for name in sorted(node_sets)}
    if plan.negatives and plan.negatives.same_feature:
        of_nodes[roots[-1]] |= {plan.negatives.same_feature}
    return IndexRequirements(
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
        degree_directions=tuple(sorted({hop.direction for hop in hops if hop.strategy == "in_degree"})),
        stores_in_degrees=bool(is_seed_set and plan.negatives and plan.negatives.distribution == "in_degree"),
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
            f"`features` must have names that no column of an index has; got {taken} in set {set_name!r}. "
            "Rename them: `source` can name the column."
        )
    return set(declared) - files.RESERVED - set(plan.excluded_features.get(set_name, ()))


def _seed_features(plan: SamplingPlan, schema: GraphSchema) -> tuple[str, ...]:
    if plan.seed_table:
        return tuple(sorted(set(plan.label_features) & set(plan.seed_table_features)))
    if not plan.is_link_plan:
        return ()
    declared = schema.edge_sets[plan.seed_edge_set].features
    kept = _features(plan, declared, plan.seed_edge_set) if plan.keeps_seed_edge else set()
    return tuple(sorted(kept | (set(plan.label_features) & set(declared))))
