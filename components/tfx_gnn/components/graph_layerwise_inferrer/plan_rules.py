"""Which plans can be asked about layer by layer at all, whatever the network and the graph are."""

from __future__ import annotations

import dataclasses

from tfx_gnn.sampling.plan.plan import SamplingPlan

REMEDY = "Infer from subgraphs: `tfx-gnn sample --every-node`, then `tfx-gnn infer`."
"""What to do where a rule is broken."""


def with_full_neighborhoods(plan: SamplingPlan) -> SamplingPlan:
    """Changes a plan so that all its hops take all edges; leaves a plan of trees, which need a fan-out, as it is."""
    if plan.is_ego:
        return plan
    hops = (dataclasses.replace(hop, strategy="full", fan_out=0, weight_feature="") for hop in plan.hops)
    return dataclasses.replace(plan, hops=tuple(hops))


def check_subgraphs_share_a_graph(plan: SamplingPlan) -> None:
    """Refuses a plan in which edges are visible to one seed and hidden from another.

    Args:
        plan: the plan.

    Raises:
        ValueError: if the plan is one of links or of trees, follows edges by time, or has inputs of each seed.
    """
    for field, value, reason in (
        ("seed_edge_set", plan.seed_edge_set, "pairs of nodes have labels and hide edges of their own"),
        ("temporal", plan.temporal, "the edges that are visible depend on the seed"),
        ("seed_table.input_features", plan.seed_inputs, "they are known of each seed alone"),
        ("is_ego", plan.is_ego, "trees of neighbors are no graph"),
    ):
        if value:
            raise ValueError(
                f"`{field}` must be left out of a plan to infer layer by layer, because {reason}; got "
                f"{value!r} in the plan of the model. {REMEDY}"
            )
