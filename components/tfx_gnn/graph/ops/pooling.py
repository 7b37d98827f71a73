"""Pools values from edges to nodes, and from nodes or edges to the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.graph_constants import Field
from tfx_gnn.graph.ops import sorted_aggregation
from tfx_gnn.graph.ops.gates import gate_messages
from tfx_gnn.graph.ops.sorted_aggregation import SortedEdges, sums_and_means
from tfx_gnn.graph.ops.tags import (
    ItemSets,
    NameOrNames,
    check_one_feature,
    common_node_set_name,
    resolve_item_sets,
)
from tfx_gnn.graph.tensor.fields import component_indices
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.run_time_checks import wrong_dtype, wrong_shape
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer

#: Takes values, the receiver index of each value, and the number of receivers.
Reduction = Callable[[Any, tf.Tensor, Any], Any]


def _zero_if_empty(reduce: Reduction) -> Reduction:
    def reduce_and_clear(data: Any, segment_ids: tf.Tensor, num_segments: Any) -> Any:
        reduced = reduce(data, segment_ids, num_segments)
        if isinstance(reduced, tf.RaggedTensor):
            return reduced  # A receiver without values has an empty row: nothing to clear.
        counts = tf.math.unsorted_segment_sum(tf.ones_like(segment_ids), segment_ids, num_segments)
        is_empty = tf.reshape(counts == 0, [-1] + [1] * (reduced.shape.rank - 1))
        return tf.where(is_empty, tf.zeros_like(reduced), reduced)

    return reduce_and_clear


OPERATIONS: dict[str, Reduction] = {
    "max": tf.math.unsorted_segment_max,
    "max_no_inf": _zero_if_empty(tf.math.unsorted_segment_max),
    "mean": tf.math.unsorted_segment_mean,
    "min": tf.math.unsorted_segment_min,
    "min_no_inf": _zero_if_empty(tf.math.unsorted_segment_min),
    "prod": tf.math.unsorted_segment_prod,
    "sum": tf.math.unsorted_segment_sum,
}


def operations(reduce_type: str, caller: str) -> list[Reduction]:
    """Looks up the reductions in a "|"-separated list of names."""
    if not reduce_type:
        raise ValueError(f"{caller} requires one or more reduce types, separated by '|', but got '{reduce_type}'.")
    names = reduce_type.split("|")
    for name in names:
        if name not in OPERATIONS:
            raise KeyError(
                f"{caller} requires known names in `reduce_type`; got '{name}' in '{reduce_type}'. "
                f"Known are {sorted(OPERATIONS)}."
            )
    return [OPERATIONS[name] for name in names]


def join(results: Sequence[Field], reduce_type: str, caller: str) -> Field:
    """Concatenates the results of several reductions along the last axis."""
    if len(results) == 1:
        return results[0]
    ranks = [result.shape.rank for result in results]
    if len(set(ranks)) > 1 or ranks[0] is None or ranks[0] < 2:
        raise ValueError(
            f"{caller} with multiple reduce_types {reduce_type} requires all their results to have the same known "
            f"rank >= 2, to allow concatenation along the last feature axis, but got ranks {ranks}."
        )
    return tf.concat(results, axis=-1)


def get_registered_reduce_operation_names() -> list[str]:
    """Returns the names that `reduce_type` of the pooling functions can take."""
    return list(OPERATIONS)


@becomes_keras_layer
def pool(
    graph_tensor: GraphTensor,
    to_tag: const.IncidentNodeOrContextTag,
    *,
    edge_set_name: NameOrNames = None,
    node_set_name: NameOrNames = None,
    reduce_type: str,
    feature_value: Sequence[const.Field] | const.Field | None = None,
    feature_name: const.FieldName | None = None,
) -> const.Field:
    """Pools values from edges to incident nodes, or from nodes or edges to the context.

    Several sets are pooled as if they were one: a "mean" over edge sets "a" and "b" divides the
    sum over both by the number of edges in both. The reduce types, each with its result for a
    receiver without values, are "sum" (0), "mean" (0), "prod" (1), "max" (lowest value of the
    dtype), "min" (highest value), "max_no_inf" and "min_no_inf" (0).

    Args:
        graph_tensor: a scalar graph.
        to_tag: where to pool to: `CONTEXT`, or the nodes at one end of the edges, such as `TARGET`.
        edge_set_name: the edge set, or a non-empty sequence of edge sets, to pool from. Unless
            `to_tag` is `CONTEXT`, they must have the same node set at that end.
        node_set_name: the node set, or a non-empty sequence of node sets, to pool from; only with
            `CONTEXT`, and then either this or `edge_set_name`.
        reduce_type: name of a reduction, or several joined by "|", such as "mean|sum"; their
            results are concatenated along the last axis in this order.
        feature_value: numeric, dense or ragged, shape [num_items, *feature_shape]; a sequence of
            such fields if and only if the sets are given as a sequence. Either this or
            `feature_name`. Ragged values with the same receiver are aligned at their starts.
        feature_name: name of a feature that each of the sets has.

    Returns:
        Field of shape [num_receivers, *feature_shape] and the dtype of the feature, except that a
        mean of integers is float64. XLA-compatible if dense.

    Raises:
        ValueError: if the graph is not scalar or the arguments do not go together.
        KeyError: if `reduce_type` names an unknown reduction.
        tf.errors.InvalidArgumentError: if values are not numeric, or not one per item; in a
            tf.function TypeError and ValueError.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([2, 0]), target=tf.constant([1, 1]), node_features=tf.zeros([3, 1]),
        ...     edge_features={"weight": tf.constant([[4.], [6.]])})
        >>> tfx_gnn.pool(graph, tfx_gnn.TARGET, edge_set_name="edges", reduce_type="mean|sum",
        ...              feature_name="weight").numpy().tolist()
        [[0.0, 0.0], [5.0, 10.0], [0.0, 0.0]]
    """
    caller = "pool()"
    check_scalar_graph_tensor(graph_tensor, caller)
    sources = resolve_item_sets(to_tag, edge_set_name=edge_set_name, node_set_name=node_set_name, caller=caller)
    values = feature_values(graph_tensor, sources, feature_value, feature_name, caller=caller)
    return reduce_to_receivers(graph_tensor, sources, values, reduce_type, caller=caller)


@becomes_keras_layer
def pool_edges_to_node(
    graph_tensor: GraphTensor,
    edge_set_name: const.EdgeSetName,
    node_tag: const.IncidentNodeTag,
    reduce_type: str = "sum",
    *,
    feature_value: const.Field | None = None,
    feature_name: const.FieldName | None = None,
) -> const.Field:
    """Pools values from edges to the nodes at one of their ends.

    Args:
        graph_tensor: a scalar graph.
        edge_set_name: the edge set to pool from.
        node_tag: the end that receives, such as `TARGET`.
        reduce_type: as for `pool`.
        feature_value: shape [num_edges, *feature_shape]. Either this or `feature_name`.
        feature_name: name of a feature of the edge set.

    Returns:
        Field of shape [num_nodes, *feature_shape], see `pool`.

    Raises:
        ValueError: if the graph is not scalar, or not exactly one feature is given.
        KeyError: if `reduce_type` names an unknown reduction.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.pool_edges_to_node(
        ...     graph, "edges", tfx_gnn.TARGET, "sum", feature_value=tf.constant([1.0, 2.0])).numpy().tolist()
        [0.0, 1.0, 2.0]
    """
    return _pool_one(
        graph_tensor,
        ItemSets(node_tag, (edge_set_name,), are_edge_sets=True),
        reduce_type,
        feature_value,
        feature_name,
        caller="pool_edges_to_node()",
    )


@becomes_keras_layer
def pool_nodes_to_context(
    graph_tensor: GraphTensor,
    node_set_name: const.NodeSetName,
    reduce_type: str = "sum",
    *,
    feature_value: const.Field | None = None,
    feature_name: const.FieldName | None = None,
) -> const.Field:
    """Pools values from nodes to their graph components.

    Args:
        graph_tensor: a scalar graph.
        node_set_name: the node set to pool from.
        reduce_type: as for `pool`.
        feature_value: shape [num_nodes, *feature_shape]. Either this or `feature_name`.
        feature_name: name of a feature of the node set.

    Returns:
        Field of shape [num_components, *feature_shape], see `pool`.

    Raises:
        ValueError: if the graph is not scalar, or not exactly one feature is given.
        KeyError: if `reduce_type` names an unknown reduction.
    """
    return _pool_one(
        graph_tensor,
        ItemSets(const.CONTEXT, (node_set_name,), are_edge_sets=False),
        reduce_type,
        feature_value,
        feature_name,
        caller="pool_nodes_to_context()",
    )


@becomes_keras_layer
def pool_edges_to_context(
    graph_tensor: GraphTensor,
    edge_set_name: const.EdgeSetName,
    reduce_type: str = "sum",
    *,
    feature_value: const.Field | None = None,
    feature_name: const.FieldName | None = None,
) -> const.Field:
    """Pools values from edges to their graph components.

    Args:
        graph_tensor: a scalar graph.
        edge_set_name: the edge set to pool from.
        reduce_type: as for `pool`.
        feature_value: shape [num_edges, *feature_shape]. Either this or `feature_name`.
        feature_name: name of a feature of the edge set.

    Returns:
        Field of shape [num_components, *feature_shape], see `pool`.

    Raises:
        ValueError: if the graph is not scalar, or not exactly one feature is given.
        KeyError: if `reduce_type` names an unknown reduction.
    """
    return _pool_one(
        graph_tensor,
        ItemSets(const.CONTEXT, (edge_set_name,), are_edge_sets=True),
        reduce_type,
        feature_value,
        feature_name,
        caller="pool_edges_to_context()",
    )


@becomes_keras_layer
def node_degree(
    graph_tensor: GraphTensor, edge_set_name: const.EdgeSetName, node_tag: const.IncidentNodeTag
) -> tf.Tensor:
    """Counts, for each node, the edges that have it at a given end.

    Args:
        graph_tensor: a scalar graph.
        edge_set_name: the edge set.
        node_tag: the end, such as `SOURCE` (out-degree) or `TARGET` (in-degree).

    Returns:
        Tensor of shape [num_nodes] and the graph's `indices_dtype`.

    Raises:
        ValueError: if the graph is not scalar or the tag is not an integer.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.node_degree(graph, "edges", tfx_gnn.TARGET).numpy().tolist()
        [0, 1, 1]
    """
    caller = "node_degree()"
    check_scalar_graph_tensor(graph_tensor, caller)
    edge_sets = resolve_item_sets(node_tag, edge_set_name=edge_set_name, node_set_name=None, caller=caller)
    if not isinstance(node_tag, int):
        raise ValueError(f"Node set tag must be integer for {caller}, such as tfx_gnn.TARGET; got {node_tag!r}.")
    index = graph_tensor.edge_sets[edge_set_name].adjacency[node_tag]
    return reduce_to_receivers(graph_tensor, edge_sets, [tf.ones_like(index)], "sum", caller=caller)


def feature_values(
    graph: GraphTensor,
    sources: ItemSets,
    feature_value: Sequence[const.Field] | const.Field | None,
    feature_name: const.FieldName | None,
    *,
    caller: str,
) -> list[const.Field]:
    """Collects the values to reduce, one field of shape [num_items, *feature_shape] for each set."""
    check_one_feature(feature_value, feature_name, caller=caller)
    pieces = sources.pieces(graph)
    if feature_name is not None:
        values: list[Any] = [piece[feature_name] for piece in pieces]
        _check_feature_shapes(sources, values, feature_name, caller=caller)
        return values
    is_sequence = isinstance(feature_value, (list, tuple))
    if is_sequence != sources.came_as_sequence:
        raise ValueError(
            f"{caller} allows a Sequence as feature_value if and only if the edge_set_name or node_set_name is "
            f"also a Sequence; got {type(feature_value).__name__} for names {list(sources.names)}."
        )
    values = list(feature_value) if is_sequence else [feature_value]  # type: ignore[arg-type]
    if len(values) != len(pieces):
        raise ValueError(
            f"{caller} requires the same number of {'edge' if sources.are_edge_sets else 'node'}_set_names and "
            f"feature_values but got {len(pieces)} and {len(values)}."
        )
    values = [value if isinstance(value, tf.RaggedTensor) else tf.convert_to_tensor(value) for value in values]
    for name, piece, value in zip(sources.names, pieces, values, strict=True):
        num_items = piece.spec.total_size
        if not value.shape[:1].is_compatible_with([num_items]):
            raise wrong_shape(
                f"{caller} requires `feature_value` to hold one value per item; got shape {value.shape} "
                f"for the {num_items} items of '{name}'. Take both from the same set."
            )
    _check_feature_shapes(sources, values, None, caller=caller)
    return values


def _check_feature_shapes(
    sources: ItemSets, values: Sequence[Any], feature_name: const.FieldName | None, *, caller: str
) -> None:
    shapes = [value.shape[1:] for value in values]
    if all(shape.is_compatible_with(shapes[0]) for shape in shapes):
        return
    what = "feature shapes" if feature_name is None else f"shapes of feature '{feature_name}'"
    kind = "edge" if sources.are_edge_sets else "node"
    listed = (
        f"{kind} set '{name}' has feature shape {shape.as_list()}"
        for name, shape in zip(sources.names, shapes, strict=True)
    )
    raise ValueError(
        f"Cannot {caller} incompatible {what}: {', '.join(listed)}. "
        "Pool each set by itself, or give them features of one shape."
    )


def reduce_to_receivers(
    graph: GraphTensor, sources: ItemSets, values: Sequence[const.Field], reduce_type: str, *, caller: str
) -> const.Field:
    """Reduces the values of one or several sets to the receivers given by `sources.tag`."""
    reduce_operations = operations(reduce_type, caller)
    if values[0].dtype in (tf.string, tf.bool):
        raise wrong_dtype(
            f"{caller} requires numeric values; got {values[0].dtype.name} from {list(sources.names)}. "
            "Cast bool to a number; convert strings to numbers or vectors first."
        )
    if sources.are_edge_sets:
        values = [gate_messages(graph, name, value) for name, value in zip(sources.names, values, strict=True)]
    segment_ids, num_segments = _receivers(graph, sources, caller)
    names, tag = reduce_type.split("|"), sources.tag
    if isinstance(tag, int) and set(names) <= sorted_aggregation.REDUCE_TYPES and _are_sorted(graph, sources, values):
        total = tf.add_n(
            [
                SortedEdges(piece.adjacency).sum(tag, value, num_segments)
                for piece, value in zip(sources.pieces(graph), values, strict=True)
            ]
        )
        results: list[Any] = sums_and_means(names, total, segment_ids, num_segments)
    else:
        ids = segment_ids[0] if len(segment_ids) == 1 else tf.concat(segment_ids, axis=0)
        data = values[0] if len(values) == 1 else tf.concat(values, axis=0)
        results = [reduce(data, ids, num_segments) for reduce in reduce_operations]
    return join(results, reduce_type, caller)


def _pool_one(
    graph: GraphTensor,
    sources: ItemSets,
    reduce_type: str,
    feature_value: const.Field | None,
    feature_name: const.FieldName | None,
    *,
    caller: str,
) -> const.Field:
    check_scalar_graph_tensor(graph, caller)
    (name,) = sources.names
    if not isinstance(name, str):
        kind = "edge" if sources.are_edge_sets else "node"
        raise TypeError(
            f"{caller} requires {kind}_set_name to be a string, got {name!r}. Use pool() for several sets at once."
        )
    values = feature_values(graph, sources, feature_value, feature_name, caller=caller)
    return reduce_to_receivers(graph, sources, values, reduce_type, caller=caller)


def _are_sorted(graph: GraphTensor, sources: ItemSets, values: Sequence[const.Field]) -> bool:
    return all(
        sorted_aggregation.applies(piece.adjacency, sources.tag, value)
        for piece, value in zip(sources.pieces(graph), values, strict=True)
    )


def _receivers(graph: GraphTensor, sources: ItemSets, caller: str) -> tuple[list[tf.Tensor], tf.Tensor]:
    pieces = sources.pieces(graph)
    if isinstance(sources.tag, int):
        node_set_name = common_node_set_name(graph, sources.names, sources.tag, caller=caller)
        indices = [piece.adjacency[sources.tag] for piece in pieces]
        num_receivers = graph.node_sets[node_set_name].total_size
    else:
        indices = [component_indices(piece.sizes, piece.total_size) for piece in pieces]
        num_receivers = graph.total_num_components
    return indices, num_receivers
