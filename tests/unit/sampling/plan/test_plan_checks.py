import dataclasses

import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable
from tfx_gnn.sampling.plan.plan_checks import check_plan
from tfx_gnn.sampling.plan.split_plan import SplitPlan

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
        check_plan(plan, SCHEMA)


def test_structure_labels_do_not_take_the_name_of_a_column():
    schema = GraphSchema()
    schema.CopyFrom(SCHEMA)
    schema.node_sets["item"].features["structure_label"].dtype = 9
    plan = SamplingPlan(seed_edge_set="buys", structure_labels="drnl")

    with pytest.raises(ValueError, match=r"where a table has a feature 'structure_label', .* got it in \['item'\]"):
        check_plan(plan, schema)

    check_plan(SamplingPlan(seed_edge_set="buys"), schema)
    check_plan(dataclasses.replace(plan, excluded_features={"item": ("structure_label",)}), schema)


@pytest.mark.parametrize(
    "fields",
    [
        {"conditions": {"#id": 1.0}},
        {"same_feature": "#id"},
        {"distribution": "node_weight", "weight_feature": "#id"},
    ],
    ids=["conditions", "same_feature", "weight_feature"],
)
def test_an_id_is_no_feature_of_negatives(fields):
    schema = GraphSchema()
    schema.CopyFrom(SCHEMA)
    schema.node_sets["item"].features["#id"].dtype = 9
    plan = SamplingPlan(seed_edge_set="buys", negatives=Negatives(num_per_positive=1, **fields))

    with pytest.raises(ValueError, match=r"must be one of \['price'\] .*; got '#id'"):
        check_plan(plan, schema)


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
    check_plan(plan, SCHEMA)
