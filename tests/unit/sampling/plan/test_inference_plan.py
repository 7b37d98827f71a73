from __future__ import annotations

import dataclasses

import pytest
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.inference_plan import ALL_SPLIT, inputs_of_request, plan_for_inference, plan_of_ids
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable, Temporal
from tfx_gnn.sampling.plan.split_plan import SplitPlan

HOPS = (Hop(edge_set="buys", fan_out=2),)
NODES = SamplingPlan(
    seed_node_set="user",
    hops=HOPS,
    label_features=("color",),
    excluded_features={"user": ("age",), "item": ("price",)},
    splits=SplitPlan(column="split", visibility="inductive"),
)
LINKS = SamplingPlan(
    seed_edge_set="buys",
    hops=(Hop(edge_set="buys", fan_out=2, inputs=("source",)),),
    negatives=Negatives(num_per_positive=2),
)


def test_every_node_is_a_seed_in_one_split_and_its_label_is_no_feature():
    plan = plan_for_inference(NODES)

    # Edges are chosen as in the last split of the training, which sees all nodes, too.
    assert plan.splits == SplitPlan(weights={ALL_SPLIT: 1}, visibility="inductive")
    assert plan.label_features == ()
    assert plan.excluded_features == {"user": ("age", "color"), "item": ("price",)}
    assert (plan.seed_node_set, plan.hops, plan.seed_table) == ("user", NODES.hops, None)


def test_table_of_ids_names_the_seeds():
    assert plan_for_inference(NODES, ids="ids.csv").seed_table == SeedTable(filename="ids.csv")


def test_table_of_a_temporal_plan_has_the_time_of_each_seed():
    temporal = Temporal(seed_time="asked_at", edge_times={"buys": "bought_at"})

    plan = plan_for_inference(dataclasses.replace(NODES, temporal=temporal), ids="ids.csv")

    assert plan.seed_table == SeedTable(filename="ids.csv", features={"asked_at": "int64"})
    assert plan.temporal == temporal


def test_table_of_pairs_needs_no_negatives():
    plan = plan_for_inference(LINKS, ids="pairs.csv")

    assert (plan.negatives, plan.seed_edge_set) == (None, "buys")
    # Edges are chosen as if later splits could hide some, but all are in one split.
    assert plan.seed_table == SeedTable(filename="pairs.csv")
    assert plan.splits == SplitPlan(weights={ALL_SPLIT: 1})
    of_training_edges = dataclasses.replace(LINKS, seed_table=SeedTable(filename="train.csv", splits_edges=False))
    assert not plan_for_inference(of_training_edges, ids="pairs.csv").seed_table.splits_edges


def test_what_training_leaves_out_of_seed_edges_and_their_reverses_stays_out():
    schema = GraphSchema()
    for name, features in {"buys": ("weight", "part"), "bought": ("weight",)}.items():
        for feature in features:
            schema.edge_sets[name].features[feature].dtype = tf.float32.as_datatype_enum
    plan = SamplingPlan(
        seed_edge_set="buys",
        hops=(
            Hop(edge_set="buys", fan_out=2, inputs=("source",)),
            Hop(edge_set="bought", fan_out=2, inputs=("target",)),
        ),
        label_features=("weight",),
        reverse_edge_sets=("bought",),
        splits=SplitPlan(column="part"),
    )

    assert plan_for_inference(plan, ids="pairs.csv").excluded_features == {"buys": ("weight",)}
    assert plan_for_inference(plan, ids="pairs.csv", schema=schema).excluded_features == {
        "buys": ("part", "weight"),
        "bought": ("weight",),
    }


def test_what_a_seed_table_has_stays_but_for_labels():
    table = SeedTable(
        filename="train.csv", features={"time": "int64", "won": "int64"}, identity_features=("time", "won")
    )
    plan = SamplingPlan(seed_node_set="user", hops=HOPS, label_features=("won",), seed_table=table)

    found = plan_for_inference(plan, ids="today.csv")

    assert found.seed_table == SeedTable(filename="today.csv", features={"time": "int64"}, identity_features=("time",))
    assert found.excluded_features == {}


def test_inputs_stay_and_a_request_names_them_beside_its_id():
    table = SeedTable(
        filename="train.csv",
        features={"day": "int64", "won": "int64", "shop": "string"},
        input_features=("shop", "day"),
        now_feature="day",
    )
    temporal = Temporal(seed_time="day", edge_times={"buys": "at"})
    plan = SamplingPlan(seed_node_set="user", hops=HOPS, label_features=("won",), seed_table=table, temporal=temporal)
    without_inputs = dataclasses.replace(plan, seed_table=dataclasses.replace(table, input_features=(), now_feature=""))

    found = plan_of_ids(plan)

    assert found.seed_inputs == inputs_of_request(found) == ("shop", "day")
    assert (found.seed_table.now_feature, found.label_features) == ("day", ())
    assert "won" not in found.seed_table_features
    assert inputs_of_request(plan_of_ids(without_inputs)) == ("day",)
    assert inputs_of_request(plan_of_ids(NODES)) == ()


def test_pairs_of_a_table_are_asked_as_of_a_time():
    table = SeedTable(
        filename="train.csv",
        features={"day": "int64"},
        splits_edges=False,
        is_forecast=True,
        input_features=("day",),
        now_feature="day",
    )
    temporal = Temporal(seed_time="day", edge_times={"buys": "at"})

    found = plan_of_ids(dataclasses.replace(LINKS, seed_table=table, temporal=temporal))

    assert inputs_of_request(found) == ("day",)
    assert (found.seed_table.is_forecast, found.negatives) == (True, None)
    with pytest.raises(ValueError, match=r"got \['day'\] of the seed edges. Send examples"):
        plan_of_ids(dataclasses.replace(LINKS, temporal=temporal))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (LINKS, "`ids` must name a table of the seeds to ask about, .*; got none for 'buys'"),
        (
            SamplingPlan(seed_node_set="user", hops=HOPS, seed_table=SeedTable(filename="train.csv")),
            "got none for 'user'. Give a table of pairs, or of the ids",
        ),
        (
            SamplingPlan(seed_edge_set="buys", hops=LINKS.hops, keeps_seed_edge=True),
            "`plan` must not keep its seed edges",
        ),
    ],
)
def test_plans_without_known_seeds_are_refused(plan, message):
    with pytest.raises(ValueError, match=message):
        plan_for_inference(plan)
