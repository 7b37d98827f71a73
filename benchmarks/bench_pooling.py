"""Forward and backward pass of message passing, along edges that were sorted in the input pipeline.

Inside XLA, too, the bounds are held against what tensorflow-gnn
does without XLA.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from comparison import OURS, Absent, Bound, Report, find_peer

import tfx_gnn

TF_GNN = "tensorflow-gnn 1.0.3"
TF_GNN_IN_XLA = f"{TF_GNN}, in XLA"

NUM_NODES = 10_000
NUM_EDGES = 100_000
NUM_FEATURES = 64

LINEAR_BOUNDS = {False: {TF_GNN: Bound(at_least=4.0)}, True: {TF_GNN: Bound(at_least=2.5)}}
#: A step takes milliseconds.
_STEPS_PER_ROUND = 5
_ROUNDS = 15

_Messages = Callable[[Any, Any, tf.Tensor], tf.Tensor]


@pytest.mark.parametrize("in_xla", [False, True], ids=["plain", "xla"])
@pytest.mark.parametrize("reduce_type", ["sum", "mean"])
def bench_linear_aggregation(report: Report, reduce_type: str, *, in_xla: bool) -> None:
    """Sums or means of the neighbours' states, and their gradient."""

    def broadcast_and_pool(library: Any, graph: Any, states: tf.Tensor) -> tf.Tensor:
        messages = library.broadcast_node_to_edges(graph, "edges", library.SOURCE, feature_value=states)
        return library.pool_edges_to_node(graph, "edges", library.TARGET, reduce_type, feature_value=messages)

    def pool_neighbors(library: Any, graph: Any, states: tf.Tensor) -> tf.Tensor:
        return library.pool_neighbors_to_node(
            graph, "edges", library.TARGET, reduce_type=reduce_type, feature_value=states
        )

    report.compare(
        f"{reduce_type} of neighbours{', in XLA' if in_xla else ''}",
        {
            OURS: _step(tfx_gnn, pool_neighbors, in_xla=in_xla, is_sorted=True),
            f"{OURS}, broadcast + pool": _step(tfx_gnn, broadcast_and_pool, in_xla=in_xla, is_sorted=True),
            f"{OURS}, not sorted": _step(tfx_gnn, broadcast_and_pool, in_xla=in_xla),
            **_peers(broadcast_and_pool, in_xla=in_xla),
        },
        LINEAR_BOUNDS[in_xla],
        items=NUM_EDGES * _STEPS_PER_ROUND,
        unit="edges",
        rounds=_ROUNDS,
    )


@pytest.mark.parametrize("in_xla", [False, True], ids=["plain", "xla"])
def bench_messages_of_each_edge(report: Report, *, in_xla: bool) -> None:
    """Messages that are no linear function of the sender's state."""

    def messages(library: Any, graph: Any, states: tf.Tensor) -> tf.Tensor:
        sender, receiver = (
            library.broadcast_node_to_edges(graph, "edges", tag, feature_value=states)
            for tag in (library.SOURCE, library.TARGET)
        )
        return library.pool_edges_to_node(
            graph, "edges", library.TARGET, "sum", feature_value=tf.nn.relu(sender + receiver)
        )

    report.compare(
        f"messages of each edge{', in XLA' if in_xla else ''}",
        {
            OURS: _step(tfx_gnn, messages, in_xla=in_xla, is_sorted=True),
            f"{OURS}, not sorted": _step(tfx_gnn, messages, in_xla=in_xla),
            **_peers(messages, in_xla=in_xla),
        },
        {},
        items=NUM_EDGES * _STEPS_PER_ROUND,
        unit="edges",
        rounds=_ROUNDS,
    )


def bench_sorting(report: Report) -> None:
    """What sorting costs the input pipeline, once a batch."""
    graph = _graph(tfx_gnn)
    adjacency = graph.edge_sets["edges"].adjacency

    def argsort(index: tf.Tensor) -> tf.Tensor:
        return tf.argsort(index, stable=True)

    ours, theirs = tf.function(tfx_gnn.sort_edges), tf.function(argsort)

    report.compare(
        "sort_edges, both ends",
        {
            OURS: lambda: ours(graph),
            "tf.argsort, both ends": lambda: [theirs(adjacency.target), theirs(adjacency.source)],
        },
        {},
        items=NUM_EDGES,
        unit="edges",
        rounds=_ROUNDS,
    )


def _peers(messages: _Messages, *, in_xla: bool) -> dict[str, Callable[[], None] | Absent]:
    tfgnn = find_peer("tensorflow_gnn")
    if isinstance(tfgnn, Absent):
        return {TF_GNN: tfgnn}
    peers: dict[str, Callable[[], None] | Absent] = {TF_GNN: _step(tfgnn, messages, in_xla=False)}
    if in_xla:
        peers[TF_GNN_IN_XLA] = _step(tfgnn, messages, in_xla=True)
    return peers


def _step(
    library: types.ModuleType, messages: _Messages, *, in_xla: bool, is_sorted: bool = False
) -> Callable[[], None]:
    """Returns a function that computes results and gradients some times."""
    graph = _graph(library)
    if is_sorted:
        graph = tfx_gnn.sort_edges(graph)
    random = np.random.default_rng(1)
    states, weights = (tf.constant(random.standard_normal([NUM_NODES, NUM_FEATURES]), tf.float32) for _ in range(2))

    @tf.function(jit_compile=in_xla)
    def step(states: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(states)
            loss = tf.reduce_sum(messages(library, graph, states) * weights)
        return tf.convert_to_tensor(tape.gradient(loss, states))

    def steps() -> None:
        for _ in range(_STEPS_PER_ROUND):
            step(states).numpy()

    return steps


def _graph(library: Any) -> Any:
    """Returns a graph whose edges connect random nodes."""
    random = np.random.default_rng(0)
    source, target = (("nodes", tf.constant(random.integers(0, NUM_NODES, NUM_EDGES), tf.int32)) for _ in range(2))
    return library.GraphTensor.from_pieces(
        node_sets={
            "nodes": library.NodeSet.from_fields(
                sizes=tf.constant([NUM_NODES]), features={"x": tf.zeros([NUM_NODES, 1])}
            )
        },
        edge_sets={
            "edges": library.EdgeSet.from_fields(
                sizes=tf.constant([NUM_EDGES]),
                features={"x": tf.zeros([NUM_EDGES, 1])},
                adjacency=library.Adjacency.from_indices(source, target),
            )
        },
    )
