import pytest
import tensorflow as tf

import tfx_gnn.graph as lib
from tfx_gnn.graph.batching.generated_dataset import dataset_from_generator


def make_graph(num_nodes, num_components=1, feature="x"):
    return lib.GraphTensor.from_pieces(
        node_sets={
            "a": lib.NodeSet.from_fields(
                sizes=[num_nodes] + [0] * (num_components - 1), features={feature: tf.zeros([num_nodes])}
            )
        }
    )


def test_numbers_of_nodes_may_differ_and_iterations_repeat():
    def graphs():
        yield make_graph(2)
        yield make_graph(5)

    dataset = dataset_from_generator(graphs)

    assert dataset.element_spec.node_sets_spec["a"]["x"] == tf.TensorSpec([None], tf.float32)
    assert dataset.element_spec.total_num_components == 1
    assert [int(graph.node_sets["a"].total_size) for graph in dataset.repeat(2)] == [2, 5, 2, 5]


def test_nests_of_pieces_and_tensors_are_yielded():
    graph = make_graph(2)
    adjacency = lib.Adjacency.from_indices(("a", [0]), ("a", [1]))
    edge_set = lib.EdgeSet.from_fields(sizes=[1], adjacency=adjacency)

    dataset = dataset_from_generator(
        lambda: [
            (
                {"nodes": graph.node_sets["a"], "edges": edge_set},
                adjacency,
                graph.context,
                5,
                tf.ragged.constant([[1], []]),
            )
        ]
    )

    spec = dataset.element_spec
    assert spec[0]["nodes"]["x"].shape.as_list() == [None]
    assert spec[1].source.shape.as_list() == [None]
    assert spec[3] == tf.TensorSpec([], tf.int32)
    (element,) = dataset
    assert element[0]["edges"].adjacency.target.numpy().tolist() == [1]
    assert element[4].to_list() == [[1], []]


@pytest.mark.parametrize(
    "second", [make_graph(2, num_components=2), make_graph(2, feature="y")], ids=["components", "features"]
)
def test_later_elements_must_fit_the_first(second):
    dataset = dataset_from_generator(lambda: [make_graph(2), second])

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"pieces are not compatible: .* in element 1"):
        list(dataset)


def test_only_scalar_pieces_are_taken():
    batch = tf.data.Dataset.from_tensors(make_graph(2)).batch(1).get_single_element()

    with pytest.raises(ValueError, match=r"dataset_from_generator\(\) requires a scalar GraphTensor"):
        dataset_from_generator(lambda: [batch])


def test_a_generator_must_be_callable_and_yield_something():
    with pytest.raises(TypeError, match="`generator` must be callable, returning an iterable; got list"):
        dataset_from_generator([make_graph(2)])
    with pytest.raises(ValueError, match="must produce at least one value"):
        dataset_from_generator(list)
