import pytest
import tensorflow as tf

from tfx_gnn.graph.codec.example_parsing import parse_single_example
from tfx_gnn.graph.codec.example_writing import write_example
from tfx_gnn.graph.tensor.adjacency import HyperAdjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor, graph_tensor_to_values
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet


def stored_values(example):
    values = {}
    for key, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        values[key] = list(getattr(feature, kind).value) if kind else []
    return values


def one_node_set(num_nodes=2, **features):
    return GraphTensor.from_pieces(node_sets={"a": NodeSet.from_fields(sizes=[num_nodes], features=features)})


def test_every_field_has_its_key(graph):
    assert stored_values(write_example(graph)) == {
        "context/c": [10.0, 20.0],
        "nodes/a.#size": [2, 1],
        "nodes/a.x": [1.0, 2.0, 3.0],
        "nodes/a.r": [1.0, 2.0, 3.0],
        "nodes/a.r.d1": [2, 1, 0],
        "nodes/a.id": [b"p", b"q", b"r"],
        "nodes/b.#size": [1, 1],
        "nodes/b.x": [5.0, 6.0],
        "edges/ab.#size": [2, 1],
        "edges/ab.#source": [0, 1, 2],
        "edges/ab.#target": [0, 0, 1],
        "edges/ab.w": [1.0, 2.0, 3.0],
        "edges/late.#size": [0, 1],
        "edges/late.#source": [2],
        "edges/late.#target": [1],
        "edges/late.w": [7.0],
        "edges/ba.#size": [0, 1],
        "edges/ba.#source": [1],
        "edges/ba.#target": [2],
        "edges/ba.w": [8.0],
    }


def test_a_prefix_is_put_before_every_key(graph):
    keys = write_example(graph, prefix="query/").features.feature.keys()

    assert all(key.startswith("query/") for key in keys)
    assert "query/nodes/a.#size" in keys


def test_what_was_written_is_read_back(graph):
    spec = graph.spec.relax(num_components=True, num_nodes=True, num_edges=True)

    read = parse_single_example(spec, tf.constant(write_example(graph).SerializeToString()))

    assert spec.is_compatible_with(read)
    assert graph_tensor_to_values(read) == graph_tensor_to_values(graph)
    assert read.edge_sets["ab"].adjacency.source.numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (tf.constant([True, False]), [1, 0]),
        (tf.constant([255, 0], tf.uint8), [255, 0]),
        (tf.constant([2**64 - 1, 2**63], tf.uint64), [-1, -(2**63)]),
        (tf.constant([0.5, 1.5], tf.float64), [0.5, 1.5]),
        (tf.constant([0.5, 1.5], tf.bfloat16), [0.5, 1.5]),
        (tf.constant([[1, 2], [3, 4]]), [1, 2, 3, 4]),
    ],
)
def test_values_are_stored_as_64_bit_integers_or_32_bit_floats(value, stored):
    assert stored_values(write_example(one_node_set(x=value)))["nodes/a.x"] == stored


def test_uniform_dimensions_of_ragged_features_are_not_stored():
    inner = tf.ragged.constant([["p"], [], ["q", "r"], []])

    values = stored_values(write_example(one_node_set(x=tf.RaggedTensor.from_uniform_row_length(inner, 2))))

    assert values == {
        "nodes/a.#size": [2],
        "nodes/a.x": [b"p", b"q", b"r"],
        "nodes/a.x.d2": [1, 0, 2, 0],
    }


def test_a_batch_is_written_like_a_graph_with_one_more_dimension():
    graph = GraphTensor.from_pieces(
        node_sets={"a": NodeSet.from_fields(sizes=[[1], [2]], features={"x": tf.ragged.constant([[1], [2, 3]])})}
    )

    assert stored_values(write_example(graph)) == {
        "nodes/a.#size": [1, 2],
        "nodes/a.x": [1, 2, 3],
        "nodes/a.x.d1": [1, 2],
    }


def test_dtypes_that_examples_cannot_hold_are_refused():
    with pytest.raises(TypeError, match=r"Unsupported type <dtype: 'complex64'> of field 'nodes/a.x'"):
        write_example(one_node_set(x=tf.constant([1j, 2], tf.complex64)))


def test_hyper_edges_are_written_by_tag():
    adjacency = HyperAdjacency.from_indices({0: ("a", [0]), 2: ("a", [1])})
    graph = GraphTensor.from_pieces(
        node_sets={"a": NodeSet.from_fields(sizes=[2])},
        edge_sets={"e": EdgeSet.from_fields(sizes=[1], adjacency=adjacency)},
    )

    example = write_example(graph)

    assert {
        key: list(feature.int64_list.value) for key, feature in example.features.feature.items() if "edges" in key
    } == {"edges/e.#size": [1], "edges/e.#node.0": [0], "edges/e.#node.2": [1]}


def test_unknown_values_cannot_be_written(graph):
    with pytest.raises(ValueError, match="`graph` must have known values; got a symbolic tensor for 'context/c'"):
        tf.function(write_example)(graph)


def test_graphs_become_plain_python_values():
    graph = GraphTensor.from_pieces(
        Context.from_fields(features={"y": tf.ragged.constant([[1], []])}),
        {"a": NodeSet.from_fields(sizes=[2, 0], features={"s": [b"\xff", "é"], "b": [True, False]})},
    )

    assert graph_tensor_to_values(graph) == {
        "context": {"y": [[1], []]},
        "node_sets": {"a": {"s": [b"\xff", "é"], "b": [True, False]}},
        "edge_sets": {},
    }
