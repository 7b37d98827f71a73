"""Switches graph checks on and off, makes run-time assertions, and makes the errors that checks raise.

Static checks (of shapes known before anything runs) are on by default. Run-time checks add
assertion ops to every new piece and are off by default; the parsers have their own checks.
Both switches apply to the whole process.

Errors have the same types as those of TensorFlow's own operations, so callers need not know whether
our check or TensorFlow's failed first: InvalidArgumentError outside of `tf.function`; while a
function is traced, ValueError for shapes and TypeError for dtypes.
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
    """Returns a copy of a value; the assertions run before any use of the copy.

    None stands for an assertion that has already run, in eager mode.
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
    """Turns on the static checks of new graph pieces (the default)."""
    _switches.static = True


def disable_graph_tensor_validation() -> None:
    """Turns off all checks of new graph pieces, static and at run time."""
    _switches.static = False
    _switches.runtime = False


def enable_graph_tensor_validation_at_runtime() -> None:
    """Turns on all checks: new graph pieces also get assertions on sizes and indices.

    The assertions raise `tf.errors.InvalidArgumentError` when the values are known: immediately in
    eager mode, or when a traced function runs.
    """
    _switches.static = True
    _switches.runtime = True


def disable_graph_tensor_validation_at_runtime() -> None:
    """Turns off the run-time assertions (the default); static checks do not change."""
    _switches.runtime = False


def checks_statically() -> bool:
    """Returns whether static checks are on."""
    return _switches.static


def checks_at_runtime(validate: bool | None = None) -> bool:
    """Returns whether to add assertion ops: as `validate` says or, for None, the process-wide switch.

    If static checks are off, there are no run-time checks either, regardless of `validate`.
    """
    return _switches.static and (_switches.runtime if validate is None else validate)


def checks_sizes_statically(validate: bool | None = None) -> bool:
    """Returns whether to check sizes by static shapes instead of by assertions.

    This finds mistakes even without assertions. If there are assertions, they raise their own errors.
    """
    return _switches.static and validate is not False and not checks_at_runtime(validate)


@refuses_keras_tensors()
def assert_constraints(graph: GraphTensor) -> tf.Operation | None:
    """Asserts that all parts of a graph are consistent, regardless of the process-wide setting.

    Features must have as many values as their set has items, edges must connect existing nodes,
    and all sets must have the same components.

    Args:
        graph: scalar or batched graph.

    Returns:
        Operation that runs the checks; None in eager mode, where they have already run.

    Raises:
        tf.errors.InvalidArgumentError: if a check fails; raised immediately in eager mode, else
            when the tf.function runs.
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
    """Asserts that all edges connect existing nodes.

    Like TF-GNN, it does not check that all sets have the same components, which not every function requires. With
    `one_end`, if several ends of an edge set are in one node set, only the first of them is checked.
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
