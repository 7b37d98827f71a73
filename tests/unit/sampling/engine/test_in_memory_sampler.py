import dataclasses

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.sampled_subgraphs import HopCounts, TruncatedHub
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.tables.graph_tables import EdgeTable, GraphTables, NodeTable, read_tables

STRATEGIES = (
    "uniform",
    "uniform_with_replacement",
    "weighted",
    "weighted_with_replacement",
    "top_k",
    "in_degree",
    "in_degree_with_replacement",
    "full",
)
KNOWS = Hop(edge_set="knows", fan_out=10)
KNOWN_BY = Hop(edge_set="knows", fan_out=10, direction="backward")
BUYS = Hop(edge_set="buys", fan_out=10)


def _plan(*hops):
    return SamplingPlan(seed_node_set="user", hops=hops)


def _describe(subgraphs, which):
    """Node rows by set and edges (row, source position, target position) by set of one subgraph."""
    nodes, edges = {}, {}
    for name, sampled in subgraphs.node_sets.items():
        nodes[name] = sampled.rows[sampled.splits[which] : sampled.splits[which + 1]].tolist()
    for name, sampled in subgraphs.edge_sets.items():
        part = slice(sampled.splits[which], sampled.splits[which + 1])
        triples = (sampled.rows[part], sampled.sources[part], sampled.targets[part])
        edges[name] = list(zip(*(values.tolist() for values in triples), strict=True))
    return nodes, edges


def _sample_one(shop_dir, row, *hops):
    sampler = InMemorySampler(read_tables(shop_dir), _plan(*hops), sampling_seed=0)
    return _describe(sampler.sample_nodes(np.array([row])), 0)


def test_self_loops_and_parallel_edges_are_kept_and_nodes_occur_once(shop_dir):
    ann = _sample_one(shop_dir, 0, KNOWS)

    assert ann == ({"user": [0, 1]}, {"knows": [(0, 0, 1), (1, 0, 0), (3, 0, 1)]})


def test_a_seed_without_edges_is_alone(shop_dir):
    dan = _sample_one(shop_dir, 3, KNOWS, BUYS)

    assert dan == ({"user": [3], "item": []}, {"knows": [], "buys": []})


def test_a_plan_without_hops_leaves_the_seed(shop_dir):
    assert _sample_one(shop_dir, 2) == ({"user": [2]}, {})


def test_edges_found_backward_keep_their_direction_and_the_seed_comes_first(shop_dir):
    bob = _sample_one(shop_dir, 1, KNOWN_BY)

    assert bob == ({"user": [1, 0]}, {"knows": [(0, 1, 0), (3, 1, 0)]})


def test_an_edge_that_two_hops_find_occurs_once(shop_dir):
    back = Hop(edge_set="knows", fan_out=10, direction="backward", inputs=("knows",))

    ann = _sample_one(shop_dir, 0, KNOWS, back)

    assert ann == ({"user": [0, 1]}, {"knows": [(0, 0, 1), (1, 0, 0), (3, 0, 1)]})


def test_a_hop_that_does_not_name_the_seed_does_not_expand_it(shop_dir):
    bought_by = Hop(edge_set="buys", fan_out=10, direction="backward", inputs=("buys",))
    knows = Hop(edge_set="knows", fan_out=10, inputs=("buys_reverse",))

    ann = _sample_one(shop_dir, 0, BUYS, bought_by, knows)

    # Item 7 leads back to ann and to bob; bob knows cid. Whom ann knows is not revealed.
    assert ann == ({"user": [0, 1, 2], "item": [0]}, {"buys": [(0, 0, 0), (1, 1, 0)], "knows": [(2, 1, 2)]})


def test_a_hop_may_start_from_the_seed_and_from_others(shop_dir):
    both = Hop(edge_set="buys", fan_out=10, inputs=("seed", "knows"))

    bob = _sample_one(shop_dir, 1, KNOWS, both)

    assert bob == (
        {"user": [1, 2], "item": [0, 1]},
        {"knows": [(2, 0, 1)], "buys": [(1, 0, 0), (2, 1, 1), (3, 0, 1)]},
    )


