from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.graph.graph_constants import SOURCE
from tfx_gnn.graph.ops.edge_edits import sort_edges
from tfx_gnn.models.convolutions.sage_conv import SAGEConv


def _aggregated(values, small, reduce):
    result = np.zeros([5, values.shape[1]])
    for node in range(5):
        rows = values[small.source[small.target == node]]
        if len(rows):
            result[node] = reduce(rows, axis=0)
    return result


@pytest.mark.parametrize("units", [2, 4], ids=["narrowing", "widening"])
@pytest.mark.parametrize(("aggregator", "reduce"), [("mean", np.mean), ("sum", np.sum), ("max", np.max)])
def test_neighbours_are_aggregated_then_transformed(small, aggregator, reduce, units):
    layer = SAGEConv(units, aggregator=aggregator)
    result = layer(small.graph, edge_set_name="e")
    (kernel,) = layer.get_weights()

    expected = _aggregated(small.x, small, reduce) @ kernel

    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer(sort_edges(small.graph), edge_set_name="e"), expected, rtol=1e-5, atol=1e-6)


def test_pooling_takes_the_maximum_of_what_a_layer_makes_of_each_neighbour(small):
    layer = SAGEConv(2, aggregator="pool", hidden_units=6)
    result = layer(small.graph, edge_set_name="e")
    hidden_kernel, hidden_bias, kernel = layer.get_weights()

    hidden = np.maximum(small.x @ hidden_kernel + hidden_bias, 0)

    np.testing.assert_allclose(result, _aggregated(hidden, small, np.max) @ kernel, rtol=1e-5, atol=1e-6)


def test_sources_hear_of_their_targets(library_graph):
    layer = SAGEConv(1, receiver_tag=SOURCE)
    result = layer(library_graph, edge_set_name="writes")
    layer.set_weights([np.array([[1.0], [10.0]])])

    # Author 0 wrote papers (1, 2) and (3, 4), author 1 paper (7, 0), author 2 none.
    assert result.shape == (3, 1)
    np.testing.assert_allclose(layer(library_graph, edge_set_name="writes"), [[32.0], [7.0], [0.0]], rtol=1e-6)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="`aggregator` must be one of"):
        SAGEConv(1, aggregator="lstm")
    with pytest.raises(ValueError, match="`hidden_units` must be None for aggregator='mean'"):
        SAGEConv(1, hidden_units=3)


def test_layer_is_made_again_from_its_config(small, remade):
    layer = SAGEConv(2, aggregator="pool", hidden_units=4, activation="tanh", use_bias=False)
    result = layer(small.graph, edge_set_name="e")

    np.testing.assert_array_equal(remade(layer, small.graph, edge_set_name="e"), result)
