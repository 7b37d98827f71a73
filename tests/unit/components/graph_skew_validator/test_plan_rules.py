"""Plans whose examples a server samples by ids, and plans whose examples it does not."""

from __future__ import annotations

import dataclasses

import pytest

from tfx_gnn.components.graph_skew_validator.plan_rules import (
    hides_from_split,
    objection_to_ids,
    objection_to_plan,
)
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable, Temporal
from tfx_gnn.sampling.plan.split_plan import SplitPlan

ALL = ("train", "val", "test")


def nodes(**fields):
    return SamplingPlan(seed_node_set="paper", hops=(Hop(edge_set="cites", fan_out=2),), **fields)


def links(hop_over="cites", **fields):
    hops = (Hop(edge_set=hop_over, fan_out=2, inputs=("source",)),)
    return SamplingPlan(seed_edge_set="cites", hops=hops, **fields)


INDUCTIVE = SplitPlan(visibility="inductive")
PAIRS = SeedTable(filename="pairs.csv", splits_edges=False)
TIMED = SeedTable(filename="days.csv", features={"day": "int64"}, input_features=("day",))


@pytest.mark.parametrize(
    ("plan", "present", "hiding"),
    [
        (nodes(), ALL, []),
        (nodes(splits=INDUCTIVE), ALL, ["train", "val"]),
        (nodes(splits=SplitPlan(column="part", visibility="inductive")), ("train", "val"), ["train"]),
        (nodes(splits=SplitPlan(column="part", order=ALL, visibility="inductive")), ("train", "val"), ["train", "val"]),
        (
            nodes(splits=SplitPlan(column="part", visibility="inductive"), seed_table=SeedTable(filename="seeds.csv")),
            ("train", "val"),
            ["train", "val"],
        ),
        (links(), ALL, ["train", "val", "test"]),
        (links("writes"), ALL, []),
        (links("writes", reverse_edge_sets=("writes",)), ALL, ["train", "val", "test"]),
        (links(seed_table=PAIRS), ALL, []),
        (links(seed_table=SeedTable(filename="pairs.csv")), ALL, ["train", "val", "test"]),
        (links(splits=SplitPlan(weights={"train": 1})), ALL, []),
        (links(splits=SplitPlan(weights={"train": 1}, disjoint_train_share=0.5)), ALL, ["train"]),
    ],
)
def test_splits_that_may_not_see_the_whole_graph_are_found(plan, present, hiding):
    # Examples of every node, or of a table of ids, are in a split of their own, and see all.
    assert [split for split in (*present, "all") if hides_from_split(plan, split, present)] == hiding


@pytest.mark.parametrize(
    ("plan", "objection"),
    [
        (nodes(), ""),
        (nodes(splits=INDUCTIVE), ""),
        (links("writes"), ""),
        (links("writes", negatives=Negatives(num_per_positive=1, own_subgraphs=True)), ""),
        (links("writes", negatives=Negatives(num_per_positive=1)), "An example holds the negatives of its pair"),
        (links(), "Subgraphs of each split that is compared lack"),
        (links("writes", keeps_seed_edge=True), "`plan` must not keep its seed edges"),
        (
            links("writes", temporal=Temporal(seed_time="year", edge_times={"writes": "year"})),
            "`plan` must have pairs as seeds of which the graph tells all but their ids",
        ),
        (nodes(seed_table=TIMED, temporal=Temporal(seed_time="day", edge_times={"writes": "year"})), ""),
        (
            nodes(
                seed_table=dataclasses.replace(TIMED, input_features=()),
                temporal=Temporal(seed_time="day", edge_times={"writes": "year"}),
            ),
            "Examples lack ['day'] of their seeds",
        ),
    ],
)
def test_plans_without_comparable_examples_are_found(plan, objection):
    found = objection_to_plan(plan)

    assert found.startswith(objection)
    assert bool(found) is bool(objection)
    assert objection_to_ids(plan) == (found if found.startswith(("`plan`", "Examples lack")) else "")


@pytest.mark.parametrize(
    ("plan", "splits", "is_refused"),
    [
        (nodes(splits=INDUCTIVE), ("train", "val"), True),
        (nodes(splits=INDUCTIVE), ("train", "test"), False),
        (nodes(splits=SplitPlan(column="part", order=ALL, visibility="inductive")), ("val",), True),
        # It may be that no row is of the split `test`.
        (nodes(splits=SplitPlan(column="part", visibility="inductive")), ("val",), False),
        (nodes(), ("train",), False),
    ],
)
def test_only_splits_that_are_compared_count(plan, splits, is_refused):
    assert bool(objection_to_plan(plan, splits)) is is_refused
