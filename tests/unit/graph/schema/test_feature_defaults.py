"""What a schema declares for missing values, in copies of it."""

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema.feature_defaults import (
    copy_all_feature_defaults,
    feature_defaults,
    remove_feature_defaults,
    time_features,
)
from tfx_gnn.graph.schema.schema_io import parse_schema

SCHEMA = """
context { features { key: "year" value { dtype: DT_INT64 } } metadata { extra { key: "default.year" value: "-1" } } }
node_sets { key: "user" value {
  features { key: "age.now" value { dtype: DT_INT64 } } features { key: "city" value { dtype: DT_STRING } }
  metadata { filename: "users.csv" extra { key: "default.age.now" value: "-8" } extra { key: "default.city" value: "" }
             extra { key: "id_column" value: "user" }
             extra { key: "unit.age.now" value: "seconds since 1970" } extra { key: "unit.city" value: "m" } } } }
"""


def test_a_copy_has_the_values_of_the_features_that_it_has():
    copy = GraphSchema()
    copy.node_sets["user"].features["age.now"].dtype = 9
    copy.node_sets["item"].features["city"].dtype = 7

    copy_all_feature_defaults(copy, parse_schema(SCHEMA))

    assert feature_defaults(copy.node_sets["user"]) == {"age.now": "-8"}
    assert time_features(copy.node_sets["user"]) == {"age.now"}
    assert not feature_defaults(copy.node_sets["item"])
    assert not feature_defaults(copy.context)


def test_only_these_entries_are_removed():
    schema = parse_schema(SCHEMA)

    remove_feature_defaults(schema)

    assert not feature_defaults(schema.context)
    assert [entry.key for entry in schema.node_sets["user"].metadata.extra] == ["id_column"]
    assert schema.node_sets["user"].metadata.filename == "users.csv"
