"""Trees of fixed size that an ego plan adds to its subgraphs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.components import SubgraphExampleGenOptions, generate_subgraph_examples
from tfx_gnn.records import read_split
from tfx_gnn.sampling import Hop, SamplingPlan, SplitPlan, make_seeds, read_tables, subgraph_dataset

SCHEMA = """
node_sets { key: "user" value { metadata { filename: "users.csv" } features { key: "age" value { dtype: DT_FLOAT } } } }
node_sets { key: "item" value { metadata { filename: "items.csv" } } }
edge_sets { key: "buys" value { source: "user" target: "item" metadata { filename: "buys.csv" } } }
edge_sets { key: "bought_by" value { source: "item" target: "user" metadata { filename: "bought_by.csv" } } }
"""
# u0 buys three items, u1 two, u2 none.
BUYS = [("u0", "i0"), ("u0", "i1"), ("u0", "i2"), ("u1", "i2"), ("u1", "i0")]


@pytest.fixture
def shop(tmp_path: Path) -> str:
    (tmp_path / "graph_schema.pbtxt").write_text(SCHEMA)
    (tmp_path / "users.csv").write_text("id,age\nu0,1\nu1,2\nu2,3\n")
    (tmp_path / "items.csv").write_text("id\ni0\ni1\ni2\n")
    (tmp_path / "buys.csv").write_text("source,target\n" + "".join(f"{user},{item}\n" for user, item in BUYS))
    (tmp_path / "bought_by.csv").write_text("source,target\n" + "".join(f"{item},{user}\n" for user, item in BUYS))
    return str(tmp_path)


def plan_of(*fan_outs: int, padding: Any = "circular", **options: Any) -> SamplingPlan:
    steps = (("buys", ("seed",)), ("bought_by", ("buys",)))
    hops = tuple(
        Hop(edge_set=name, fan_out=fan_out, inputs=inputs, padding=padding)
        for fan_out, (name, inputs) in zip(fan_outs, steps, strict=False)
    )
    splits = SplitPlan(allows_empty_splits=True)
    arguments = {"expands_seed_again": True, "is_ego": True, "splits": splits, **options}
    return SamplingPlan(seed_node_set="user", hops=hops, **arguments)


def trees(shop: str, plan: SamplingPlan) -> dict[str, list[list[Any]]]:
    """The ids in the trees of each seed; None for no node."""
    tables = read_tables(shop)
    seeds, _ = make_seeds(tables, plan, sampling_seed=1)
    found = {}
    for split in seeds.values():
        if not split.num_subgraphs:
            continue
        for graph in subgraph_dataset(tables, plan, split, sampling_seed=1):
            ids = {name: [*map(bytes.decode, graph.node_sets[name]["#id"].numpy())] for name in ("user", "item")}
            found[ids["user"][0]] = [
                [ids[name][place] if place >= 0 else None for place in graph.context[hop].numpy()[0]]
                for hop, name in (("hop_0", "item"), ("hop_1", "user"))
            ]
    return found


def test_missing_neighbors_are_repeated_in_the_order_of_the_table(shop: str) -> None:
    assert trees(shop, plan_of(3, 4)) == {
        "u0": [
            ["i0", "i1", "i2"],
            [*("u0", "u1", "u0", "u1"), *("u0", "u0", "u0", "u0"), *("u0", "u1", "u0", "u1")],
        ],
        "u1": [
            ["i2", "i0", "i2"],
            [*("u0", "u1", "u0", "u1"), *("u0", "u1", "u0", "u1"), *("u0", "u1", "u0", "u1")],
        ],
        "u2": [[None] * 3, [None] * 12],
    }


def test_missing_neighbors_are_no_nodes(shop: str) -> None:
    assert trees(shop, plan_of(3, 4, padding="replicate")) == {
        "u0": [
            ["i0", "i1", "i2"],
            [*("u0", "u1", None, None), *("u0", None, None, None), *("u0", "u1", None, None)],
        ],
        "u1": [["i2", "i0", None], [*("u0", "u1", None, None), *("u0", "u1", None, None), *[None] * 4]],
        "u2": [[None] * 3, [None] * 12],
    }


def test_trees_are_made_of_the_sampled_edges(shop: str) -> None:
    found = trees(shop, plan_of(2, 1))

    items = found["u0"][0]
    assert len(set(items)) == 2
    assert set(items) <= {"i0", "i1", "i2"}
    assert all((user, item) in BUYS for item, user in zip(*found["u0"], strict=True))
    assert found == trees(shop, plan_of(2, 1))


def test_batches_are_trees_side_by_side(shop: str) -> None:
    plan = plan_of(3, 4)
    examples = f"{shop}/examples"
    generate_subgraph_examples(
        tables_dir=shop, examples_dir=examples, options=SubgraphExampleGenOptions(plan=plan, num_shards=1)
    )
    schema = tfx_gnn.read_schema(f"{examples}/graph_schema.pbtxt")
    indices = tfx_gnn.index_features(schema)
    assert indices == {"context": {"hop_0": "item", "hop_1": "user"}}

    records = [record for split in ("train", "val", "test") for record in read_split(examples, split)]
    spec = tfx_gnn.create_graph_spec_from_schema_pb(schema)
    graph = tfx_gnn.parse_and_merge(spec, tf.stack(records[:2]), index_features=indices)

    rows = [int(np.prod(graph.context[hop].shape)) for hop in ("hop_0", "hop_1")]
    assert rows == [6, 24]
    assert tfx_gnn.validate_schema(schema) == []


def test_beam_makes_the_same_bytes(shop: str) -> None:
    found: dict[str, list[bytes]] = {}
    for execution in ("in_memory", "beam"):
        examples = f"{shop}/{execution}"
        options = SubgraphExampleGenOptions(plan=plan_of(2, 2), execution=execution, sampling_seed=3)
        generate_subgraph_examples(tables_dir=shop, examples_dir=examples, options=options)
        found[execution] = [
            record for split in ("train", "val", "test") for record in read_split(examples, split).as_numpy_iterator()
        ]

    assert found["beam"] == found["in_memory"]
    assert len(found["beam"]) == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: plan_of(2, expands_seed_again=False), "`expands_seed_again` must be set where `is_ego` is set"),
        (lambda: plan_of(2, context_features=("hop_0",)), r"must not be named as the trees of hops; got \['hop_0'\]"),
        (
            lambda: SamplingPlan(seed_edge_set="buys", is_ego=True, expands_seed_again=True),
            "must follow each other from the seed of a node plan",
        ),
        (
            lambda: SamplingPlan(
                seed_node_set="user",
                hops=(Hop(edge_set="buys", strategy="full"),),
                is_ego=True,
                expands_seed_again=True,
            ),
            "each with a fan-out",
        ),
        (
            lambda: SamplingPlan(
                seed_node_set="user",
                hops=(Hop(edge_set="buys", fan_out=1), Hop(edge_set="buys", fan_out=1)),
                is_ego=True,
                expands_seed_again=True,
            ),
            "must follow each other from the seed",
        ),
        (lambda: Hop(edge_set="buys", fan_out=1, padding="zero"), r"`padding` must be one of \['circular', 'replicate"),
    ],
)
def test_plans_without_trees_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
