from pathlib import Path

import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema import schema_io as graph_schema
from tfx_gnn.graph.schema.feature_defaults import feature_defaults
from tfx_gnn.graph.schema.index_features import mark_index_features
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.sampling.plan.subgraph_schema import make_subgraph_schema


def _tables_schema(shop_dir):
    return graph_schema.read_schema(str(Path(shop_dir) / "graph_schema.pbtxt"))


def test_the_schema_holds_what_the_plan_reaches_with_labels_moved_to_the_readout(shop_dir):
    plan = SamplingPlan(
        seed_node_set="user",
        hops=(Hop(edge_set="buys", fan_out=1),),
        label_features=("color",),
        splits=SplitPlan(column="part"),
    )

    schema = make_subgraph_schema(_tables_schema(shop_dir), plan)

    expected = """
        node_sets { key: "user" value {
          features { key: "#id" value { dtype: DT_STRING } } features { key: "age" value { dtype: DT_INT64 } } } }
        node_sets { key: "item" value {
          features { key: "#id" value { dtype: DT_INT64 } } features { key: "price" value { dtype: DT_FLOAT } } } }
        node_sets { key: "_readout" value {
          description: "One node for the seed of each subgraph, with its labels."
          features { key: "color" value { dtype: DT_STRING } } } }
        edge_sets { key: "buys" value { source: "user" target: "item"
          features { key: "#id" value { description: "Row of the edge in its table, from 0." dtype: DT_INT64 } }
          features { key: "count" value { dtype: DT_INT32 } } } }
        edge_sets { key: "_readout/seed" value { source: "user" target: "_readout" } }
        info { graph_type: SUBGRAPH root_set: "user" }
    """
    assert schema == text_format.Parse(expected, GraphSchema())


def test_excluded_features_and_a_declared_split_column_are_left_out(shop_dir):
    plan = SamplingPlan(
        seed_node_set="user",
        hops=(Hop(edge_set="buys", fan_out=1),),
        splits=SplitPlan(column="color"),
        excluded_features={"user": ("age",), "buys": ("count",)},
    )

    schema = make_subgraph_schema(_tables_schema(shop_dir), plan)

    assert list(schema.node_sets["user"].features) == ["#id"]
    assert list(schema.edge_sets["buys"].features) == ["#id"]
    assert not schema.node_sets["_readout"].features


def test_what_stands_for_missing_values_is_kept_for_features_that_are(shop_dir):
    tables_schema = _tables_schema(shop_dir)
    for name in ("age", "color"):
        tables_schema.node_sets["user"].metadata.extra.add(key=f"default.{name}", value="7")

    schema = make_subgraph_schema(tables_schema, SamplingPlan(seed_node_set="user", label_features=("color",)))

    assert feature_defaults(schema.node_sets["user"]) == {"age": "7"}
    assert not schema.node_sets["user"].metadata.filename


def test_descriptions_are_kept_and_columns_forgotten(shop_dir):
    tables_schema = _tables_schema(shop_dir)
    tables_schema.node_sets["user"].description = "People."
    tables_schema.node_sets["user"].features["age"].description = "In years."
    tables_schema.node_sets["user"].features["age"].source = "years"

    schema = make_subgraph_schema(tables_schema, SamplingPlan(seed_node_set="user"))

    assert schema.node_sets["user"].description == "People."
    assert schema.node_sets["user"].features["age"].description == "In years."
    assert not schema.node_sets["user"].features["age"].HasField("source")


def test_names_of_auxiliary_sets_are_refused_for_tables(shop_dir):
    tables_schema = _tables_schema(shop_dir)
    tables_schema.node_sets["_readout"].metadata.filename = "readout.csv"

    with pytest.raises(ValueError, match="must not name a table with a leading underscore; got '_readout'"):
        make_subgraph_schema(tables_schema, SamplingPlan(seed_node_set="user"))


def test_a_description_of_the_readout_is_passed_over(shop_dir):
    plain, described = _tables_schema(shop_dir), _tables_schema(shop_dir)
    described.node_sets["_readout"].features["label"].dtype = 1  # DT_FLOAT
    described.edge_sets["_readout/source"].source = "user"
    described.edge_sets["_readout/source"].target = "_readout"
    plan = SamplingPlan(seed_node_set="user", label_features=("color",))

    assert make_subgraph_schema(described, plan) == make_subgraph_schema(plain, plan)


def test_indices_of_nodes_that_a_subgraph_may_lack_are_refused(shop_dir):
    tables_schema = _tables_schema(shop_dir)
    mark_index_features(tables_schema, {"nodes/user": {"age": "user"}})
    plan = SamplingPlan(seed_node_set="user", hops=(Hop(edge_set="buys", fan_out=1),))

    with pytest.raises(ValueError, match=r"must not mark features as indices of nodes for sampled .* got .*age"):
        make_subgraph_schema(tables_schema, plan)
