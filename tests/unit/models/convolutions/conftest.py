"""One small graph within a node set, as the library and as NumPy see it."""

from __future__ import annotations

import types

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet, NodeSet

# Node 4 hears of nobody and nobody of it; 0 -> 1 is there twice; 3 -> 3 is a loop.
SOURCES = [0, 0, 2, 1, 3, 3]
TARGETS = [1, 1, 1, 0, 0, 3]


@pytest.fixture
def small():
    """`graph`, and its arrays: `x` [5, 3], `source`, `target`, `weight` [6, 1], `kind` [6]."""
    random = np.random.default_rng(3)
    x = random.standard_normal([5, 3]).astype(np.float32)
    weight = random.uniform(0.5, 2.0, [6, 1]).astype(np.float32)
    kind = np.array([0, 2, 1, 1, 0, 2])
    graph = GraphTensor.from_pieces(
        node_sets={"n": NodeSet.from_fields(sizes=[5], features={"hidden_state": x})},
        edge_sets={
            "e": EdgeSet.from_fields(
                sizes=[6],
                features={"weight": weight, "kind": kind},
                adjacency=Adjacency.from_indices(("n", tf.constant(SOURCES)), ("n", tf.constant(TARGETS))),
            )
        },
    )
    return types.SimpleNamespace(
        graph=graph, x=x, source=np.array(SOURCES), target=np.array(TARGETS), weight=weight, kind=kind
    )


@pytest.fixture
def remade():
    """Makes a layer a second time from its config, with its weights, and calls it."""

    def remade(layer, graph, **call_arguments):
        again = tf_keras.layers.deserialize(tf_keras.layers.serialize(layer))
        again(graph, **call_arguments)
        again.set_weights(layer.get_weights())
        return again(graph, **call_arguments)

    return remade
