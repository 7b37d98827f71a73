import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable, Temporal
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.sampling.plan.split_tables import check_split_features, node_split_columns, rank_edges, tables_with_splits
from tfx_gnn.tables.graph_tables import EdgeTable, GraphTables, NodeTable

SCHEMA = text_format.Parse(
    """
    node_sets { key: "user" value { features { key: "year" value { dtype: DT_INT64 } } } }
    node_sets { key: "item" value { features { key: "price" value { dtype: DT_FLOAT } } } }
    edge_sets { key: "buys" value { source: "user" target: "item"
      features { key: "year" value { dtype: DT_INT64 } } } }
    edge_sets { key: "sold" value { source: "item" target: "user"
      features { key: "price" value { dtype: DT_FLOAT } } } }
    edge_sets { key: "knows" value { source: "user" target: "user" } }
    """,
    GraphSchema(),
)
BY_YEAR = SplitPlan(time_feature="year", until={"train": 10, "val": 20, "test": None})
BY_PART = SplitPlan(column="part")


def edge_table(source_set, target_set, edges, parts=None, years=None):
    sources, targets = np.array(edges, np.int64).reshape(-1, 2).T
    return EdgeTable(
        path=f"{source_set}-{target_set}.csv",
        source_set=source_set,
        target_set=target_set,
        sources=sources,
        targets=targets,
        features={} if years is None else {"year": pa.array(years)},
        extra_columns={} if parts is None else {"part": pa.array(parts, pa.large_string())},
    )


def make_tables(parts=None, **edge_tables):
    users = NodeTable(
        path="users.csv",
        ids=pa.array(["ann", "bob", "cid", "dan"], pa.large_string()),
        features={"year": pa.array([5, 15, 25, 10])},
        extra_columns={} if parts is None else {"part": pa.array(parts, pa.large_string())},
    )
    items = NodeTable(path="items.csv", ids=pa.array(["pen", "cup"], pa.large_string()), features={})
    return GraphTables(schema=SCHEMA, node_tables={"user": users, "item": items}, edge_tables=edge_tables)


def test_only_seeds_and_their_reverses_have_splits():
    node_plan = SamplingPlan(seed_node_set="user", splits=BY_PART)
    hops = (Hop(edge_set="sold", fan_out=1, inputs=("target",)),)
    link_plan = SamplingPlan(seed_edge_set="buys", reverse_edge_sets=("sold",), hops=hops, splits=BY_PART)

    assert tables_with_splits(node_plan).extra_columns_by_table == {"nodes/user": ("part",)}
    assert tables_with_splits(link_plan).extra_columns_by_table == {"edges/buys": ("part",), "edges/sold": ("part",)}
    assert tables_with_splits(SamplingPlan(seed_node_set="user")).extra_columns_by_table == {}


def test_a_reverse_edge_set_that_nothing_looks_at_needs_no_split():
    plan = SamplingPlan(seed_edge_set="buys", reverse_edge_sets=("sold",))

    assert tables_with_splits(plan).edge_sets == ("buys",)


def test_a_seed_table_takes_the_place_of_the_nodes_unless_these_are_hidden():
    table = SeedTable(filename="seeds.csv")
    inductive = SplitPlan(visibility="inductive")

    assert tables_with_splits(SamplingPlan(seed_node_set="user", seed_table=table)).node_sets == ()
    plan = SamplingPlan(seed_node_set="user", seed_table=table, splits=inductive)
    assert tables_with_splits(plan).node_sets == ("user",)
    assert tables_with_splits(plan).has_seed_table


def test_transductive_nodes_have_no_ranks():
    plan = SamplingPlan(seed_node_set="user")

    assert rank_edges(make_tables(knows=edge_table("user", "user", [(0, 1)])), plan) == {}


