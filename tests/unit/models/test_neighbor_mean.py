from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.graph_constants import SOURCE, TARGET
from tfx_gnn.graph.ops.edge_edits import sort_edges
from tfx_gnn.graph.ops.homogeneous_graph import homogeneous
from tfx_gnn.models.message_passing import BothDirections
from tfx_gnn.models.relational_update import NeighborMean

LOG2, LOG3 = math.log(2.0), math.log(3.0)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_targets_get_mean_state_and_number_of_their_sources(library_graph, wrap):
    layer = NeighborMean(TARGET)

    pooled = wrap(lambda graph: layer(graph, edge_set_name="cites"))(library_graph)

    expected = [[4.0, 6.0, LOG3], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [7.0, 0.0, LOG2]]
    np.testing.assert_allclose(pooled, expected, rtol=1e-6)


def test_sources_get_mean_state_of_their_targets(library_graph):
    pooled = NeighborMean(SOURCE)(library_graph, edge_set_name="writes")

    np.testing.assert_allclose(pooled, [[2.0, 3.0, LOG3], [7.0, 0.0, LOG2], [0.0, 0.0, 0.0]], rtol=1e-6)


def test_both_directions_stand_side_by_side(library_graph):
    layer = BothDirections(NeighborMean(SOURCE), NeighborMean(TARGET))

    to_source, to_target = layer(library_graph, edge_set_name="cites")

    np.testing.assert_allclose(to_source, [[0, 0, 0], [1, 2, LOG2], [1, 2, LOG2], [7, 0, LOG2]], rtol=1e-6)
    np.testing.assert_allclose(to_target[0], [4.0, 6.0, LOG3], rtol=1e-6)


def test_sorted_edges_give_the_same(library_graph):
    layer = NeighborMean(TARGET, edge_features=["weight"])

    np.testing.assert_allclose(
        layer(sort_edges(library_graph), edge_set_name="cites"), layer(library_graph, edge_set_name="cites"), rtol=1e-6
    )


def test_many_neighbours_are_counted_in_half_precision():
    graph = homogeneous(source=tf.range(1, 1001), target=tf.zeros(1000, tf.int32), node_features=tf.ones([1001, 1]))

    pooled = NeighborMean(TARGET, dtype="mixed_bfloat16")(graph, edge_set_name="edges")

    assert pooled.dtype == tf.bfloat16
    assert [float(value) for value in pooled[0]] == pytest.approx([1.0, math.log(1001)], rel=0.01)


def test_edge_features_are_averaged_beside_states(library_graph):
    pooled = NeighborMean(TARGET, edge_features=["weight"])(library_graph, edge_set_name="cites")

    np.testing.assert_allclose(pooled[0], [4.0, 6.0, 1.0, LOG3], rtol=1e-6)


def test_layer_is_made_again_from_its_config(library_graph):
    layer = NeighborMean(SOURCE, edge_features=["weight"], feature_name="hidden_state")

    again = NeighborMean.from_config(layer.get_config())

    np.testing.assert_array_equal(
        again(library_graph, edge_set_name="cites"), layer(library_graph, edge_set_name="cites")
    )
