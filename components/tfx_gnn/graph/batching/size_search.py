"""Finds the smallest size constraints that fit every graph of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.size_constraints import Size, SizeConstraints, with_room_for_padding
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec


def find_tight_size_constraints(
    dataset: tf.data.Dataset,
    *,
    min_nodes_per_component: Mapping[const.NodeSetName, int] | None = None,
    target_batch_size: int | tf.Tensor | None = None,
) -> SizeConstraints:
    """Finds the smallest constraints that every batch of a data set can be padded to.

    Reads the whole data set. The constraints are the largest sizes of any element, times the
    batch size, and room for padding: one component, its smallest number of nodes, and one node
    at each end of edge sets. There is no room if all sizes are static, for then nothing is
    padded.

    Args:
        dataset: finite data set of graphs of any rank: single graphs, with `target_batch_size`,
            or batches that come the same way again.
        min_nodes_per_component: smallest number of nodes by node set that each component has,
            and that padding components shall have. Default 0.
        target_batch_size: how many elements a batch has; default 1.

    Returns:
        Constraints of Python ints; of tensors inside a tf.function. An empty data set gives the
        smallest int64.

    Raises:
        ValueError: if the data set is infinite or holds anything but graphs, or the batch size is
            not positive.

    Example:
        >>> graphs = tf.data.Dataset.range(4, 7).map(
        ...     lambda n: tfx_gnn.GraphTensor.from_pieces(node_sets={"docs": tfx_gnn.NodeSet.from_fields(sizes=[n])}))
        >>> tfx_gnn.find_tight_size_constraints(graphs, target_batch_size=3).total_num_nodes
        {'docs': 18}
    """
    spec = check_graph_dataset(dataset)
    if tf.get_static_value(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
        raise ValueError("The dataset must be finite; got an infinite one. Drop .repeat() or use .take().")
    if isinstance(target_batch_size, int) and target_batch_size < 1:
        raise ValueError(f"`target_batch_size` must be at least 1; got {target_batch_size}.")
    smallest = tf.fill([len(size_names(spec))], tf.int64.min)
    sizes = dataset.reduce(smallest, lambda largest, graph: tf.maximum(largest, size_vector(graph)))
    if target_batch_size is not None:
        sizes *= tf.cast(target_batch_size, tf.int64)
    return constraints_from_vector(spec, sizes, min_nodes_per_component)


def check_graph_dataset(dataset: tf.data.Dataset) -> GraphTensorSpec:
    """Returns the spec of a data set's graphs; refuses other elements."""
    spec = dataset.element_spec
    if not isinstance(spec, GraphTensorSpec):
        raise ValueError(
            f"The element of dataset must be GraphTensor; got {type(spec).__name__}. "
            "Parse the examples and drop labels first."
        )
    return spec


def size_names(spec: GraphTensorSpec) -> list[tuple[const.SetType, const.SetName]]:
    """Names what a size vector counts: ("context", ""), then ("nodes", name), then ("edges", name)."""
    return [
        (const.CONTEXT, ""),
        *((const.NODES, name) for name in spec.node_sets_spec),
        *((const.EDGES, name) for name in spec.edge_sets_spec),
    ]


def size_vector(graph: GraphTensor) -> tf.Tensor:
    """Counts components, nodes and edges, int64 in the order of `size_names`; sums over a batch."""
    sizes = [
        graph.total_num_components,
        *(node_set.total_size for node_set in graph.node_sets.values()),
        *(edge_set.total_size for edge_set in graph.edge_sets.values()),
    ]
    return tf.stack([tf.cast(size, tf.int64) for size in sizes])


def constraints_from_vector(
    spec: GraphTensorSpec, sizes: Any, min_nodes_per_component: Mapping[const.NodeSetName, int] | None
) -> SizeConstraints:
    """Makes constraints of the largest sizes, in the order of `size_names`, with room for padding."""
    values: list[Size]
    if isinstance(sizes, tf.Tensor) and not tf.executing_eagerly():
        values = tf.unstack(sizes)
    else:
        values = [int(size) for size in sizes]
    by_name = dict(zip(size_names(spec), values, strict=True))
    measured = SizeConstraints(
        total_num_components=by_name[const.CONTEXT, ""],
        total_num_nodes={name: by_name[const.NODES, name] for name in spec.node_sets_spec},
        total_num_edges={name: by_name[const.EDGES, name] for name in spec.edge_sets_spec},
        min_nodes_per_component=() if min_nodes_per_component is None else dict(min_nodes_per_component),
    )
    if _is_static(spec):
        return measured
    padded_ends = {
        node_set_name
        for edge_set_spec in spec.edge_sets_spec.values()
        if edge_set_spec.total_size is None
        for node_set_name, _ in edge_set_spec.adjacency_spec.get_index_specs_dict().values()
    }
    return with_room_for_padding(measured, padded_incident_node_sets=padded_ends)


def _is_static(spec: GraphTensorSpec) -> bool:
    pieces = [*spec.node_sets_spec.values(), *spec.edge_sets_spec.values()]
    return spec.total_num_components is not None and all(piece.total_size is not None for piece in pieces)
