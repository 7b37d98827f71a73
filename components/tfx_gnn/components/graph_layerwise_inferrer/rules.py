"""When the answers layer by layer are those from subgraphs: the rules for the plan of a model, and for the graph."""

from __future__ import annotations

import dataclasses

import numpy as np

from tfx_gnn.components.graph_layerwise_inferrer.plan_rules import REMEDY, check_subgraphs_share_a_graph
from tfx_gnn.sampling.index.graph_index import IndexedGraph
from tfx_gnn.sampling.plan.hop import SEED, Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.serving.layerwise_model import LayerPlan, ReadRelation

DIRECTIONS = ("forward", "backward")
"""Direction of the hop to the senders, by the end of the edges that receives."""


def check_subgraphs_are_whole(plan: SamplingPlan, layers: LayerPlan, graph: IndexedGraph) -> None:
    """Checks that the subgraph of every seed holds all that the layers read to compute the seed's last state.

    Args:
        plan: the plan that samples around ids.
        layers: what the layers read.
        graph: the graph.

    Raises:
        ValueError: if the plan leaves out something that the layers of a whole graph read, or adds something.
    """
    check_subgraphs_share_a_graph(plan)
    _check_edges_come_once(plan, layers)
    _check_from(SEED, layers.seed_set, len(layers.layers), plan=plan, layers=layers, graph=graph)


def _check_edges_come_once(plan: SamplingPlan, layers: LayerPlan) -> None:
    """Refuses hops that add edges to a subgraph several times, even beside a hop that takes all of them."""
    read = {way.edge_set for of_layer in layers.relations for of_set in of_layer.values() for way in of_set}
    for hop in plan.hops:
        if hop.draws_with_replacement and hop.edge_set in read:
            raise ValueError(
                f"`hops` must take each edge once to infer layer by layer; got strategy {hop.strategy!r} in hop "
                f"{hop.name!r} of the plan of the model, which the network reads along {hop.edge_set!r}. {REMEDY} Or "
                "ask for the answers of whole neighborhoods, which differ from those: `--neighborhoods full`."
            )


def _check_from(
    start: str, node_set: str, num_layers: int, *, plan: SamplingPlan, layers: LayerPlan, graph: IndexedGraph
) -> None:
    """Checks the hops from nodes whose states after the first `num_layers` layers are read."""
    read = {relation for of_layer in layers.relations[:num_layers] for relation in of_layer.get(node_set, ())}
    for relation in sorted(read, key=dataclasses.astuple):
        hop = _whole_hop(start, relation, plan, graph)
        if num_layers > 1:
            _check_from(hop.name, relation.sender, num_layers - 1, plan=plan, layers=layers, graph=graph)


def _whole_hop(start: str, relation: ReadRelation, plan: SamplingPlan, graph: IndexedGraph) -> Hop:
    """Returns the hop that takes all edges of a relation from where `start` ends."""
    direction = DIRECTIONS[relation.receiver_tag]
    hops = [
        hop
        for hop in plan.hops
        if start in hop.inputs and hop.edge_set == relation.edge_set and hop.direction == direction
    ]
    if not hops:
        known = [(hop.name, hop.edge_set, hop.direction) for hop in plan.hops if start in hop.inputs]
        raise ValueError(
            f"`hops` must follow {relation.edge_set!r} {direction} from {start!r}, as the network does, to infer layer "
            f"by layer; got {known} from there in the plan of the model. {REMEDY} Or train with as many layers as the "
            "plan has hops, or with `receiver_tags` for one direction."
        )
    for hop in hops:
        if hop.takes_all or _takes_all_here(hop, graph):
            return hop
    hop = hops[0]
    raise ValueError(
        f"`hops` must take all edges to infer layer by layer; got strategy {hop.strategy!r} with `fan_out` "
        f"{hop.fan_out} in hop {hop.name!r} of the plan of the model, and a node with {_largest_degree(hop, graph)} "
        f"edges. {REMEDY} Or ask for the answers of whole neighborhoods, which differ from those: `--neighborhoods "
        "full`."
    )


def _takes_all_here(hop: Hop, graph: IndexedGraph) -> bool:
    """Whether a hop takes all edges of this graph, because no node has more than its fan-out."""
    return hop.strategy != "weighted" and _largest_degree(hop, graph) <= hop.fan_out


def _largest_degree(hop: Hop, graph: IndexedGraph) -> int:
    offsets = graph.edges_by_node(dataclasses.replace(hop, strategy="full", fan_out=0, weight_feature="")).offsets
    return int(np.diff(offsets).max(initial=0))