def test_inductive_ranks_are_those_of_the_later_end():
    splits = SplitPlan(column="part", unused_values=("none",), visibility="inductive")
    plan = SamplingPlan(seed_node_set="user", splits=splits)
    tables = make_tables(
        ["train", "val", "test", "none"],
        knows=edge_table("user", "user", [(0, 0), (0, 1), (1, 0), (2, 1), (3, 2), (3, 0)]),
        buys=edge_table("user", "item", [(0, 0), (2, 1)]),
        sold=edge_table("item", "user", [(0, 1)]),
        alike=edge_table("item", "item", [(0, 1)]),
    )

    ranks = rank_edges(tables, plan)

    assert {name: values.tolist() for name, values in ranks.items()} == {
        "knows": [0, 2, 2, 4, 4, 0],
        "buys": [0, 4],
        "sold": [2],
    }


def test_links_are_ranked_by_time_on_both_sides():
    plan = SamplingPlan(
        seed_edge_set="buys",
        reverse_edge_sets=("sold",),
        hops=(Hop(edge_set="sold", fan_out=1, inputs=("target",)),),
        splits=BY_YEAR,
    )
    tables = make_tables(
        buys=edge_table("user", "item", [(0, 0), (1, 0), (2, 1)], years=[9, 10, 20]),
        sold=edge_table("item", "user", [(1, 2), (0, 0), (0, 1), (1, 3)], years=[99, 3, 19, 15]),
    )

    ranks = rank_edges(tables, plan)

    # (cup, dan) is no reverse of an edge; its own time counts.
    assert {name: values.tolist() for name, values in ranks.items()} == {"buys": [0, 3, 5], "sold": [5, 0, 3, 3]}


def test_edges_are_dated_by_their_own_feature_where_seeds_are_pairs_of_a_table():
    table = SeedTable(filename="seeds.csv", features={"asked": "int64"})
    hops = (Hop(edge_set="buys", fan_out=1, inputs=("source",)),)
    splits = SplitPlan(time_feature="asked", until={"train": 10, "test": None})
    temporal = Temporal(seed_time="asked", edge_times={"buys": "year"})
    plan = SamplingPlan(seed_edge_set="buys", seed_table=table, hops=hops, splits=splits, temporal=temporal)
    tables = make_tables(buys=edge_table("user", "item", [(0, 0), (1, 0)], years=[9, 10]))

    check_split_features(plan, SCHEMA)

    assert rank_edges(tables, plan)["buys"].tolist() == [0, 3]
    with pytest.raises(ValueError, match="got 'asked', which edge set 'buys' lacks"):
        check_split_features(dataclasses.replace(plan, temporal=None), SCHEMA)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_by_hash_a_reverse_edge_has_the_rank_of_its_edge(share):
    rng = np.random.default_rng(5)
    edges = rng.integers(0, [4, 2], (60, 2))
    plan = SamplingPlan(
        seed_edge_set="buys",
        reverse_edge_sets=("sold",),
        hops=(Hop(edge_set="sold", fan_out=1, inputs=("target",)),),
        splits=SplitPlan(weights={"train": 1, "val": 1}, disjoint_train_share=share, hash_seed=1),
    )
    tables = make_tables(
        buys=edge_table("user", "item", edges),
        sold=edge_table("item", "user", edges[::-1, ::-1]),
    )

    ranks = rank_edges(tables, plan)

    assert ranks["sold"].tolist() == ranks["buys"][::-1].tolist()
    assert set(ranks["buys"].tolist()) == ({0, 1, 3} if share else {0, 3})


def test_by_hash_both_directions_in_one_set_have_one_rank():
    pairs = [(source, target) for source in range(4) for target in range(4)]
    plan = SamplingPlan(
        seed_edge_set="knows",
        reverse_edge_sets=("knows",),
        splits=SplitPlan(weights={"train": 1, "val": 1}, disjoint_train_share=0.5),
    )

    ranks = rank_edges(make_tables(knows=edge_table("user", "user", pairs)), plan)["knows"]

    by_pair = dict(zip(pairs, ranks.tolist(), strict=True))
    assert all(by_pair[source, target] == by_pair[target, source] for source, target in pairs)
    assert len(set(by_pair.values())) > 1


REVERSED = SamplingPlan(
    seed_edge_set="buys",
    reverse_edge_sets=("sold",),
    hops=(Hop(edge_set="sold", fan_out=1, inputs=("target",)),),
    splits=BY_PART,
)


