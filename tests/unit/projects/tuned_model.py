"""A model for the star graph with a hyperparameter that it cannot always bear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras


class SeedOffset(tf_keras.Model):
    """A network over the seed's distance from the mean."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self._hidden = tf_keras.layers.Dense(units, activation="relu")
        self._logits = tf_keras.layers.Dense(2)

    def call(self, graph: Any) -> tf.Tensor:
        seed = graph.edge_sets["_readout/seed"].adjacency.source
        offset = tf.gather(graph.node_sets["item"]["offset"], seed)
        return self._logits(self._hidden(tf.reshape(offset, [-1, 1])))


def model_fn(graph_spec: Any, *, hyperparameters: Mapping[str, Any]) -> tf_keras.Model:
    if hyperparameters["units"] == 13:
        raise RuntimeError("no room for 13 units")
    return SeedOffset(hyperparameters["units"])
