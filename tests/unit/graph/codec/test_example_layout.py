import pytest
import tensorflow as tf

from tfx_gnn.graph.codec.example_layout import get_io_spec
from tfx_gnn.graph.tensor.adjacency import AdjacencySpec
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import ContextSpec, EdgeSetSpec, NodeSetSpec

RowLengths = tf.io.RaggedFeature.RowLengths
UniformRowLength = tf.io.RaggedFeature.UniformRowLength


def node_features(**features):
    node_set = NodeSetSpec.from_field_specs(features_spec=features, sizes_spec=tf.TensorSpec([1], tf.int32))
    return GraphTensorSpec.from_piece_specs(node_sets_spec={"a": node_set})


def test_sizes_and_indices_are_described():
    spec = GraphTensorSpec.from_piece_specs(
        ContextSpec.from_field_specs(features_spec={"y": tf.TensorSpec([2, 3])}),
        {"a": NodeSetSpec.from_field_specs(sizes_spec=tf.TensorSpec([2], tf.int32))},
        {
            "e": EdgeSetSpec.from_field_specs(
                sizes_spec=tf.TensorSpec([2], tf.int32),
                adjacency_spec=AdjacencySpec.from_incident_node_sets("a", "a"),
            )
        },
    )

    features = get_io_spec(spec, prefix="p/")

    assert features["p/context/y"] == tf.io.FixedLenFeature(tf.TensorShape([2, 3]), tf.float32)
    assert features["p/nodes/a.#size"].shape == [2]
    assert features["p/nodes/a.#size"].default_value.numpy().tolist() == [0, 0]
    assert features["p/edges/e.#source"].dtype == tf.int64
    assert features["p/edges/e.#target"].partitions == ()
    assert set(features) == {
        "p/context/y",
        "p/nodes/a.#size",
        "p/edges/e.#size",
        "p/edges/e.#source",
        "p/edges/e.#target",
    }


@pytest.mark.parametrize(
    ("spec", "partitions"),
    [
        (tf.TensorSpec([None]), ()),
        (tf.TensorSpec([None, 2, 3]), (UniformRowLength(2), UniformRowLength(3))),
        (tf.RaggedTensorSpec([None, None]), (RowLengths("nodes/a.x.d1"),)),
        (tf.RaggedTensorSpec([None, 4, None]), (UniformRowLength(4), RowLengths("nodes/a.x.d2"))),
        (tf.RaggedTensorSpec([None, None, 4], ragged_rank=1), (RowLengths("nodes/a.x.d1"), UniformRowLength(4))),
    ],
)
def test_dimensions_become_partitions(spec, partitions):
    feature = get_io_spec(node_features(x=spec))["nodes/a.x"]

    assert tuple(feature.partitions) == partitions
    assert feature.value_key == "nodes/a.x"
    assert feature.row_splits_dtype == (tf.int64 if isinstance(spec, tf.RaggedTensorSpec) else tf.int32)
    assert feature.validate


@pytest.mark.parametrize(
    ("dtype", "stored"), [(tf.bool, tf.int64), (tf.uint8, tf.int64), (tf.float64, tf.float32), (tf.string, tf.string)]
)
def test_stored_dtypes_are_those_of_examples(dtype, stored):
    assert get_io_spec(node_features(x=tf.TensorSpec([None], dtype)))["nodes/a.x"].dtype == stored


def test_checks_of_row_lengths_can_be_left_out():
    assert not get_io_spec(node_features(x=tf.TensorSpec([None])), validate=False)["nodes/a.x"].validate


def test_dimensions_without_a_size_are_refused():
    with pytest.raises(ValueError, match=r"got shape=\(5, None\) of 'nodes/a.x'"):
        get_io_spec(node_features(x=tf.TensorSpec([5, None])))


def test_what_it_describes_is_read_by_tensorflow():
    example = tf.train.Example()
    example.features.feature["nodes/a.#size"].int64_list.value.append(2)
    example.features.feature["nodes/a.x"].float_list.value.extend([1.0, 2.0, 3.0])
    example.features.feature["nodes/a.x.d1"].int64_list.value.extend([1, 2])

    features = get_io_spec(node_features(x=tf.RaggedTensorSpec([None, None])))
    parsed = tf.io.parse_single_example(example.SerializeToString(), features)

    assert parsed["nodes/a.x"].to_list() == [[1.0], [2.0, 3.0]]