def test_a_reverse_edge_of_another_split_is_refused():
    tables = make_tables(
        buys=edge_table("user", "item", [(0, 0), (1, 1)], ["test", "train"]),
        sold=edge_table("item", "user", [(1, 1), (0, 0)], ["train", "train"]),
    )

    with pytest.raises(
        ValueError, match=r"an edge and its reverse the same split; got 'train' for row 1 .from 0. of item-user"
    ):
        rank_edges(tables, REVERSED)


def test_a_reverse_edge_agrees_with_one_of_several_forward_edges():
    tables = make_tables(
        buys=edge_table("user", "item", [(0, 0), (0, 0)], ["train", "test"]),
        sold=edge_table("item", "user", [(0, 0), (0, 0)], ["test", "train"]),
    )

    assert rank_edges(tables, REVERSED)["sold"].tolist() == [5, 0]


def test_both_directions_in_one_set_must_agree():
    plan = SamplingPlan(seed_edge_set="knows", reverse_edge_sets=("knows",), splits=BY_PART)
    agreeing = edge_table("user", "user", [(0, 1), (1, 0), (0, 1), (1, 0)], ["train", "train", "val", "val"])
    differing = edge_table("user", "user", [(0, 1), (1, 0), (2, 2)], ["train", "val", "test"])

    assert rank_edges(make_tables(knows=agreeing), plan)["knows"].tolist() == [0, 0, 3, 3]
    with pytest.raises(ValueError, match=r"got 'train' for row 0 .from 0. of user-user\.csv, one of 2"):
        rank_edges(make_tables(knows=differing), plan)


def test_an_edge_without_a_split_is_named_by_its_row():
    plan = SamplingPlan(seed_edge_set="knows", splits=BY_PART)
    table = edge_table("user", "user", [(0, 1), (1, 2)], ["train", "dev"])

    with pytest.raises(ValueError, match=r"got 'dev' in row 1 .from 0. of user-user\.csv"):
        rank_edges(make_tables(knows=table), plan)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            SamplingPlan(seed_edge_set="knows", splits=BY_YEAR),
            "got 'year', which edge set 'knows' lacks",
        ),
        (
            SamplingPlan(
                seed_edge_set="buys",
                reverse_edge_sets=("sold",),
                hops=(Hop(edge_set="sold", fan_out=1, inputs=("target",)),),
                splits=BY_YEAR,
            ),
            r"got 'year', which edge set 'sold' lacks; it has \['price'\]",
        ),
        (
            SamplingPlan(seed_node_set="item", splits=SplitPlan(time_feature="price", until={"train": None})),
            "must be one integer for each row; got 'price' of type float32 in node set 'item'",
        ),
        (
            SamplingPlan(seed_node_set="user", splits=BY_YEAR, seed_table=SeedTable(filename="seeds.csv")),
            "must be an int64 column of the seed table; got 'year', and the columns {}",
        ),
    ],
)
def test_a_time_that_is_not_known_is_refused(plan, message):
    with pytest.raises(ValueError, match=message):
        check_split_features(plan, SCHEMA)


@pytest.mark.parametrize(
    "plan",
    [
        SamplingPlan(seed_node_set="user", splits=BY_YEAR),
        SamplingPlan(seed_edge_set="buys", splits=BY_YEAR),
        SamplingPlan(
            seed_node_set="item",
            splits=BY_YEAR,
            seed_table=SeedTable(filename="seeds.csv", features={"year": "int64"}),
        ),
        SamplingPlan(seed_edge_set="knows"),
    ],
)
def test_a_time_that_is_known_passes(plan):
    check_split_features(plan, SCHEMA)


@pytest.mark.parametrize("splits", [SplitPlan(column="part"), SplitPlan(group_column="part")])
def test_tables_without_the_column_that_decides_are_refused(splits):
    table = NodeTable(path="users.csv", ids=pa.array(["a"], pa.large_string()), features={})
    plan = SamplingPlan(seed_node_set="user", splits=splits)

    with pytest.raises(ValueError, match=r"`extra_columns` must hold the column 'part', .* got \[\] of users.csv"):
        node_split_columns(plan, table)
