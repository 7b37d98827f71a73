"""Marks of features that hold indices of nodes, in a graph schema."""

import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.graph.schema.index_features import index_features, mark_index_features

TEXT = """
context { features { key: "root" value { dtype: DT_INT64 } } features { key: "heat" value { dtype: DT_FLOAT } } }
node_sets { key: "docs" value { features { key: "twin" value { dtype: DT_INT32 } } } }
node_sets { key: "authors" value {} }
edge_sets { key: "cites" value { source: "docs" target: "docs"
  features { key: "between" value { dtype: DT_INT64 shape { dim { size: 2 } } } }
  features { key: "path" value { dtype: DT_INT64 shape { dim { size: -1 } dim { size: 1 } } } } } }
"""
DECLARED = {
    "context": {"root": "docs"},
    "nodes/docs": {"twin": "docs"},
    "edges/cites": {"between": ("docs", "authors"), "path": ("authors",)},
}


@pytest.fixture
def schema():
    return tfx_gnn.parse_schema(TEXT)


def test_declared_features_are_read_back(schema):
    assert index_features(schema) == {}

    mark_index_features(schema, DECLARED)

    assert index_features(tfx_gnn.parse_schema(str(schema))) == DECLARED
    assert tfx_gnn.validate_schema(schema) == []


def test_last_mark_of_a_feature_counts_and_others_stay(schema):
    schema.context.metadata.extra.add(key="note", value="root")
    mark_index_features(schema, {"context": {"root": "docs"}})

    mark_index_features(schema, {"context": {"root": "authors"}})

    entries = [(entry.key, entry.value) for entry in schema.context.metadata.extra]
    assert entries == [("note", "root"), ("index_feature/root", "authors")]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"context": {"leaf": "docs"}}, r"got 'leaf' of 'context'.* and there \['heat', 'root'\]"),
        ({"nodes/papers": {"twin": "docs"}}, r"must name features of the graph schema.*'twin' of 'nodes/papers'"),
        ({"docs": {"twin": "docs"}}, "'context', 'nodes/<set>' or 'edges/<set>'; got 'twin' of 'docs'"),
        ({"context": {"heat": "docs"}}, "must hold int32 or int64; got float32 in index feature 'heat'"),
        ({"context": {"root": "papers"}}, r"must refer to node sets of the graph; got \['papers'\]"),
        ({"context": {"root": ()}}, r"must refer to node sets of the graph; got \[\]"),
        ({"edges/cites": {"between": ("docs",)}}, r"one node set for each column.* got \('docs',\).* of shape \[2\]"),
        ({"context": {"root": ("docs",)}}, r"items of shape \[\]. Name one set as a string"),
    ],
)
def test_what_cannot_hold_indices_is_refused(schema, features, message):
    before = str(schema)

    with pytest.raises(ValueError, match=message):
        mark_index_features(schema, features)
    assert str(schema) == before


def test_node_set_whose_name_the_mark_cannot_hold_is_refused(schema):
    schema.node_sets["a,b"].features["x"].dtype = tf.int64.as_datatype_enum

    with pytest.raises(ValueError, match=r"without a comma in their names; got \['a,b'\]"):
        mark_index_features(schema, {"context": {"root": "a,b"}})


def test_mark_that_does_not_fit_makes_a_schema_invalid(schema):
    schema.context.metadata.extra.add(key="index_feature/leaf", value="docs")

    with pytest.raises(tfx_gnn.ValidationError, match=r"marks features of indices wrongly: .* got 'leaf' of 'context'"):
        tfx_gnn.validate_schema(schema)


def test_two_marks_of_one_feature_make_a_schema_invalid(schema):
    for node_set in ("docs", "authors"):
        schema.context.metadata.extra.add(key="index_feature/root", value=node_set)

    with pytest.raises(tfx_gnn.ValidationError, match="mark each index feature once; got 'index_feature/root' again"):
        tfx_gnn.validate_schema(schema)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("root", "must give, by set and name of the feature, a node set or a tuple of them; got 'root'"),
        ({"context": "root"}, r"got \{'context': 'root'\}"),
        ({"context": {"root": None}}, "must name a node set, or a tuple .* got None for 'root' of 'context'"),
    ],
)
def test_declarations_of_another_form_are_refused(schema, features, message):
    with pytest.raises(TypeError, match=message):
        mark_index_features(schema, features)
