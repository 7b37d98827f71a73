import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import schema_utils

from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.records.tfmd_schema import make_tfmd_schema, read_tfmd_schema, write_tfmd_schema


def layout_of(features: str):
    schema = text_format.Parse(f'node_sets {{ key: "a" value {{ {features} }} }}', graph_schema_pb2.GraphSchema())
    return graph_layout(schema)


SCALAR = 'features { key: "x" value { dtype: DT_FLOAT } }'
RAGGED = 'features { key: "w" value { dtype: DT_STRING shape { dim { size: 2 } dim { size: -1 } dim { size: 3 } } } }'


def test_each_feature_is_ragged_over_the_items():
    spec = schema_utils.schema_as_feature_spec(make_tfmd_schema(layout_of(SCALAR + RAGGED))).feature_spec

    assert set(spec) == {"nodes/a.#size", "nodes/a.x", "nodes/a.w"}
    assert spec["nodes/a.x"].dtype == tf.float32
    assert list(spec["nodes/a.x"].partitions) == []
    assert list(spec["nodes/a.w"].partitions) == [
        tf.io.RaggedFeature.UniformRowLength(2),
        tf.io.RaggedFeature.RowLengths("nodes/a.w.d2"),
        tf.io.RaggedFeature.UniformRowLength(3),
    ]


def test_keys_of_every_example_are_required():
    schema = make_tfmd_schema(layout_of(SCALAR), {"nodes/a.#size": 1.0, "nodes/a.x": 0.5})

    required = {feature.name: feature.presence.min_fraction for feature in schema.feature}
    assert required == {"nodes/a.#size": 1.0, "nodes/a.x": 0.0}


def test_size_is_one_number():
    (size,) = (one for one in make_tfmd_schema(layout_of("")).feature)

    assert size == schema_pb2.Feature(
        name="nodes/a.#size", type=schema_pb2.INT, value_count=schema_pb2.ValueCount(min=1, max=1)
    )


def test_a_written_schema_is_read_back(tmp_path):
    schema = make_tfmd_schema(layout_of(SCALAR + RAGGED))

    write_tfmd_schema(schema, str(tmp_path))

    assert read_tfmd_schema(str(tmp_path)) == schema


def test_a_dimension_of_size_zero_is_refused():
    features = 'features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 0 } } } }'

    with pytest.raises(ValueError, match=r"no dimension of size 0; got \(0,\) for 'nodes/a.x'"):
        make_tfmd_schema(layout_of(features))
