"""Plans of queries: what each step becomes, that the sampler runs them, and which steps have none."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest

from tfx_gnn.graphlearn import Mask, NodeFrom
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, Temporal


def test_hops_of_nodes_are_named_after_their_aliases(shop):
    users = shop.V("user").batch(8).shuffle(traverse=True).alias("seed")
    edges = users.outE("buy").sample(3).by("edge_weight").alias("bought")
    edges.inV().alias("items").inV("buy").sample(2).by("random_without_replacement")
    edges.outV().outV("knows").sample(4).by("full").alias("all")

    plan = users.values().to_plan()

    assert plan == SamplingPlan(
        seed_node_set="user",
        label_features=("label",),
        expands_seed_again=True,
        hops=(
            Hop(
                edge_set="buy", fan_out=3, name="bought", strategy="weighted_with_replacement", weight_feature="weight"
            ),
            Hop(edge_set="buy", fan_out=2, name="hop_1", direction="backward", inputs=("bought",)),
            Hop(edge_set="knows", fan_out=4, name="all", strategy="full"),
        ),
    )


@pytest.mark.parametrize("is_reversed", [False, True])
def test_queries_of_edges_are_link_plans_with_times_and_negatives(shop, is_reversed):
    edges = shop.E("buy", reverse=is_reversed).batch(4)
    first, second = edges.outV(), edges.inV()
    users, items = (second, first) if is_reversed else (first, second)
    items.alias("i").inV("buy").sample(2).by("topk").filter(users.alias("u")).alias("fans")
    users.outV("buy").sample(3).by("in_degree").filter("i").alias("bought")
    negatives = users.outNeg("buy").sample(5).by("in_degree").alias("n")
    negatives.inV("buy").sample(2).by("topk").alias("fans of negatives")
    negatives.where("i", {"str_cols": [0], "str_props": [1.0]})

    plan = edges.values().to_plan()

    assert plan == SamplingPlan(
        seed_edge_set="buy",
        temporal=Temporal(seed_time="timestamp", edge_times={"buy": "timestamp"}),
        negatives=Negatives(num_per_positive=5, distribution="in_degree", conditions={"color": 1.0}, unique=False),
        hops=(
            Hop(
                edge_set="buy",
                fan_out=2,
                name="fans",
                inputs=("target",),
                direction="backward",
                strategy="top_k",
                weight_feature="weight",
            ),
            Hop(edge_set="buy", fan_out=3, name="bought", inputs=("source",), strategy="in_degree_with_replacement"),
        ),
    )


def test_edges_that_are_there_in_both_directions_hide_each_other(make_store):
    both = make_store({"n": {"id": [1, 2]}}, {"e": ("n", "n", [(1, 2), (2, 1)], {})})
    reverse = make_store(
        {"a": {"id": [1]}, "b": {"id": [2]}}, {"e": ("a", "b", [(1, 2)], {}), "e_reverse": ("b", "a", [(2, 1)], {})}
    )

    assert both.E("e").batch(1).alias("e").values().to_plan().reverse_edge_sets == ("e",)
    assert reverse.E("e").batch(1).alias("e").values().to_plan().reverse_edge_sets == ("e_reverse",)
    assert reverse.E("e_reverse").batch(1).alias("e").values().to_plan().reverse_edge_sets == ("e",)


def test_a_walk_is_a_chain_of_hops_to_one_neighbor(shop):
    users = shop.V("user").batch(2).alias("u")
    users.random_walk("knows", 3).alias("walk")

    hops = users.values().to_plan().hops

    assert [(hop.name, hop.inputs, hop.fan_out, hop.strategy) for hop in hops] == [
        ("walk_0", ("seed",), 1, "uniform_with_replacement"),
        ("walk_1", ("walk_0",), 1, "uniform_with_replacement"),
        ("walk_2", ("walk_1",), 1, "uniform_with_replacement"),
    ]


def test_shares_of_conditions_and_negative_sources_are_those_of_a_plan(make_store):
    users = {"id": [1, 2], "age": [30, 30], "height": [1.5, 1.75]}
    edges = make_store({"user": users, "item": {"id": [3]}}, {"buy": ("user", "item", [(1, 3)], {})}).E("buy").batch(2)
    edges.outV().alias("u").outV("buy").sample(2).alias("bought")
    negatives = edges.inV().inNeg("buy").sample(5).by("conditional").alias("n")
    negatives.where("u", {"int_cols": [0], "int_props": [0.5], "float_cols": [0], "float_props": [0.1], "unique": True})
    negatives.outV("buy").sample(2).alias("bought by negatives")

    plan = edges.values().to_plan()

    # Five times 0.5 and 0.1 and the rest 0.4 are 3, 0 and 2 by largest remainder.
    assert plan.negatives == Negatives(num_per_positive=5, side="source", conditions={"age": 0.6})
    assert [(hop.name, hop.inputs) for hop in plan.hops] == [("bought", ("source",))]


def test_negatives_by_weight_are_those_of_a_plan(make_store):
    nodes = {"a": {"id": [1]}, "b": {"id": [2, 3], "weight": [1.0, 2.0]}}
    edges = make_store(nodes, {"e": ("a", "b", [(1, 2)], {})}).E("e").batch(1)
    edges.outV().outNeg("e").sample(3).by("node_weight").alias("negative")

    negatives = edges.alias("e").values().to_plan().negatives

    assert negatives == Negatives(
        num_per_positive=3, distribution="node_weight", weight_feature="weight", unique=False, excludes_neighbors=False
    )


def test_the_sampler_runs_the_plan(shop):
    users = shop.V("user").batch(10).alias("u")
    query = users.outV("buy").sample(2).by("topk").alias("i").values()

    subgraphs = InMemorySampler(shop.tables, query.to_plan(), sampling_seed=0).sample_nodes([0, 1])

    items = shop.node_ids("item").ids[subgraphs.node_sets["item"].rows]
    first, second = query.next()["i"].ids[:2]
    assert sorted(items.tolist()) == sorted([*first.tolist(), *second.tolist()])


def _edges(shop):
    edges = shop.E("buy").batch(2)
    edges.inV().alias("i")
    edges.outV().outV("buy").sample(1).alias("other")
    return edges


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda shop: shop.V("buy", NodeFrom.EDGE_SRC).batch(2), r"got V\(buy,EDGE_SRC,NONE\), alias 'x'"),
        (
            lambda shop: shop.V("user").batch(2).random_walk("knows", 2, p=0.5),
            r"a plan walks without regard to the node before, .*; got V\(.*random_walk\(knows\), alias",
        ),
        (
            lambda shop: shop.V("user").batch(2).random_walk("knows", 2).outV("buy").sample(1),
            r"a plan ends with a walk; got V\(.*random_walk\(knows\)",
        ),
        (lambda shop: shop.V("user").batch(2).SubGraph("knows", [2]), "a plan has no subgraph"),
        (lambda shop: shop.V("user").batch(2).outNeg("buy").sample(2), "a plan draws negatives once, for one end of"),
        (lambda shop: shop.V("user").batch(2).Neg("user").sample(2).by("node_weight"), "a plan draws negatives once"),
        (lambda shop: _edges(shop).outV().outNeg("knows").sample(2), "a plan draws negatives once"),
        (
            lambda shop: _edges(shop).outV().outNeg("buy").sample(2).where("other", {"unique": True}),
            "the positives of a plan's negatives are the ends of its seed edges that they replace",
        ),
        (
            lambda shop: _edges(shop).outV().outNeg("buy").sample(2).where("i", {"batch_share": True}),
            "a plan has no batches, whose positives `batch_share` refuses",
        ),
        (
            lambda shop: _edges(shop).outV().outNeg("buy").sample(2).inV("buy").sample(1),
            "a plan expands negatives as it expands the true nodes .*Write the same steps after inV",
        ),
        (
            lambda shop: _edges(shop).outV().outV("knows").sample(2).outV("buy").sample(2).filter("i"),
            "a plan only keeps the two ends",
        ),
    ],
)
def test_a_step_without_a_plan_is_named(shop, write, message):
    query = write(shop).alias("x").values()

    with pytest.raises(ValueError, match=message):
        query.to_plan()


def test_masked_seeds_have_no_plan(shop, make_store):
    users = dataclasses.replace(
        shop.tables.node_tables["user"], extra_columns={"mask": pa.array(["train"] * 10, pa.large_string())}
    )
    tables = dataclasses.replace(shop.tables, node_tables={**shop.tables.node_tables, "user": users})

    query = type(shop)(tables).V("user", mask=Mask.TRAIN).batch(2).alias("u").values()

    with pytest.raises(ValueError, match="the seeds of a plan are all nodes of a type"):
        query.to_plan()
