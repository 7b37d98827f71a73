import pytest
import tensorflow as tf

import tfx_gnn.graph as lib
from tfx_gnn.graph.ops.homogeneous_graph import homogeneous

SOURCE, TARGET = tf.constant([0, 1]), tf.constant([1, 2])


def test_single_tensors_become_hidden_states(run):
    graph = run(
        lambda source, nodes: homogeneous(
            source, TARGET, node_features=nodes, edge_features=tf.ones([2]), context_features=tf.ones([1, 4])
        ),
        SOURCE,
        tf.ones([3, 1]),
    )

    assert graph.node_sets["nodes"].sizes.numpy().tolist() == [3]
    assert graph.node_sets["nodes"]["hidden_state"].shape == [3, 1]
    assert graph.edge_sets["edges"]["hidden_state"].shape == [2]
    assert graph.context["hidden_state"].shape == [1, 4]
    assert graph.edge_sets["edges"].adjacency.target.numpy().tolist() == [1, 2]


def test_components_names_and_features_are_taken():
    graph = homogeneous(
        SOURCE,
        TARGET,
        node_features={"x": tf.ones([3])},
        node_set_name="n",
        edge_set_name="e",
        node_set_sizes=[2, 1],
        edge_set_sizes=[1, 1],
    )

    assert graph.node_sets["n"].sizes.numpy().tolist() == [2, 1]
    assert set(graph.node_sets["n"].features) == {"x"}
    assert graph.edge_sets["e"].sizes.numpy().tolist() == [1, 1]


def test_wider_sizes_make_wider_indices():
    graph = homogeneous(
        tf.constant([0], tf.int32), tf.constant([1], tf.int32), node_set_sizes=tf.constant([2], tf.int64)
    )

    assert graph.indices_dtype == tf.int64
    assert graph.edge_sets["edges"].adjacency.source.dtype == tf.int64


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_sizes_have_the_dtype_of_the_indices(dtype):
    graph = homogeneous(tf.cast(SOURCE, dtype), tf.cast(TARGET, dtype), node_features=tf.ones([3]))

    assert graph.indices_dtype == dtype


def test_ragged_features_count_as_nodes():
    graph = homogeneous(SOURCE, TARGET, node_features=tf.ragged.constant([[1], [], [2, 3]]))

    assert graph.node_sets["nodes"].sizes.numpy().tolist() == [3]


def test_agrees_with_the_oracle(oracle, plain):
    def results(library):
        return plain(
            [
                library.homogeneous(SOURCE, TARGET, node_features={"x": tf.ones([3]), "y": tf.zeros([3, 2])}),
                library.homogeneous(SOURCE, TARGET, node_set_sizes=[3], edge_set_sizes=[2]),
                library.homogeneous(
                    SOURCE,
                    TARGET,
                    node_features=tf.ones([3]),
                    context_features={"c": tf.ones([2])},
                    node_set_sizes=[2, 1],
                    edge_set_sizes=[1, 1],
                ),
            ]
        )

    assert results(lib) == results(oracle)


@pytest.mark.parametrize("source", [tf.constant([[0, 1]]), tf.ragged.constant([[0, 1]]), [[0, 1]], 0])
def test_ends_of_edges_must_be_vectors(source):
    with pytest.raises(ValueError, match="source and target must be rank-1 dense tensors"):
        homogeneous(source, TARGET, node_features=tf.ones([3]))


@pytest.mark.parametrize("features", [None, {}])
def test_the_number_of_nodes_must_be_known(features):
    with pytest.raises(ValueError, match="node_set_sizes must be provided if node_features is not"):
        homogeneous(SOURCE, TARGET, node_features=features)
