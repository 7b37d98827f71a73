"""TF-GNN's input pipeline guide, "File input and parsing"."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

import tfx_gnn as tfgnn


def test_graphs_are_read_from_files_by_their_schema(my_graph, capsys):
    tmp = my_graph(3)

    dataset = tf.data.TFRecordDataset(filenames=[f"{tmp}/data.tfrecord"])
    graph_schema = tfgnn.read_schema(f"{tmp}/graph_schema.pbtxt")
    graph_tensor_spec = tfgnn.create_graph_spec_from_schema_pb(graph_schema)
    dataset = dataset.map(lambda serialized: tfgnn.parse_single_example(graph_tensor_spec, serialized))

    for i, graph in enumerate(dataset.take(3)):
        print(f"Input {i}: {graph}")  # noqa: T201

    printed = capsys.readouterr().out
    assert printed.count("Input ") == 3
    assert all(name in printed for name in ("docs", "authors", "cites", "writes", "_readout/seed"))
    assert [graph.node_sets["docs"].sizes.numpy().tolist() for graph in dataset] == [[4], [5], [6]]
    assert all(graph_tensor_spec.is_compatible_with(graph) for graph in dataset)


def test_one_example_gives_a_scalar_graph_and_many_give_a_batch(my_graph, data):
    """The spec comes first; each element of the batch conforms to it."""
    spec = tfgnn.create_graph_spec_from_schema_pb(tfgnn.read_schema(f"{my_graph()}/graph_schema.pbtxt"))
    serialized = tf.constant([data.record(0), data.record(1)])

    single = tfgnn.parse_single_example(spec, serialized[0])
    batch = tfgnn.parse_example(spec, serialized)

    assert (single.shape.as_list(), batch.shape.as_list()) == ([], [2])
    for i, graph in enumerate(tf.data.Dataset.from_tensors(batch).unbatch()):
        assert spec.is_compatible_with(graph)
        assert tfgnn.write_example(graph) == tf.train.Example.FromString(data.record(i))


def test_a_schema_is_written_beside_the_data_and_read_back(tmp_path, data):
    schema = tfgnn.parse_schema(data.schema_text())

    (tmp_path / "graph_schema.pbtxt").write_text(text_format.MessageToString(schema))

    again = tfgnn.read_schema(str(tmp_path / "graph_schema.pbtxt"))
    spec = tfgnn.create_graph_spec_from_schema_pb(again)
    assert again == schema
    assert sorted(spec.node_sets_spec) == ["_readout", "authors", "docs"]
    assert spec.node_sets_spec["docs"]["x"] == tf.TensorSpec([None, 2], tf.float32)
    assert spec.node_sets_spec["docs"]["words"] == tf.RaggedTensorSpec([None, None], tf.string, 1, tf.int64)
    assert spec.edge_sets_spec["writes"].adjacency_spec.source_name == "authors"


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        *((dtype, [1, 2]) for dtype in (tf.int8, tf.int16, tf.int32, tf.int64)),
        *((dtype, [1, 2]) for dtype in (tf.uint8, tf.uint16, tf.uint32, tf.uint64)),
        *((dtype, [0.5, 2.0]) for dtype in (tf.bfloat16, tf.float16, tf.float32, tf.float64)),
        (tf.bool, [True, False]),
        (tf.string, [b"a", b"b"]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_dtype_of_a_schema_is_written_and_read(dtype, values):
    graph = tfgnn.GraphTensor.from_pieces(
        node_sets={"docs": tfgnn.NodeSet.from_fields(sizes=[2], features={"f": tf.constant(values, dtype)})}
    )
    schema = tfgnn.parse_schema(
        f'node_sets {{ key: "docs" value {{ features {{ key: "f" value {{ dtype: {dtype.as_datatype_enum} }} }} }} }}'
    )

    serialized = tfgnn.write_example(graph).SerializeToString()
    read = tfgnn.parse_single_example(tfgnn.create_graph_spec_from_schema_pb(schema), tf.constant(serialized))

    assert read.node_sets["docs"]["f"].dtype == dtype
    assert read.node_sets["docs"]["f"].numpy().tolist() == values


def test_doubles_are_truncated_on_disk_and_come_back_as_doubles():
    third = tf.constant([1.0 / 3.0], tf.float64)
    graph = tfgnn.GraphTensor.from_pieces(
        node_sets={"docs": tfgnn.NodeSet.from_fields(sizes=[1], features={"f": third})}
    )

    read = tfgnn.parse_single_example(graph.spec, tf.constant(tfgnn.write_example(graph).SerializeToString()))

    assert read.node_sets["docs"]["f"].dtype == tf.float64
    assert read.node_sets["docs"]["f"].numpy().tolist() == [float(np.float32(1.0 / 3.0))]


@pytest.mark.parametrize("dtype", ["DT_COMPLEX64", "DT_QINT8", "DT_VARIANT"])
def test_a_schema_cannot_declare_what_examples_cannot_hold(dtype):
    schema = tfgnn.parse_schema(
        f'node_sets {{ key: "docs" value {{ features {{ key: "f" value {{ dtype: {dtype} }} }} }} }}'
    )

    with pytest.raises(tfgnn.ValidationError, match="dtype"):
        tfgnn.validate_schema(schema)


def test_a_graph_in_memory_may_hold_complex_numbers():
    value = tf.constant([1.0 + 2.0j])

    nodes = tfgnn.NodeSet.from_fields(sizes=[1], features={"f": value})

    assert nodes["f"].dtype == tf.complex128


def test_two_graphs_in_one_example_are_told_apart_by_prefix(data):
    both = tf.train.Example.FromString(data.record(0, prefix="query/"))
    both.MergeFrom(tf.train.Example.FromString(data.record(1, prefix="answer/")))
    both.features.feature["score"].float_list.value.append(0.5)
    serialized = tf.constant([both.SerializeToString()])
    spec = tfgnn.create_graph_spec_from_schema_pb(tfgnn.parse_schema(data.schema_text()))

    query, answer = (tfgnn.parse_example(spec, serialized, prefix=prefix) for prefix in ("query/", "answer/"))
    single = tfgnn.parse_single_example(spec, serialized[0], prefix="query/")
    layer = tfgnn.keras.layers.ParseExample(spec, prefix="answer/")(serialized)
    score = tf.io.parse_example(serialized, {"score": tf.io.FixedLenFeature([], tf.float32)})["score"]

    assert [int(graph.node_sets["docs"].total_size) for graph in (query, answer, single, layer)] == [4, 5, 4, 5]
    assert score.numpy().tolist() == [0.5]


@pytest.mark.parametrize("prefix", [None, "query/"])
def test_the_keys_of_a_graph_on_disk(prefix):
    graph = tfgnn.homogeneous(
        source=tf.constant([1]),
        target=tf.constant([0]),
        node_set_name="docs",
        edge_set_name="cites",
        node_features={"x": tf.constant([[1.0], [2.0]])},
        context_features={"label": tf.constant([3])},
    )

    keys = set(tfgnn.write_example(graph, prefix=prefix).features.feature)

    assert keys == {
        (prefix or "") + key
        for key in (
            *("context/label", "nodes/docs.#size", "nodes/docs.x"),
            *("edges/cites.#size", "edges/cites.#source", "edges/cites.#target"),
        )
    }
