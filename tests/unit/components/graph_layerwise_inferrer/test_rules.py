"""Which plans sample subgraphs that hold all that the layers of a network read."""

from __future__ import annotations

import dataclasses

import pytest

from tfx_gnn.components.graph_layerwise_inferrer.plan_rules import with_full_neighborhoods
from tfx_gnn.components.graph_layerwise_inferrer.rules import check_subgraphs_are_whole
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable, Temporal
from tfx_gnn.serving.layerwise_model import LayerPlan, ReadRelation

FROM_KNOWN = ReadRelation(edge_set="knows", receiver_tag=0, sender="user")
FROM_ITEMS = ReadRelation(edge_set="bought", receiver_tag=0, sender="item")
FROM_USERS = ReadRelation(edge_set="bought", receiver_tag=1, sender="user")
ALL_WAYS = {"user": (FROM_KNOWN, FROM_ITEMS), "item": (FROM_USERS,)}


def layers_of(*relations):
    return LayerPlan(
        seed_set="user",
        widths={"user": 4, "item": 4},
        layers=tuple(dict.fromkeys(of_layer, 4) for of_layer in relations),
        relations=relations,
        reads_all_states=False,
    )


def hop(edge_set, inputs, *, direction="forward", **options):
    return Hop(edge_set=edge_set, inputs=inputs, direction=direction, **{"strategy": "full", **options})


def plan_of(*hops, **options):
    return SamplingPlan(seed_node_set="user", hops=hops, **options)


def test_two_layers_need_the_hops_of_the_seed_and_of_its_neighbors(shop_index):
    layers = layers_of(ALL_WAYS, {"user": (FROM_KNOWN, FROM_ITEMS)})
    first = (hop("knows", ("seed",), name="known"), hop("bought", ("seed",), name="items"))
    second = (
        hop("knows", ("known",)),
        hop("bought", ("known",)),
        hop("bought", ("items",), direction="backward"),
    )

    check_subgraphs_are_whole(plan_of(*first, *second), layers, shop_index)
    for missing in range(len(second)):
        hops = [*first, *second[:missing], *second[missing + 1 :]]
        with pytest.raises(ValueError, match=r"`hops` must follow '\w+' \w+ from '(known|items)'"):
            check_subgraphs_are_whole(plan_of(*hops), layers, shop_index)


def test_the_last_layer_reads_one_hop_alone(shop_index):
    layers = layers_of({"user": (FROM_KNOWN,)})

    check_subgraphs_are_whole(plan_of(hop("knows", ("seed",))), layers, shop_index)
    with pytest.raises(ValueError, match="must follow 'knows' forward from 'seed', as the network does"):
        check_subgraphs_are_whole(plan_of(hop("knows", ("seed",), direction="backward")), layers, shop_index)


@pytest.mark.parametrize("strategy", ["uniform", "in_degree", "full"])
def test_a_fan_out_that_no_node_of_the_graph_exceeds_is_whole(shop_graph, shop_index, strategy):
    table = shop_index.edge_tables["knows"]
    largest = max(list(table.sources).count(row) for row in range(shop_graph.NUM_USERS))
    layers = layers_of({"user": (FROM_KNOWN,)})

    def plan(fan_out):
        return plan_of(hop("knows", ("seed",), strategy=strategy, fan_out=fan_out))

    check_subgraphs_are_whole(plan(largest), layers, shop_index)
    with pytest.raises(
        ValueError, match=f"must take all edges .*`fan_out` {largest - 1} .* a node with {largest} edges"
    ):
        check_subgraphs_are_whole(plan(largest - 1), layers, shop_index)
    check_subgraphs_are_whole(with_full_neighborhoods(plan(1)), layers, shop_index)


def test_edges_drawn_several_times_are_not_whole(shop_index):
    drawn = hop("knows", ("seed",), strategy="uniform_with_replacement", fan_out=1000, name="drawn")
    layers = layers_of({"user": (FROM_KNOWN,)})

    for hops in ([drawn], [hop("knows", ("seed",)), drawn]):
        with pytest.raises(ValueError, match=r"take each edge once .*_with_replacement' in hop 'drawn'"):
            check_subgraphs_are_whole(plan_of(*hops), layers, shop_index)
    # The network does not read these.
    unread = dataclasses.replace(drawn, edge_set="bought")
    check_subgraphs_are_whole(plan_of(hop("knows", ("seed",)), unread), layers, shop_index)


def test_what_depends_on_the_seed_is_refused(shop_index):
    plan = plan_of(hop("knows", ("seed",)))
    timed = dataclasses.replace(plan, temporal=Temporal(seed_time="age", edge_times={"bought": "count"}))
    table = SeedTable(filename="s.csv", features={"day": "int64"}, input_features=("day",))
    asked = dataclasses.replace(plan, seed_table=table)
    links = SamplingPlan(seed_edge_set="knows", hops=(hop("knows", ("source", "target")),))

    trees = with_full_neighborhoods(
        plan_of(hop("knows", ("seed",), strategy="uniform", fan_out=1), is_ego=True, expands_seed_again=True)
    )

    for one, field in (
        (timed, "temporal"),
        (asked, "seed_table.input_features"),
        (links, "seed_edge_set"),
        (trees, "is_ego"),
    ):
        with pytest.raises(ValueError, match=f"`{field}` must be left out of a plan to infer layer by layer"):
            check_subgraphs_are_whole(one, layers_of({"user": (FROM_KNOWN,)}), shop_index)
