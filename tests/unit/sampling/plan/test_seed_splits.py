import numpy as np
import pyarrow as pa
import pytest

from tfx_gnn.sampling import random_choice
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable
from tfx_gnn.sampling.plan.seed_splits import (
    SplitColumns,
    edge_split_codes,
    node_split_codes,
    node_split_columns,
    pair_keys,
    supervision_only,
    tables_with_splits,
)
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.graph_tables import NodeTable

NUM = 20_000
CODES = random_choice.mix(np.arange(NUM, dtype=np.uint64))
OTHER_CODES = random_choice.mix(np.arange(NUM, 2 * NUM, dtype=np.uint64))
NOTHING = SplitColumns()
BY_PART = SplitPlan(column="part")


def test_shares_of_a_hash_are_those_of_the_weights():
    codes = node_split_codes(SplitPlan(), codes=CODES, columns=NOTHING)

    counts = np.bincount(codes, minlength=3)

    expected = NUM * np.array([0.8, 0.1, 0.1])
    # 13.8 is the 0.999 quantile of chi-square with two degrees of freedom.
    assert ((counts - expected) ** 2 / expected).sum() < 13.8


def test_a_node_keeps_its_split_when_others_come_and_go():
    splits = SplitPlan(weights={"a": 3, "b": 1})
    kept = np.arange(0, NUM, 7)

    some = node_split_codes(splits, codes=CODES[kept], columns=NOTHING)

    assert some.tolist() == node_split_codes(splits, codes=CODES, columns=NOTHING)[kept].tolist()


def test_scaled_weights_are_the_same_weights():
    scaled = SplitPlan(weights={"train": 80, "val": 10, "test": 10})

    codes = node_split_codes(scaled, codes=CODES, columns=NOTHING)

    assert codes.tolist() == node_split_codes(SplitPlan(), codes=CODES, columns=NOTHING).tolist()


def test_another_hash_seed_divides_independently():
    halves = SplitPlan(weights={"a": 1, "b": 1})

    first = node_split_codes(halves, codes=CODES, columns=NOTHING)
    second = node_split_codes(SplitPlan(weights={"a": 1, "b": 1}, hash_seed=1), codes=CODES, columns=NOTHING)

    # Standard deviation of the share of equal ones: 0.5 / sqrt(NUM) = 0.0035.
    assert (first == second).mean() == pytest.approx(0.5, abs=0.015)


def test_the_first_range_of_a_hash_is_worked_out_by_hand():
    splits = SplitPlan(weights={"a": 1, "b": 2, "c": 1}, hash_seed=5)

    codes = node_split_codes(splits, codes=CODES[:500], columns=NOTHING)

    def mix(value):
        value = (value + 0x9E3779B97F4A7C15) % 2**64
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        return value ^ value >> 31

    stream = mix(mix(5) ^ int.from_bytes(b"split", "big"))
    places = [4 * (mix(int(code) ^ stream) >> 32) >> 32 for code in CODES[:500]]
    assert codes.tolist() == [0 if place == 0 else 1 if place < 3 else 2 for place in places]


def test_a_pair_and_its_reverse_in_another_set_share_a_split():
    splits = SplitPlan()

    forward = edge_split_codes(splits, source_codes=CODES, target_codes=OTHER_CODES, columns=NOTHING)
    reverse = edge_split_codes(splits, source_codes=OTHER_CODES, target_codes=CODES, columns=NOTHING, is_reverse=True)
    unrelated = edge_split_codes(splits, source_codes=OTHER_CODES, target_codes=CODES, columns=NOTHING)

    assert forward.tolist() == reverse.tolist()
    assert forward.tolist() != unrelated.tolist()


def test_a_pair_and_its_reverse_in_one_set_share_a_split():
    splits = SplitPlan()
    ends = {"source_codes": CODES, "target_codes": OTHER_CODES}
    swapped = {"source_codes": OTHER_CODES, "target_codes": CODES}

    forward = edge_split_codes(splits, **ends, columns=NOTHING, is_symmetric=True)

    assert forward.tolist() == edge_split_codes(splits, **swapped, columns=NOTHING, is_symmetric=True).tolist()
    assert np.array_equal(
        edge_split_codes(splits, **swapped, columns=NOTHING, is_symmetric=True, is_reverse=True), forward
    )


