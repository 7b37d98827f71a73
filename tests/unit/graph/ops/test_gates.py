from __future__ import annotations

import tensorflow as tf

import tfx_gnn
from tfx_gnn.graph.ops.edge_edits import sort_edges
from tfx_gnn.graph.ops.gates import Gates, gate_feature, gated

GRAPH = tfx_gnn.homogeneous(
    source=tf.constant([1, 0, 2]),
    target=tf.constant([2, 1, 1]),
    node_features=tf.constant([[1.0], [2.0], [4.0]]),
)
GATES = Gates(
    graph=GRAPH, edges={"edges": tf.constant([1.0, 0.5, 0.25])}, features={"nodes/x": tf.constant([3.0, 0.0])}
)


def _pooled(graph: tfx_gnn.GraphTensor, reduce_type: str) -> list[float]:
    pooled = tfx_gnn.pool_neighbors_to_node(
        graph, "edges", tfx_gnn.TARGET, reduce_type=reduce_type, feature_name="hidden_state"
    )
    values: list[float] = tf.reshape(pooled, [-1]).numpy().tolist()
    return values


def test_gates_scale_messages_and_leave_the_number_of_neighbors_in_a_mean() -> None:
    assert _pooled(GRAPH, "sum") == [0.0, 5.0, 2.0]

    with gated(GATES):
        sums, means = _pooled(GRAPH, "sum"), _pooled(GRAPH, "mean")

    assert sums == [0.0, 1.5, 2.0]
    assert means == [0.0, 0.75, 2.0]
    assert _pooled(GRAPH, "sum") == [0.0, 5.0, 2.0]


def test_gates_leave_a_softmax_alone() -> None:
    with gated(GATES):
        shares = tfx_gnn.softmax_edges_per_node(GRAPH, "edges", tfx_gnn.TARGET, feature_value=tf.zeros([3]))

    assert shares.numpy().tolist() == [1.0, 0.5, 0.5]


def test_edges_that_a_model_has_put_in_another_order_are_not_scaled() -> None:
    with gated(GATES):
        assert _pooled(sort_edges(GRAPH), "sum") == [0.0, 5.0, 2.0]


def test_a_context_without_gates_within_one_with_gates_scales_nothing() -> None:
    with gated(GATES), gated(None):
        assert _pooled(GRAPH, "sum") == [0.0, 5.0, 2.0]


def test_gates_of_features_scale_the_rows_that_a_layer_made_of_them() -> None:
    rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])

    with gated(GATES):
        assert gate_feature("nodes/x", rows).numpy().tolist() == [[3.0, 6.0], [0.0, 0.0]]
        assert gate_feature("nodes/y", rows) is rows
    assert gate_feature("nodes/x", rows) is rows
