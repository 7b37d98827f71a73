"""Hides edges from a subgraph as the plan says: by time, by rank, and between the pairs it reads out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.plan.hop import SOURCE, TARGET, Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
    from tfx_gnn.sampling.engine.seeds import Seeds

_Integers = npt.NDArray[np.int64]


def ranked_edge_sets(plan: SamplingPlan, schema: GraphSchema) -> tuple[str, ...]:
    """Lists the edge sets of a plan whose edges may be of a later split, in alphabetical order.

    Of a link plan: the seed edge set and its reverse ones, unless `splits_edges` is False; of an inductive
    node plan: those that end in the seed node set.
    """
    if plan.is_link_plan:
        ranked = set(plan.split_edge_sets)
    elif plan.splits.visibility == "inductive":
        ranked = {
            name
            for name in plan.edge_set_names
            if plan.seed_node_set in (schema.edge_sets[name].source, schema.edge_sets[name].target)
        }
    else:
        ranked = set()
    return tuple(sorted(ranked & set(plan.edge_set_names)))


def timed_edge_sets(plan: SamplingPlan) -> tuple[str, ...]:
    """Lists the edge sets of a plan that are filtered by time, in alphabetical order."""
    return tuple(sorted(plan.temporal.edge_times)) if plan.temporal else ()


def hides_read_out_pairs(plan: SamplingPlan, edge_set: str) -> bool:
    """Tells whether edges between the pairs that a subgraph reads out are hidden from it.

    They are in the seed edge set and its reverse ones, unless the plan keeps the seed edge, or time hides it:
    a seed edge is not older than itself.
    """
    if not plan.is_link_plan or plan.keeps_seed_edge or edge_set not in {plan.seed_edge_set, *plan.reverse_edge_sets}:
        return False
    return plan.temporal is None or plan.temporal.inclusive or edge_set not in plan.temporal.edge_times


def hidden_pairs(plan: SamplingPlan, hop: Hop, seeds: Seeds) -> tuple[_Integers, _Integers, _Integers] | None:
    """Lists between which nodes a hop must not follow edges; None if nothing is hidden.

    Returns the subgraph, the node where the hop starts and the node where it must not end, as handles;
    pairs repeat where the seeds repeat them.
    """
    if not hides_read_out_pairs(plan, hop.edge_set):
        return None
    subgraphs = np.repeat(np.arange(seeds.num_subgraphs), np.diff(seeds.readout_splits))
    sources, targets = seeds.readout_nodes[SOURCE], seeds.readout_nodes[TARGET]
    is_forward = hop.direction == "forward"
    starts, ends = [], []
    if hop.edge_set == plan.seed_edge_set:
        starts.append(sources if is_forward else targets)
        ends.append(targets if is_forward else sources)
    if hop.edge_set in plan.reverse_edge_sets:
        starts.append(targets if is_forward else sources)
        ends.append(sources if is_forward else targets)
    return np.tile(subgraphs, len(starts)), np.concatenate(starts), np.concatenate(ends)
