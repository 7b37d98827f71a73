import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.plan import edge_ranks
from tfx_gnn.sampling.plan.edge_ranks import rank_edges
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable, Temporal
from tfx_gnn.sampling.plan.plan_checks import check_plan
from tfx_gnn.sampling.plan.split_plan import SplitPlan
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


def test_edges_are_hidden_from_their_own_split_and_earlier_ones():
    codes = np.array([0, 0, 1, 2, -1, -1], np.int16)
    supervision_only = np.array([False, True, True, False, True, False])

    ranks = edge_ranks.link_edge_ranks(codes, supervision_only)

    assert ranks.dtype == np.int8
    assert ranks.tolist() == [0, 1, 3, 5, 0, 0]
    visible = {split: (ranks <= edge_ranks.rank_limit(split)).tolist() for split in range(3)}
    assert visible == {
        0: [True, False, False, False, True, True],
        1: [True, True, False, False, True, True],
        2: [True, True, True, False, True, True],
    }


def test_nodes_are_hidden_from_earlier_splits_only():
    ranks = edge_ranks.node_ranks(np.array([0, 1, 2, -1], np.int16))

    assert ranks.tolist() == [0, 2, 4, 0]
    assert (ranks <= edge_ranks.rank_limit(1)).tolist() == [True, True, False, True]


@pytest.mark.parametrize(
    ("sources", "targets", "ranks"),
    [([0, 2, 4], [2, 0, 2], [2, 2, 4]), ([0, 2, 4], None, [0, 2, 4]), (None, [4, 0, 0], [4, 0, 0])],
)
def test_an_edge_shows_both_of_its_nodes(sources, targets, ranks):
    as_ranks = [None if values is None else np.array(values, np.int8) for values in (sources, targets)]

    assert edge_ranks.inductive_edge_ranks(*as_ranks).tolist() == ranks


def test_edges_between_other_nodes_have_no_ranks():
    assert edge_ranks.inductive_edge_ranks(None, None) is None


def test_ranks_of_sixty_splits_fit():
    assert edge_ranks.link_edge_ranks(np.array([59], np.int16), np.array([False])).tolist() == [119]


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

    check_plan(plan, SCHEMA)

    assert rank_edges(tables, plan)["buys"].tolist() == [0, 3]
    with pytest.raises(ValueError, match="got 'asked', which edge set 'buys' lacks"):
        check_plan(dataclasses.replace(plan, temporal=None), SCHEMA)


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
