"""Switches of the checks of graphs, assertions for run time, and the errors that checks raise.

Static checks (shapes known before anything runs) are on by default. Run-time checks add
assertion ops to every new piece and are off by default; the parsers have checks of their own.
Both are switched for the whole process.

Errors have the types that TensorFlow's own operations raise, so that code that catches those need
not know which of the checks came first: outside of `tf.function` that is an InvalidArgumentError, and
while a function is traced a ValueError for shapes and a TypeError for dtypes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import tensorflow as tf

from tfx_gnn.graph.tensor import fields
from tfx_gnn.graph.tensor.symbolic_calls import refuses_keras_tensors

if TYPE_CHECKING:
    from tfx_gnn.graph.tensor.graph_tensor import GraphTensor


def wrong_shape(message: str) -> Exception:
    """Makes the error for a wrong shape: InvalidArgumentError in eager mode, else ValueError."""
    return tf.errors.InvalidArgumentError(None, None, message) if tf.executing_eagerly() else ValueError(message)


def wrong_dtype(message: str) -> Exception:
    """Makes the error for a wrong dtype: InvalidArgumentError in eager mode, else TypeError."""
    return tf.errors.InvalidArgumentError(None, None, message) if tf.executing_eagerly() else TypeError(message)


_Value = TypeVar("_Value")


def after_checks(checks: Iterable[tf.Operation | None], value: _Value) -> _Value:
    """Returns a value whose use makes sure that assertions run first.

    None stands for an assertion that has run already, in eager mode.
    """
    operations = [check for check in checks if check is not None]
    if not operations:
        return value
    with tf.control_dependencies(operations):
        return tf.nest.map_structure(tf.identity, value, expand_composites=True)


@dataclasses.dataclass
class _Switches:
    static: bool = True
    runtime: bool = False


_switches = _Switches()


def enable_graph_tensor_validation() -> None:
    """Turns the static checks of new graph pieces on (the default)."""
    _switches.static = True


def disable_graph_tensor_validation() -> None:
    """Turns all checks of new graph pieces off, static ones and those at run time."""
    _switches.static = False
    _switches.runtime = False


def enable_graph_tensor_validation_at_runtime() -> None:
    """Turns all checks on: new graph pieces also hold assertions on sizes and indices.

    The assertions raise `tf.errors.InvalidArgumentError` when the values are known, that is at
    once in eager mode and when a traced function runs.
    """
    _switches.static = True
    _switches.runtime = True


def disable_graph_tensor_validation_at_runtime() -> None:
    """Turns the assertions at run time off (the default); static checks stay as they are."""
    _switches.runtime = False


def checks_statically() -> bool:
    """Tells whether static checks are wanted."""
    return _switches.static


def checks_at_runtime(validate: bool | None = None) -> bool:
    """Tells whether assertion ops are wanted, by the caller or, for None, by the process-wide switch.

    Without static checks there are none at run time either, whatever the caller asks for.
    """
    return _switches.static and (_switches.runtime if validate is None else validate)


def checks_sizes_statically(validate: bool | None = None) -> bool:
    """Tells whether static shapes should stand in for the assertions on sizes.

    That is, to find mistakes even if no assertions were asked for; but where there are assertions,
    they are to raise their own error.
    """
    return _switches.static and validate is not False and not checks_at_runtime(validate)


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
