"""Graphs that carry the labels of all tasks, padded and not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.batching.padding import pad_to_total_sizes
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written

NUM_NODES = (2, 4, 3)


@pytest.fixture(scope="module", autouse=True)
def _metrics_without_autograph() -> Iterator[None]:
    """As in training: it would take AutoGraph seconds to read the metrics of Keras."""
    with libraries_traced_as_written():
        yield


def make_graph(num_readouts: tuple[int, ...], readout: dict[str, Any], keys: tuple[str, ...]) -> GraphTensor:
    """Three components; the k-th readout of each is tied to its k-th node, by "target" to the last one."""
    starts = np.cumsum(NUM_NODES) - NUM_NODES
    total = sum(num_readouts)
    ends = {}
    for key in keys:
        first = [
            start + (size - 1 if key == "target" else k % size)
            for start, size, num in zip(starts, NUM_NODES, num_readouts, strict=True)
            for k in range(num)
        ]
        ends[f"_readout/{key}"] = EdgeSet.from_fields(
            sizes=list(num_readouts),
            features={},
            adjacency=Adjacency.from_indices(("item", tf.constant(first)), ("_readout", tf.range(total))),
        )
    states = np.random.default_rng(0).normal(size=(sum(NUM_NODES), 4)).astype(np.float32)
    return GraphTensor.from_pieces(
        context=Context.from_fields(
            features={
                "kind": tf.constant([1, 5, 0], tf.int64),
                "energy": tf.constant([[2.0, np.nan], [4.0, 10.0], [np.nan, np.nan]]),
            }
        ),
        node_sets={
            "item": NodeSet.from_fields(sizes=list(NUM_NODES), features={"hidden_state": states}),
            "_readout": NodeSet.from_fields(sizes=list(num_readouts), features=readout),
        },
        edge_sets=ends,
    )


@pytest.fixture(scope="session")
def seeds() -> GraphTensor:
    """One readout a component; the second class is unknown, the third number missing."""
    readout = {"color": tf.constant([2, -1, 0], tf.int64), "price": tf.constant([1.0, 3.0, np.nan])}
    return make_graph((1, 1, 1), readout, ("seed",))


@pytest.fixture(scope="session")
def pairs() -> GraphTensor:
    """Three, one and two candidates; one of the last two takes no part."""
    readout = {
        "label": tf.constant([0, 1, 0, 1, 1, -1], tf.int64),
        "relation": tf.constant([0, 0, 0, 1, 1, 1], tf.int64),
    }
    return make_graph((3, 1, 2), readout, ("source", "target"))


@pytest.fixture(scope="session")
def single_pairs() -> GraphTensor:
    """One candidate for each component."""
    return make_graph((1, 1, 1), {"label": tf.constant([1, 0, 1], tf.int64)}, ("source", "target"))


def _pad(graph: GraphTensor) -> tuple[GraphTensor, tf.Tensor]:
    """Two more components, with some of everything."""
    num_readouts = int(graph.node_sets["_readout"].total_size)
    least = {"_readout": 1}
    budget = SizeConstraints(
        5,
        {"item": 13, "_readout": num_readouts + 2},
        dict.fromkeys(graph.edge_sets, num_readouts + 2),
        least,
    )
    return pad_to_total_sizes(graph, budget)


@pytest.fixture(scope="session")
def pad() -> Callable[[GraphTensor], tuple[GraphTensor, tf.Tensor]]:
    """The function above: padded graph, and which components are real."""
    return _pad