def _star(num_leaves):
    """A hub, row 0 of its set, with an edge from every leaf."""
    schema = GraphSchema()
    schema.node_sets["leaf"].SetInParent()
    schema.node_sets["hub"].SetInParent()
    schema.edge_sets["spoke"].source = "leaf"
    schema.edge_sets["spoke"].target = "hub"
    schema.edge_sets["spoke"].features["weight"].dtype = tf.int64.as_datatype_enum
    leaves = np.arange(num_leaves)
    return GraphTables(
        schema=schema,
        node_tables={
            "leaf": NodeTable(path="", ids=pa.array(leaves), features={}),
            "hub": NodeTable(path="", ids=pa.array(["h"], pa.large_string()), features={}),
        },
        edge_tables={
            "spoke": EdgeTable(
                path="",
                source_set="leaf",
                target_set="hub",
                sources=leaves,
                targets=np.zeros_like(leaves),
                features={"weight": pa.array(leaves % 1000)},
            )
        },
    )


def test_a_hub_is_cut_to_the_fan_out_and_counted():
    plan = SamplingPlan(seed_node_set="hub", hops=(Hop(edge_set="spoke", fan_out=8, direction="backward"),))

    subgraphs = InMemorySampler(_star(20_000), plan, sampling_seed=0).sample_nodes(np.array([0]))

    (nodes, edges) = _describe(subgraphs, 0)
    assert nodes["hub"] == [0]
    assert len(nodes["leaf"]) == 8 == len(set(nodes["leaf"]))
    assert edges["spoke"] == [(row, position, 0) for position, row in enumerate(nodes["leaf"])]
    assert subgraphs.hop_counts == {
        "spoke_reverse": HopCounts(
            num_inputs=1, num_truncated=1, num_edges=8, num_candidates=20_000, num_eligible=20_000
        )
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_hub_of_degree_20000_is_cut_by_every_strategy_in_both_directions(strategy, direction):
    tables = _star(20_000)
    if direction == "forward":
        spoke = tables.edge_tables["spoke"]
        turned = {"source_set": "hub", "target_set": "leaf", "sources": spoke.targets, "targets": spoke.sources}
        tables.edge_tables["spoke"] = dataclasses.replace(spoke, **turned)
        tables.schema.edge_sets["spoke"].source, tables.schema.edge_sets["spoke"].target = "hub", "leaf"
    hop = Hop(
        edge_set="spoke",
        fan_out=0 if strategy == "full" else 8,
        direction=direction,
        strategy=strategy,
        weight_feature="weight" if strategy in ("weighted", "weighted_with_replacement", "top_k") else "",
    )
    plan = SamplingPlan(seed_node_set="hub", hops=(hop,))

    subgraphs = InMemorySampler(tables, plan, sampling_seed=0).sample_nodes(np.array([0]))

    rows = subgraphs.edge_sets["spoke"].rows.tolist()
    assert len(rows) == (20_000 if strategy == "full" else 8)
    if strategy == "top_k":  # leaf i weighs i % 1000
        assert rows == [999, 1999, 2999, 3999, 4999, 5999, 6999, 7999]
    if strategy.startswith("weighted"):
        assert all(row % 1000 for row in rows)
    (counts,) = subgraphs.hop_counts.values()
    num_eligible = 19_980 if strategy.startswith("weighted") else 20_000
    assert (counts.num_candidates, counts.num_eligible) == (20_000, num_eligible)
    hubs = () if strategy == "full" else (TruncatedHub(node_id="h", degree=20_000, times_truncated=1),)
    assert subgraphs.truncated_hubs.get(hop.name or plan.hops[0].name, ()) == hubs


@pytest.mark.parametrize(
    ("strategy", "weight", "message"),
    [
        (
            "weighted",
            -0.5,
            r"must hold finite numbers of at least 0; got -0\.5 in 'weight' of row 1 of spokes\.csv, one",
        ),
        ("weighted_with_replacement", -0.5, r"got -0\.5 in 'weight' of row 1 of spokes\.csv, one of 2 such rows"),
        ("weighted", float("inf"), r"got inf in 'weight' of row 1 of spokes\.csv, one of 2 such rows"),
        ("weighted", float("nan"), r"got NaN in 'weight' of row 1 of spokes\.csv, one of 2 such rows"),
        ("top_k", float("nan"), r"must hold numbers; got NaN in 'weight' of row 1 of spokes\.csv, one of 2 such rows"),
    ],
)
def test_weights_that_no_edge_can_be_chosen_by_are_refused(strategy, weight, message):
    tables = _star(3)
    spoke = tables.edge_tables["spoke"]
    weights = pa.array([1.0, weight, weight], pa.float32())
    tables.edge_tables["spoke"] = dataclasses.replace(spoke, path="spokes.csv", features={"weight": weights})
    hop = Hop(edge_set="spoke", fan_out=1, strategy=strategy, weight_feature="weight", direction="backward")
    plan = SamplingPlan(seed_node_set="hub", hops=(hop,))

    with pytest.raises(ValueError, match=message):
        InMemorySampler(tables, plan, sampling_seed=0)


@pytest.mark.parametrize(
    ("strategy", "weights", "rows"),
    [
        ("weighted", [0.0, 0.0, 0.0], []),
        ("weighted_with_replacement", [0.0, 0.0, 0.0], []),
        ("weighted", [0.0, 2.0, 0.0], [1]),
        ("top_k", [-1.0, float("-inf"), 0.0], [0, 2]),
    ],
)
def test_what_weighs_nothing_is_never_drawn_and_top_k_ranks_any_number(strategy, weights, rows):
    tables = _star(3)
    spoke = tables.edge_tables["spoke"]
    tables.edge_tables["spoke"] = dataclasses.replace(spoke, features={"weight": pa.array(weights, pa.float32())})
    hop = Hop(edge_set="spoke", fan_out=2, strategy=strategy, weight_feature="weight", direction="backward")

    sampler = InMemorySampler(tables, SamplingPlan(seed_node_set="hub", hops=(hop,)), sampling_seed=0)

    assert sampler.sample_nodes(np.array([0])).edge_sets["spoke"].rows.tolist() == rows


def test_each_subgraph_and_each_run_draws_for_itself():
    plan = SamplingPlan(
        seed_node_set="leaf",
        hops=(
            Hop(edge_set="spoke", fan_out=1),
            Hop(edge_set="spoke", fan_out=3, direction="backward", inputs=("spoke",)),
        ),
    )
    tables = _star(1000)
    seeds = np.arange(100)

    first = InMemorySampler(tables, plan, sampling_seed=0).sample_nodes(seeds)
    again = InMemorySampler(tables, plan, sampling_seed=0).sample_nodes(seeds)
    other = InMemorySampler(tables, plan, sampling_seed=1).sample_nodes(seeds)

    def drawn(subgraphs):
        return [tuple(_describe(subgraphs, which)[1]["spoke"]) for which in range(100)]

    assert drawn(first) == drawn(again)
    assert len(set(drawn(first))) == 100
    assert not set(drawn(first)) & set(drawn(other))


def test_what_is_elsewhere_in_the_graph_does_not_matter():
    """Nodes that sort before others and edges behind others shift rows of nodes, not choices."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 40, (400, 2))
    hops = (
        Hop(edge_set="e", fan_out=3),
        Hop(edge_set="e", fan_out=2, strategy="in_degree", inputs=("e",), direction="backward"),
        Hop(edge_set="e", fan_out=2, strategy="uniform_with_replacement", inputs=("e", "e_reverse")),
    )
    schema = GraphSchema()
    schema.node_sets["n"].SetInParent()
    schema.edge_sets["e"].source = schema.edge_sets["e"].target = "n"

    def sample(num_others):
        ids = [*(f"a{i:02}" for i in range(num_others)), *(f"n{i:02}" for i in range(40))]
        others = rng.integers(0, num_others, (5 * num_others, 2)) if num_others else np.zeros((0, 2), np.int64)
        ends = np.concatenate([pairs + num_others, others])
        nodes = NodeTable(path="", ids=pa.array(ids, pa.large_string()), features={})
        edges = EdgeTable(path="", source_set="n", target_set="n", sources=ends[:, 0], targets=ends[:, 1], features={})
        tables = GraphTables(schema=schema, node_tables={"n": nodes}, edge_tables={"e": edges})
        sampler = InMemorySampler(tables, SamplingPlan(seed_node_set="n", hops=hops), sampling_seed=7)
        subgraphs = sampler.sample_nodes(np.arange(40)[::-1] + num_others)
        return [
            ([ids[row] for row in nodes["n"]], edges["e"])
            for nodes, edges in (_describe(subgraphs, which) for which in range(40))
        ]

    assert sample(0) == sample(30)


def test_an_empty_batch_has_no_subgraphs(shop_dir):
    subgraphs = InMemorySampler(read_tables(shop_dir), _plan(KNOWS), sampling_seed=0).sample_nodes(
        np.zeros(0, np.int64)
    )

    assert subgraphs.node_sets["user"].splits.tolist() == [0]
    assert subgraphs.edge_sets["knows"].splits.tolist() == [0]


@pytest.mark.parametrize("row", [-1, 4])
def test_rows_outside_of_the_table_are_refused(shop_dir, row):
    sampler = InMemorySampler(read_tables(shop_dir), _plan(KNOWS), sampling_seed=0)

    with pytest.raises(ValueError, match=rf"`rows` must be in \[0, 4\), the rows of nodes/user; got \[{row}\], 1 of 2"):
        sampler.sample_nodes(np.array([0, row]))


@pytest.mark.parametrize(("node_set", "ids", "unknown"), [("user", ["cid", "ann"], ["eve"]), ("item", [12, 7], [8, 6])])
def test_seeds_are_given_by_id_and_unknown_ids_are_named(shop_dir, node_set, ids, unknown):
    tables = read_tables(shop_dir)
    sampler = InMemorySampler(tables, SamplingPlan(seed_node_set=node_set), sampling_seed=0)
    known = tables.node_tables[node_set].ids.to_pylist()

    subgraphs = sampler.sample_ids(ids)

    assert subgraphs.node_sets[node_set].rows.tolist() == [known.index(each) for each in ids]
    with pytest.raises(
        ValueError, match=f"must be ids of nodes/{node_set}; got .{str(unknown)[1:-1]}., which .* lacks"
    ):
        sampler.sample_ids([*ids, *unknown])
    with pytest.raises(TypeError, match=f"`ids` must be ids of nodes/{node_set}, of type"):
        sampler.sample_ids([1.5])
    with pytest.raises(TypeError, match="with 1 nulls"):
        sampler.sample_ids([ids[0], None])


@pytest.mark.parametrize("sampling_seed", [-1, 2**63])
def test_a_sampling_seed_out_of_range_is_refused(shop_dir, sampling_seed):
    with pytest.raises(ValueError, match=r"`sampling_seed` must be in \[0, 2\*\*63\); got"):
        InMemorySampler(read_tables(shop_dir), _plan(KNOWS), sampling_seed=sampling_seed)


def test_a_plan_that_does_not_fit_is_refused(shop_dir):
    with pytest.raises(ValueError, match="`edge_set` must be one of"):
        InMemorySampler(read_tables(shop_dir), _plan(Hop(edge_set="sells", fan_out=1)), sampling_seed=0)
