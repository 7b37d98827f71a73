"""Seeds, ranks and the sampler together: what subgraphs hold of later splits, and of their own."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.examples.seed_selection import make_seeds
from tfx_gnn.sampling.plan.edge_ranks import rank_edges
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.graph_tables import EdgeTable, GraphTables, NodeTable

SCHEMA = text_format.Parse(
    """
    node_sets { key: "user" value { } }
    node_sets { key: "item" value { } }
    edge_sets { key: "buys" value { source: "user" target: "item" } }
    edge_sets { key: "sold" value { source: "item" target: "user" } }
    edge_sets { key: "knows" value { source: "user" target: "user" } }
    """,
    GraphSchema(),
)


def make_graph(num_users, num_items, parts=(), **edges_by_set):
    edge_tables = {}
    for name, edges in edges_by_set.items():
        sources, targets = np.array(edges, np.int64).reshape(-1, 2).T
        edge_tables[name] = EdgeTable(
            path=f"{name}.csv",
            source_set=SCHEMA.edge_sets[name].source,
            target_set=SCHEMA.edge_sets[name].target,
            sources=sources,
            targets=targets,
            features={},
            extra_columns={"part": pa.array(parts, pa.large_string())} if parts else {},
        )
    users = pa.array([f"u{i:04d}" for i in range(num_users)], pa.large_string())
    items = pa.array([f"i{i:04d}" for i in range(num_items)], pa.large_string())
    return GraphTables(
        schema=SCHEMA,
        node_tables={
            "user": NodeTable(path="users.csv", ids=users, features={}),
            "item": NodeTable(path="items.csv", ids=items, features={}),
        },
        edge_tables=edge_tables,
    )


def sample(tables, plan):
    """By split: seeds, and the subgraphs around them."""
    seeds_by_split, _ = make_seeds(tables, plan, 0)
    sampler = InMemorySampler(tables, plan, sampling_seed=0, edge_ranks=rank_edges(tables, plan))
    return {name: (seeds, sampler.sample(seeds)) for name, seeds in seeds_by_split.items()}


def nodes_of(subgraphs, name, position):
    nodes = subgraphs.node_sets[name]
    return nodes.rows[nodes.splits[position] : nodes.splits[position + 1]].tolist()


def edges_of(subgraphs, name, position):
    edges = subgraphs.edge_sets[name]
    return edges.rows[edges.splits[position] : edges.splits[position + 1]].tolist()


def full(edge_set, *inputs, **fields):
    return Hop(edge_set=edge_set, strategy="full", inputs=inputs, **fields)


# Of users 0 to 2 and items 0 to 3; item 2 and 3 are bought by nobody.
EDGES = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1)]
PARTS = ["train", "train", "val", "test", "train"]


def tiny_plan(**fields):
    return SamplingPlan(
        seed_edge_set="buys",
        reverse_edge_sets=("sold",),
        hops=(full("buys", "source", name="also"), full("sold", "target", name="buyers")),
        splits=SplitPlan(column="part"),
        **fields,
    )


def tiny_graph():
    return make_graph(3, 4, PARTS, buys=EDGES, sold=[(target, source) for source, target in EDGES])


def test_links_see_what_earlier_splits_show_and_never_themselves():
    sampled = sample(tiny_graph(), tiny_plan())

    found = {}
    for seeds, subgraphs in sampled.values():
        for position, row in enumerate(seeds.rows.tolist()):
            found[row] = edges_of(subgraphs, "buys", position), edges_of(subgraphs, "sold", position)
    # By seed edge: what its source buys, and to whom its target was sold.
    assert found == {
        0: ([1], []),  # user 1 buys item 0 in a later split
        1: ([0], [4]),
        2: ([], [0]),  # its source also buys item 1, but in the test split
        3: ([2], [1, 4]),
        4: ([], [1]),
    }


def test_negatives_are_roots_whose_edges_are_followed_too():
    sampled = sample(tiny_graph(), tiny_plan(negatives=Negatives(num_per_positive=2, num_draws=64)))

    seeds, subgraphs = sampled["test"]
    assert seeds.rows.tolist() == [3]
    # User 1 buys the items 0 and 1, so its negatives are 2 and 3 in some order.
    targets = seeds.readout_nodes["target"].tolist()
    assert (targets[0], sorted(targets[1:])) == (1, [2, 3])
    assert nodes_of(subgraphs, "item", 0) == [*targets, 0]
    assert nodes_of(subgraphs, "user", 0) == [1, 0, 2]
    assert subgraphs.readouts.positions["source"].tolist() == [0, 0, 0]
    assert subgraphs.readouts.positions["target"].tolist() == [0, 1, 2]
    assert subgraphs.readouts.labels.tolist() == [1, 0, 0]
    assert edges_of(subgraphs, "buys", 0) == [2]
    assert edges_of(subgraphs, "sold", 0) == [1, 4]


def random_graph(num_edges):
    rng = np.random.default_rng(3)
    edges = rng.integers(0, [30, 20], (num_edges, 2))
    knows = rng.integers(0, 30, (80, 2))
    return make_graph(30, 20, buys=edges, sold=edges[:, ::-1], knows=np.concatenate([knows, knows[:, ::-1]]))


def link_plan(**splits):
    return SamplingPlan(
        seed_edge_set="buys",
        reverse_edge_sets=("sold",),
        hops=(
            Hop(edge_set="buys", fan_out=4, inputs=("source",), name="bought"),
            Hop(edge_set="sold", fan_out=4, inputs=("target", "bought"), name="buyers"),
            full("buys", "buyers", name="more"),
        ),
        splits=SplitPlan(**splits),
        negatives=Negatives(num_per_positive=2),
    )


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_supervision_is_never_sampled_where_it_must_not_be_seen(share):
    tables = random_graph(200)
    sampled = sample(tables, link_plan(weights={"train": 2, "val": 1, "test": 1}, disjoint_train_share=share))

    rows = {name: set(seeds.rows.tolist()) for name, (seeds, _) in sampled.items()}
    later = {"train": ("val", "test"), "val": ("test",), "test": ()}
    edges = tables.edge_tables["buys"]
    pair_of = list(zip(edges.sources.tolist(), edges.targets.tolist(), strict=True))
    num_seen = 0
    for name, (seeds, subgraphs) in sampled.items():
        own_split = rows[name] if name != "train" or share else set()
        hidden = own_split.union(*(rows[other] for other in later[name]))
        for position, row in enumerate(seeds.rows.tolist()):
            seen = {*edges_of(subgraphs, "buys", position), *edges_of(subgraphs, "sold", position)}
            num_seen += len(seen)
            assert not seen & hidden
            assert pair_of[row] not in {pair_of[other] for other in seen}
    assert num_seen > 1000


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_both_directions_in_one_set_hide_each_other(share):
    tables = random_graph(10)
    plan = SamplingPlan(
        seed_edge_set="knows",
        reverse_edge_sets=("knows",),
        hops=(
            full("knows", "source", "target", name="near"),
            full("knows", "near", name="far"),
            full("knows", "near", name="back", direction="backward"),
        ),
        splits=SplitPlan(weights={"train": 2, "val": 1, "test": 1}, disjoint_train_share=share),
    )

    sampled = sample(tables, plan)

    edges = tables.edge_tables["knows"]
    pair_of = [frozenset(pair) for pair in zip(edges.sources.tolist(), edges.targets.tolist(), strict=True)]
    pairs = {name: {pair_of[row] for row in seeds.rows.tolist()} for name, (seeds, _) in sampled.items()}
    names = ["train", "val", "test"]
    for name, (seeds, subgraphs) in sampled.items():
        own_split = pairs[name] if name != "train" or share else set()
        hidden = own_split.union(*(pairs[other] for other in names[names.index(name) + 1 :]))
        for position, row in enumerate(seeds.rows.tolist()):
            seen = {pair_of[other] for other in edges_of(subgraphs, "knows", position)}
            assert not seen & hidden
            assert pair_of[row] not in seen


def test_hidden_nodes_are_in_no_earlier_subgraph():
    tables = random_graph(200)
    thirds = {"train": 1, "val": 1, "test": 1}
    plan = SamplingPlan(
        seed_node_set="user",
        hops=(
            full("knows", "seed", name="near"),
            Hop(edge_set="buys", fan_out=3, inputs=("seed", "near"), name="bought"),
            full("sold", "bought", name="buyers"),
            full("knows", "buyers", name="back", direction="backward"),
        ),
        splits=SplitPlan(weights=thirds, visibility="inductive"),
    )

    sampled = sample(tables, plan)
    transductive = sample(tables, dataclasses.replace(plan, splits=SplitPlan(weights=thirds)))

    names = list(thirds)
    split_of = {row: names.index(name) for name, (seeds, _) in sampled.items() for row in seeds.rows.tolist()}
    for name, (_, subgraphs) in sampled.items():
        latest = max(split_of[row] for row in subgraphs.node_sets["user"].rows.tolist())
        assert latest == names.index(name)
    assert max(split_of[row] for row in transductive["train"][1].node_sets["user"].rows.tolist()) == 2


def test_a_subgraph_with_negatives_does_not_depend_on_the_seeds_beside_it():
    tables = random_graph(150)
    plan = link_plan(weights={"train": 1, "val": 1})
    seeds, whole = sample(tables, plan)["val"]
    sampler = InMemorySampler(tables, plan, sampling_seed=0, edge_ranks=rank_edges(tables, plan))

    for position in range(0, seeds.num_subgraphs, 7):
        alone = sampler.sample(seeds.slice(position, position + 1))

        for name in ("buys", "sold"):
            assert edges_of(alone, name, 0) == edges_of(whole, name, position)
        for name in ("user", "item"):
            assert nodes_of(alone, name, 0) == nodes_of(whole, name, position)
