import pickle

import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.records.graph_layout import graph_layout, prefix_of_key, wire_dtype


def parse(text: str) -> graph_schema_pb2.GraphSchema:
    return text_format.Parse(text, graph_schema_pb2.GraphSchema())


SCHEMA = """
context { features { key: "year" value { dtype: DT_INT32 } } }
node_sets { key: "paper" value {
    features { key: "words" value { dtype: DT_STRING shape { dim { size: 2 } dim { size: -1 } dim { size: 3 } } } }
    features { key: "#id" value { dtype: DT_STRING } } } }
edge_sets { key: "cites" value { source: "paper" target: "paper" features { key: "w" value { dtype: DT_DOUBLE } } } }
"""


def test_keys_are_those_of_tf_gnn():
    layout = graph_layout(parse(SCHEMA))

    assert [one_set.prefix for one_set in layout.sets] == ["context", "nodes/paper", "edges/cites"]
    assert sorted(layout.set_of_key) == [
        "context/year",
        "edges/cites.#size",
        "edges/cites.#source",
        "edges/cites.#target",
        "edges/cites.w",
        "nodes/paper.#id",
        "nodes/paper.#size",
        "nodes/paper.words",
        "nodes/paper.words.d2",
    ]
    assert layout.set_of_key["nodes/paper.words.d2"].name == "paper"


def test_columns_have_the_dtype_and_shape_on_disk():
    layout = graph_layout(parse(SCHEMA))

    assert layout.features["context/year"].dtype == tf.int64
    assert layout.features["edges/cites.w"].dtype == tf.float32
    assert layout.features["nodes/paper.words"].shape == (2, None, 3)
    assert layout.features["nodes/paper.words"].row_length_keys == {1: "nodes/paper.words.d2"}
    assert layout.set_by_prefix["nodes/paper"].id_column == layout.features["nodes/paper.#id"]
    assert layout.set_by_prefix["edges/cites"].id_column is None


def test_a_layout_travels_to_workers():
    layout = graph_layout(parse(SCHEMA))

    assert pickle.loads(pickle.dumps(layout)) == layout


def test_a_key_belongs_to_the_set_of_its_prefix():
    layout = graph_layout(parse(SCHEMA))

    assert layout.owner_of("nodes/paper.new").name == "paper"
    assert layout.owner_of("context/new").set_type == "context"
    with pytest.raises(KeyError, match="nodes/author"):
        layout.owner_of("nodes/author.new")


def test_every_graph_has_a_context():
    layout = graph_layout(parse('node_sets { key: "paper" value {} }'))

    assert layout.owner_of("context/new").set_type == "context"


@pytest.mark.parametrize(
    ("key", "prefix"),
    [("context/a.b", "context"), ("nodes/a.x", "nodes/a"), ("nodes/a.b.x", "nodes/a.b"), ("nodes/c.x", None)],
)
def test_of_several_prefixes_the_longest_counts(key, prefix):
    assert prefix_of_key(key, ["nodes/a", "nodes/a.b"]) == prefix


@pytest.mark.parametrize(
    ("dtype", "wire"),
    [
        (tf.bool, tf.int64),
        (tf.uint8, tf.int64),
        (tf.bfloat16, tf.float32),
        (tf.float64, tf.float32),
        (tf.string, tf.string),
    ],
)
def test_values_are_held_in_one_of_three_dtypes(dtype, wire):
    assert wire_dtype(dtype) == wire


def test_complex_values_are_refused():
    with pytest.raises(ValueError, match="must be a bool, integer, float or string type; got complex64"):
        wire_dtype(tf.complex64)


def test_sets_whose_keys_could_be_confused_are_refused():
    schema = parse('node_sets { key: "a" value {} } node_sets { key: "a.b" value {} }')

    with pytest.raises(ValueError, match=r"got 'nodes/a' and 'nodes/a\.b'"):
        graph_layout(schema)


def test_a_feature_named_as_row_lengths_of_another_is_refused():
    schema = parse("""node_sets { key: "a" value {
        features { key: "x" value { dtype: DT_FLOAT shape { dim { size: -1 } } } }
        features { key: "x.d1" value { dtype: DT_INT64 } } } }""")

    with pytest.raises(ValueError, match=r"'nodes/a.x.d1'\] twice in node set 'a'"):
        graph_layout(schema)
