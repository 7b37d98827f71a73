from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet, NodeSet
from tfx_gnn.keras.layers.next_state import NextStateFromConcat
from tfx_gnn.keras.layers.simple_conv import SimpleConv
from tfx_gnn.models.message_passing import ReadNodeSetUpdate, next_state_where_read
from tfx_gnn.models.relations import read_node_sets


def _graph(read, *, num_nodes=4):
    """Nodes 0, 1, ... with states (0, 10), (1, 11), ... in a ring, of which some are read."""
    numbers = tf.range(num_nodes)
    return GraphTensor.from_pieces(
        node_sets={
            "n": NodeSet.from_fields(
                sizes=[num_nodes],
                features={"hidden_state": tf.cast(tf.stack([numbers, numbers + 10], axis=1), tf.float32)},
            ),
            "_readout": NodeSet.from_fields(sizes=[len(read)], features={}),
        },
        edge_sets={
            "e": EdgeSet.from_fields(
                sizes=[num_nodes],
                features={},
                adjacency=Adjacency.from_indices(("n", numbers), ("n", tf.roll(numbers, -1, axis=0))),
            ),
            "_readout/seed": EdgeSet.from_fields(
                sizes=[len(read)],
                features={},
                adjacency=Adjacency.from_indices(("n", tf.constant(read, tf.int32)), ("_readout", range(len(read)))),
            ),
        },
    )


class _Counting:
    """Twice the state, and how many rows it was asked for."""

    rows = 0

    def __call__(self, states):
        self.rows = states.shape[0]
        return 2 * states


@pytest.mark.parametrize(
    ("read", "rows", "expected"),
    [
        ([2], 1, [[0, 0], [0, 0], [4, 24], [0, 0]]),
        ([3, 0, 3], 3, [[0, 20], [0, 0], [0, 0], [6, 26]]),
        # No fewer than there are: none is left out.
        ([1, 1, 1, 1], 4, [[0, 20], [2, 22], [4, 24], [6, 26]]),
    ],
)
def test_nodes_that_are_read_have_a_state_once(read, rows, expected):
    graph, next_state = _graph(read), _Counting()

    result = next_state_where_read(graph, "n", next_state, graph.node_sets["n"]["hidden_state"])

    np.testing.assert_array_equal(result, expected)
    assert next_state.rows == rows


def test_sizes_need_not_be_static():
    graph = _graph([3, 0, 3])

    @tf.function(input_signature=[graph.spec.relax(num_nodes=True, num_edges=True)], autograph=False)
    def states(graph):
        return next_state_where_read(graph, "n", lambda rows: rows, graph.node_sets["n"]["hidden_state"])

    np.testing.assert_array_equal(states(graph), [[0, 10], [0, 0], [0, 0], [3, 13]])
    np.testing.assert_array_equal(states(_graph([1] * 9)), [[0, 0], [1, 11], [0, 0], [0, 0]])


def test_a_node_that_is_read_often_stays_exact_in_half_precision():
    graph = _graph([3] * 300, num_nodes=400)
    states = tf.cast(graph.node_sets["n"]["hidden_state"], tf.bfloat16)

    result = next_state_where_read(graph, "n", lambda rows: rows, states)

    assert result.dtype == tf.bfloat16
    np.testing.assert_array_equal(tf.cast(result[2:5], tf.float32), [[0, 0], [3, 13], [0, 0]])


def test_gradients_of_all_readings_reach_the_state():
    graph = _graph([3, 0, 3])
    scale = tf.Variable(1.0)

    with tf.GradientTape() as tape:
        states = next_state_where_read(graph, "n", lambda rows: rows * scale, graph.node_sets["n"]["hidden_state"])
        loss = tf.reduce_sum(tf.gather(states, [3, 0, 3]))

    # 3 + 13, 0 + 10 and again 3 + 13.
    assert tape.gradient(loss, scale).numpy() == 42


def test_update_is_made_again_from_its_config():
    graph = _graph([2])
    update = ReadNodeSetUpdate(
        {"e": SimpleConv(tf_keras.layers.Dense(3))}, NextStateFromConcat(tf_keras.layers.Dense(2))
    )
    expected = update(graph, node_set_name="n")

    again = tf_keras.layers.deserialize(tf_keras.layers.serialize(update))
    again(graph, node_set_name="n")
    again.set_weights(update.get_weights())

    assert isinstance(again, ReadNodeSetUpdate)
    np.testing.assert_array_equal(again(graph, node_set_name="n"), expected)
    np.testing.assert_array_equal(expected[3], [0, 0])


def test_nodes_that_nothing_reads_are_refused():
    graph = _graph([1])

    with pytest.raises(ValueError, match=r"from each node set whose nodes are read; got none from 'm', only \{'n': "):
        next_state_where_read(graph, "m", lambda rows: rows, graph.node_sets["n"]["hidden_state"])


def test_edge_sets_of_the_readout_tell_which_nodes_are_read():
    assert read_node_sets(_graph([1]).spec) == {"n": ["_readout/seed"]}
