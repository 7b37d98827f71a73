import pytest

from tfx_gnn.io import options_json
from tfx_gnn.sampling.plan.split_plan import SplitPlan


def test_a_hash_decides_by_default_and_the_order_is_that_of_the_weights():
    plan = SplitPlan()

    assert plan.rule == "hash"
    assert plan.names == ("train", "val", "test")
    assert SplitPlan(weights={"b": 1, "a": 2}).names == ("b", "a")


def test_an_order_of_its_own_arranges_the_weights():
    plan = SplitPlan(weights={"b": 1, "a": 2}, order=("a", "b"))

    assert list(plan.weights.items()) == [("a", 2), ("b", 1)]


def test_time_bounds_are_brought_in_order():
    plan = SplitPlan(time_feature="year", until={"test": None, "val": 2020, "train": 2018})

    assert plan.rule == "time"
    assert plan.names == ("train", "val", "test")
    assert list(plan.until.items()) == [("train", 2018), ("val", 2020), ("test", None)]
    assert plan.weights == {}


def test_a_column_has_the_usual_splits_unless_others_are_named():
    assert SplitPlan(column="part").names == ("train", "val", "test")
    assert SplitPlan(column="part").may_be_missing
    assert SplitPlan(column="part", order=("old", "new")).names == ("old", "new")
    assert not SplitPlan(column="part", order=("old", "new")).may_be_missing


@pytest.mark.parametrize(
    "plan",
    [
        SplitPlan(weights={"z": 3, "a": 1}, group_column="family", hash_seed=7, visibility="inductive"),
        SplitPlan(column="part", order=("b", "a"), unused_values=("none", "")),
        SplitPlan(time_feature="year", until={"b": 5, "a": None}, allows_empty_splits=True),
        SplitPlan(disjoint_train_share=0.25),
    ],
)
def test_json_keeps_the_order_of_splits(plan):
    copy = options_json.from_json(options_json.to_json(plan), SplitPlan)

    assert copy == plan
    assert copy.names == plan.names
    assert list(copy.weights) == list(plan.weights)
    assert list(copy.until) == list(plan.until)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"column": "part", "time_feature": "year", "until": {"a": None}}, "`time_feature` must be empty"),
        ({"time_feature": "year"}, "`until` must have bounds if and only if"),
        ({"until": {"a": None}}, "`until` must have bounds if and only if"),
        ({"column": "part", "weights": {"train": 1}}, "`weights` must not be given when another rule decides"),
        (
            {"column": "part", "group_column": "family"},
            "`group_column` and `hash_seed` must go with a division by hash",
        ),
        ({"column": "part", "hash_seed": 1}, "`group_column` and `hash_seed` must go with a division by hash"),
        ({"unused_values": ("none",)}, "`unused_values` must be values of `column`"),
        ({"column": "part", "unused_values": ("val",)}, r"`unused_values` must not be splits; got \['val'\]"),
        ({"column": "part", "order": ("a", "a")}, "`order` must name each split once"),
        ({"column": "part", "order": ("a/b",)}, "`order` must name splits by letters"),
        ({"column": "part", "order": "ab"}, "`order` must be a tuple of strings; got 'ab'"),
        ({"weights": {"a": 1}, "order": ("a", "b")}, r"`order` must name each split once; got \('a', 'b'\)"),
        ({"weights": {}}, "`weights` must name at least one split; got none"),
        ({"weights": {"a/b": 1}}, "`weights` must name splits by letters, digits and '_.-'; got 'a/b'"),
        ({"weights": {"train": 0}}, "`weights` must be positive integers; got 0 for 'train'"),
        ({"weights": {"train": 0.8}}, "`weights` must be positive integers; got 0.8 for 'train'"),
        ({"weights": {"train": 2**31}}, "`weights` must sum to at most 2147483647"),
        ({"weights": {f"s{i}": 1 for i in range(61)}}, "`order` must have at most 60 splits; got 61"),
        ({"time_feature": "t", "until": {"a": 1.5}}, "`until` must hold integers, or None for no bound; got 1.5"),
        (
            {"time_feature": "t", "until": {"a": None, "b": None}},
            "`until` must leave at most one split without a bound",
        ),
        ({"time_feature": "t", "until": {"a": 1, "b": 1}}, "`until` must hold different bounds; got 1 for 'a' and 'b'"),
        ({"time_feature": "t", "until": {"": 1}}, "`until` must name splits by letters"),
        (
            {"time_feature": "t", "until": {"a": 1, "b": 2}, "order": ("b", "a")},
            "`order` must be that of the bounds in `until`",
        ),
        ({"visibility": "both"}, "`visibility` must be one of"),
        ({"disjoint_train_share": 1}, r"`disjoint_train_share` must be in \[0, 1\); got 1"),
        ({"disjoint_train_share": "half"}, r"`disjoint_train_share` must be in \[0, 1\); got 'half'"),
        ({"hash_seed": -1}, r"`hash_seed` must be in \[0, 2\*\*63\); got -1"),
    ],
)
def test_contradictions_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        SplitPlan(**fields)


def test_a_name_must_be_text():
    with pytest.raises(TypeError, match="`column` must be a name; got 3"):
        SplitPlan(column=3)
