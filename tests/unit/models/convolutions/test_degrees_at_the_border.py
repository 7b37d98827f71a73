"""What a sample with cut-off degrees does to GCN's normalization; docs/training.md tells users."""

from __future__ import annotations

import math

import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.models import GCNConv


def _weight_of_hub(num_other_neighbors: int, normalization: str) -> float:
    """What the seed, node 0, gets from its only neighbour, the hub, node 1, whose state is 1 and all others 0."""
    ends = [0, *range(2, 2 + num_other_neighbors)]
    graph = tfx_gnn.homogeneous(
        source=tf.constant(ends + [1] * len(ends)),
        target=tf.constant([1] * len(ends) + ends),
        node_features=tf.one_hot([1], 2 + num_other_neighbors, axis=0),
    )
    convolution = GCNConv(
        1, activation=None, add_self_loops=True, kernel_initializer="ones", degree_normalization=normalization
    )
    return float(convolution(graph, edge_set_name="edges")[0, 0])


@pytest.mark.parametrize(
    ("num_other_neighbors", "weight"),
    # The hub has 100 neighbours: all are in the sample, or four besides the seed, or none.
    [(99, 1 / math.sqrt(2 * 101)), (4, 1 / math.sqrt(2 * 6)), (0, 1 / 2)],
    ids=["full", "fan-out 4", "last hop"],
)
def test_symmetric_normalization_overrates_a_hub_at_the_border(num_other_neighbors: int, weight: float) -> None:
    assert _weight_of_hub(num_other_neighbors, "in_out") == pytest.approx(weight, rel=1e-6)


@pytest.mark.parametrize("num_other_neighbors", [99, 4, 0])
def test_mean_does_not_see_the_degrees_of_neighbours(num_other_neighbors: int) -> None:
    assert _weight_of_hub(num_other_neighbors, "in") == pytest.approx(1 / 2)