def test_a_pair_of_equal_nodes_has_a_key_of_its_own():
    keys = pair_keys(CODES, CODES)

    assert len(np.unique(keys)) == NUM
    assert not np.isin(keys, pair_keys(CODES, OTHER_CODES)).any()


def test_a_column_names_splits_in_the_plans_order():
    splits = SplitPlan(column="part", unused_values=("none",))
    columns = SplitColumns(names=pa.array(["val", "train", "none", "test"]))

    assert node_split_codes(splits, codes=CODES[:4], columns=columns).tolist() == [1, 0, -1, 2]


def test_integers_may_name_splits():
    splits = SplitPlan(column="fold", order=("0", "1"))

    codes = node_split_codes(splits, codes=CODES[:3], columns=SplitColumns(names=pa.array([1, 0, 1])))

    assert codes.tolist() == [1, 0, 1]


def test_time_bounds_are_exclusive():
    splits = SplitPlan(time_feature="year", until={"train": 10, "val": 20, "test": None})
    columns = SplitColumns(times=np.array([-5, 9, 10, 19, 20, 10**15]))

    assert node_split_codes(splits, codes=CODES[:6], columns=columns).tolist() == [0, 0, 1, 1, 2, 2]


def test_a_group_shares_a_split():
    splits = SplitPlan(group_column="family")
    families = pa.array([f"family-{i % 50}" for i in range(NUM)])

    codes = node_split_codes(splits, codes=CODES, columns=SplitColumns(groups=families))

    assert codes.tolist() == np.tile(codes[:50], NUM // 50).tolist()
    assert set(codes.tolist()) == {0, 1, 2}


def test_integer_groups_are_hashed_as_they_are_written():
    splits = SplitPlan(group_column="family")
    families = pa.array(np.arange(NUM) % 50)

    codes = node_split_codes(splits, codes=CODES, columns=SplitColumns(groups=families))

    as_text = SplitColumns(groups=families.cast(pa.string()))
    assert codes.tolist() == node_split_codes(splits, codes=CODES, columns=as_text).tolist()


def test_a_share_of_edges_is_supervision_only_whatever_their_split():
    splits = SplitPlan(disjoint_train_share=0.3)

    chosen = supervision_only(splits, CODES)

    # Standard deviation: sqrt(0.3 * 0.7 / NUM) = 0.0032.
    assert chosen.mean() == pytest.approx(0.3, abs=0.0105)
    train = node_split_codes(splits, codes=CODES, columns=NOTHING) == 0
    assert chosen[train].mean() == pytest.approx(0.3, abs=0.012)
    assert not supervision_only(SplitPlan(), CODES).any()


@pytest.mark.parametrize(
    ("splits", "columns", "message"),
    [
        (
            SplitPlan(column="part"),
            SplitColumns(names=pa.array(["train", "dev"]), place_of="users.csv, line {}".format),
            r"`part` must name one of the splits \['train', 'val', 'test'\]; got 'dev' in users.csv, line 1",
        ),
        (
            SplitPlan(column="part"),
            SplitColumns(names=pa.array(["train", None], pa.string())),
            "`part` must have a value in every row; got none in row 1, one of 1",
        ),
        (
            SplitPlan(group_column="family"),
            SplitColumns(groups=pa.array([None, "x"])),
            "`family` must have a value in every row; got none in row 0",
        ),
        (
            SplitPlan(time_feature="year", until={"a": 5, "b": 9}),
            SplitColumns(times=np.array([8, 9])),
            "`year` must lie before the last bound of `until`, 9; got 9 in row 1, one of 1",
        ),
        (SplitPlan(column="part"), NOTHING, "`columns` must hold the values of 'part'; got none"),
    ],
)
def test_a_seed_without_a_split_is_named(splits, columns, message):
    with pytest.raises(ValueError, match=message):
        node_split_codes(splits, codes=CODES[:2], columns=columns)


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


@pytest.mark.parametrize("splits", [SplitPlan(column="part"), SplitPlan(group_column="part")])
def test_tables_without_the_column_that_decides_are_refused(splits):
    table = NodeTable(path="users.csv", ids=pa.array(["a"], pa.large_string()), features={})
    plan = SamplingPlan(seed_node_set="user", splits=splits)

    with pytest.raises(ValueError, match=r"`extra_columns` must hold the column 'part', .* got \[\] of users.csv"):
        node_split_columns(plan, table)
