from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.graph_constants import SOURCE, TARGET
from tfx_gnn.models.neighbor_mean import NeighborMean

LOG2, LOG3 = math.log(2.0), math.log(3.0)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_targets_get_mean_state_and_number_of_their_sources(library_graph, wrap):
    layer = NeighborMean([TARGET])

    pooled = wrap(lambda graph: layer(graph, edge_set_name="cites"))(library_graph)

    expected = [[4.0, 6.0, LOG3], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [7.0, 0.0, LOG2]]
    np.testing.assert_allclose(pooled, expected, rtol=1e-6)


def test_sources_get_mean_state_of_their_targets(library_graph):
    pooled = NeighborMean([SOURCE])(library_graph, edge_set_name="writes")

    np.testing.assert_allclose(pooled, [[2.0, 3.0, LOG3], [7.0, 0.0, LOG2], [0.0, 0.0, 0.0]], rtol=1e-6)


def test_both_directions_stand_side_by_side(library_graph):
    pooled = NeighborMean([SOURCE, TARGET])(library_graph, edge_set_name="cites")

    assert pooled.shape == (4, 6)
    np.testing.assert_allclose(pooled[:, :3], [[0, 0, 0], [1, 2, LOG2], [1, 2, LOG2], [7, 0, LOG2]], rtol=1e-6)
    np.testing.assert_allclose(pooled[0, 3:], [4.0, 6.0, LOG3], rtol=1e-6)


def test_edge_features_are_averaged_beside_states(library_graph):
    pooled = NeighborMean([TARGET], edge_features=["weight"])(library_graph, edge_set_name="cites")

    np.testing.assert_allclose(pooled[0], [4.0, 6.0, 1.0, LOG3], rtol=1e-6)


def test_layer_is_made_again_from_its_config(library_graph):
    layer = NeighborMean([SOURCE, TARGET], edge_features=["weight"], feature_name="hidden_state")

    again = NeighborMean.from_config(layer.get_config())

    np.testing.assert_array_equal(
        again(library_graph, edge_set_name="cites"), layer(library_graph, edge_set_name="cites")
    )


@pytest.mark.parametrize("tags", [[], [2]])
def test_other_tags_are_refused(tags):
    with pytest.raises(ValueError, match="`receiver_tags` must hold SOURCE or TARGET or both; got"):
        NeighborMean(tags)
