"""Run-time assertions that the pieces of a graph are consistent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from tfx_gnn.graph.tensor import fields
from tfx_gnn.graph.tensor.symbolic_calls import refuses_keras_tensors

if TYPE_CHECKING:
    from tfx_gnn.graph.tensor.graph_tensor import GraphTensor


@refuses_keras_tensors()
def assert_constraints(graph: GraphTensor) -> tf.Operation | None:
    """Asserts that everything in a graph fits together, whatever the process-wide setting.

    Features must have as many values as their set has items, edges must join existing nodes,
    and all sets must have the same components.

    Args:
        graph: scalar or batched graph.

    Returns:
        Operation that makes the checks; None in eager mode, where they have been made.

    Raises:
        tf.errors.InvalidArgumentError: at once in eager mode, else when the graph function runs.
    """
    pieces = (graph.context, *graph.node_sets.values(), *graph.edge_sets.values())
    checks = [check for piece in pieces for check in piece._assert_sizes_match()]
    for edge_set in graph.edge_sets.values():
        checks += edge_set.adjacency._assert_ends_agree()
        checks += edge_set._assert_edge_counts_match()
    return tf.group(*checks, *_assert_same_components(graph), *assert_valid(graph))


def _assert_same_components(graph: GraphTensor) -> list[tf.Operation]:
    checks = []
    expected = tf.reshape(graph.num_components, [-1])
    for kind, sets in (("node", graph.node_sets), ("edge", graph.edge_sets)):
        for name, piece in sets.items():
            message = (
                f"The number of components of {kind} set {name} must be equal to that of the other sets and of the "
                "context."
            )
            found = tf.reshape(piece.num_components, [-1])
            checks.append(tf.debugging.assert_equal(found, expected, message=message))
    return [check for check in checks if check is not None]


def assert_valid(graph: GraphTensor, *, one_end: bool = False) -> list[tf.Operation]:
    """Asserts that all edges join existing nodes.

    Like TF-GNN, this lets pass that sets have different components, which not every function minds. With `one_end`,
    only the first end is looked at where several ends of an edge set are in one node set.
    """
    checks = []
    for edge_set_name, edge_set in graph.edge_sets.items():
        ends = list(edge_set.adjacency.get_indices_dict().values())
        if one_end:
            ends = list(dict(reversed(ends)).items())
        for node_set_name, index in ends:
            counts = graph.node_sets[node_set_name]._items_per_graph()
            limits = tf.repeat(counts, fields.items_per_graph(index, graph.rank, counts.dtype))
            flat = fields.merge_outer_dimensions(index, graph.rank)
            where = f"The edge set {edge_set_name} adjacency indices for the node set {node_set_name}"
            checks += [
                tf.debugging.assert_less(flat, limits, message=f"{where} must be less than the number of nodes."),
                tf.debugging.assert_non_negative(flat, message=f"{where} must not be negative"),
            ]
    return [check for check in checks if check is not None]
