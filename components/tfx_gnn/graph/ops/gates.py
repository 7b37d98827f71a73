"""Factors that scale messages along edges, and values of features, while a model is traced for an explanation.

A gate is a number for each edge, or for each item that has a feature: 1 leaves the model as it is. With gates of 0, all
edges send nothing, as if they were deleted, and features are 0. Gradients with respect to gates say what a prediction
rests on, so models need not be written with explanations in mind: all pooling from edges goes through this module.

Denominators, such as the number of neighbors in a mean, or the sum in a softmax, keep their value. Otherwise equal
gates would cancel out for every value but 0.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.graph_constants import EdgeSetName
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gates:
    """The factors.

    Attributes:
        graph: the graph that the model gets.
        edges: for each gated edge set, float32 [num_edges].
        features: by keys such as "nodes/paper.venue", float32 [num_items]: gates of features that are not numbers, for
            layers that turn them into numbers.
    """

    graph: GraphTensor
    edges: Mapping[EdgeSetName, tf.Tensor]
    features: Mapping[str, tf.Tensor]


_ACTIVE: contextvars.ContextVar[Gates | None] = contextvars.ContextVar("tfx_gnn_gates", default=None)


@contextlib.contextmanager
def gated(gates: Gates | None) -> Iterator[None]:
    """Applies gates to all models that are called in the context; None applies none."""
    token = _ACTIVE.set(gates)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def are_gates_active() -> bool:
    """Returns whether the caller is in a context with gates."""
    return _ACTIVE.get() is not None


def gate_messages(graph: GraphTensor, edge_set_name: EdgeSetName, values: Any) -> Any:
    """Scales values of edges, [num_edges, ...], if their edge set is gated.

    Edge sets that a model has changed, by sorting or adding edges, are not scaled: their edges are other ones.
    """
    gates = _ACTIVE.get()
    if gates is None or edge_set_name not in gates.edges or not _is_float(values):
        return values
    if not _same_edges(graph.edge_sets[edge_set_name].adjacency, gates.graph.edge_sets[edge_set_name].adjacency):
        return values
    return scaled(values, gates.edges[edge_set_name])


def gate_feature(key: str, values: tf.Tensor) -> tf.Tensor:
    """Scales the numbers, float [num_items, ...], that a layer has made of a feature, if the feature is gated."""
    gates = _ACTIVE.get()
    if gates is None or key not in gates.features:
        return values
    return scaled(values, gates.features[key])


def scaled(values: tf.Tensor, gate: tf.Tensor) -> tf.Tensor:
    """Multiplies each row of float values, [num_items, ...], by a number, [num_items]; keeps the dtype."""
    return values * tf.reshape(tf.cast(gate, values.dtype), [-1] + [1] * (values.shape.rank - 1))


def _is_float(values: Any) -> bool:
    return isinstance(values, tf.Tensor) and values.dtype.is_floating and values.shape.rank is not None


def _same_edges(one: Any, other: Any) -> bool:
    ours, theirs = one.get_indices_dict(), other.get_indices_dict()
    return ours.keys() == theirs.keys() and all(ours[tag][1] is theirs[tag][1] for tag in ours)
