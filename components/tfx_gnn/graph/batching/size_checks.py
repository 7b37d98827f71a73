"""Checks that a graph fits size constraints; the messages name the constraint that it breaks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, Union

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.size_constraints import Size, SizeConstraints, SizeRule, as_size, stack_sizes, target_size
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet, NodeSet
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer, refuses_keras_tensors

# Sizes and conditions that are known at tracing time stay Python values.
_Condition = Union[bool, tf.Tensor]


@becomes_keras_layer
def satisfies_size_constraints(graph_tensor: GraphTensor, total_sizes: SizeConstraints) -> tf.Tensor:
    """Returns whether a graph can be padded to the given sizes.

    The rules are: the components fit; each component has the minimum number of nodes; nodes and
    edges fit, together with the minimum number of nodes of padding components; if any set is
    smaller than its target, at least one component can be added; and if an edge set is smaller
    than its target, at least one node can be added at each end.

    Args:
        graph_tensor: a graph of any rank; a batch is checked as if it were merged.
        total_sizes: the constraints; they must name each node set and edge set of the graph.

    Returns:
        Scalar bool tensor; a constant if all sizes are static.

    Raises:
        ValueError: if the constraints lack a set of the graph.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([2]), target=tf.constant([1]), node_features=tf.zeros([3, 1]))
        >>> constraints = tfx_gnn.SizeConstraints(2, {"nodes": 4}, {"edges": 5})
        >>> bool(tfx_gnn.satisfies_size_constraints(graph, constraints))
        True
    """
    holds = _all_hold(graph_tensor, total_sizes)
    return tf.cast(holds, tf.bool)


@refuses_keras_tensors()
def assert_satisfies_size_constraints(
    graph_tensor: GraphTensor, size_constraints: SizeConstraints
) -> list[tf.Operation]:
    """Raises an error that names the broken rule unless a graph can be padded to the given sizes.

    Args:
        graph_tensor: as for `satisfies_size_constraints`.
        size_constraints: as for `satisfies_size_constraints`.

    Returns:
        Assertion ops for `tf.control_dependencies`; empty in eager mode and for static sizes, which
        are checked immediately.

    Raises:
        ValueError: if the constraints lack a set of the graph.
        tf.errors.InvalidArgumentError: if a rule is broken; raised at run time if sizes are not
            static.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.assert_satisfies_size_constraints(graph, tfx_gnn.SizeConstraints(2, {"nodes": 4}, {"edges": 5}))
        []
    """
    holds = _all_hold(graph_tensor, size_constraints)
    if holds is True:
        return []
    if holds is False:
        _raise_for_broken_rule(graph_tensor, size_constraints)
    # A single condition decides; the individual rules are evaluated only if it fails.
    operation = tf.cond(holds, tf.no_op, lambda: tf.group(*_rule_assertions(graph_tensor, size_constraints)))
    return [operation.op if isinstance(operation, tf.Tensor) else operation]


# Both names are public.
satisfies_total_sizes = satisfies_size_constraints
assert_satisfies_total_sizes = assert_satisfies_size_constraints


def num_components_of(graph: GraphTensor) -> Size:
    """Returns the number of components of a graph, as an int if it is static."""
    static = graph.spec.total_num_components
    return as_size(graph.total_num_components) if static is None else int(static)


def num_items_of(piece: NodeSet | EdgeSet) -> Size:
    """Returns the number of nodes or edges of a set, as an int if it is static."""
    static = piece.spec.total_size
    return as_size(piece.total_size) if static is None else int(static)


def sizes_by_graph(graphs: GraphTensor, demands: Mapping[const.NodeSetName, Size]) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts components, nodes and edges of each graph of a batch, int64 of shape [num_graphs, 1 + num_sets].

    Also returns, for each graph, whether all its components have the minimum numbers of nodes in `demands`.
    """
    pieces = [*graphs.node_sets.values(), *graphs.edge_sets.values()]
    counts = [tf.reduce_sum(tf.cast(piece.sizes, tf.int64), axis=-1) for piece in pieces]
    sizes = tf.stack([tf.cast(graphs.num_components, tf.int64), *counts], axis=1)
    is_enough = tf.ones_like(sizes[:, 0], tf.bool)
    for name, demand in demands.items():
        enough = tf.cast(graphs.node_sets[name].sizes, tf.int64) >= tf.cast(demand, tf.int64)
        is_enough &= tf.reduce_all(enough, axis=-1)
    return sizes, is_enough


def _all_hold(graph: GraphTensor, constraints: SizeConstraints) -> _Condition:
    """Evaluates all rules of `_checks` together, with few operations."""
    rule = SizeRule.from_constraints(graph.spec, constraints)
    pieces = [*graph.node_sets.values(), *graph.edge_sets.values()]
    num_components = stack_sizes([num_components_of(graph)])[0]
    sizes = [num_items_of(piece) for piece in pieces]
    if rule.is_exceeded(num_components_of(graph), sizes):
        return False
    conditions = [rule.fits(num_components, stack_sizes(sizes))]
    minima = dict(constraints.min_nodes_per_component)
    for name, node_set in graph.node_sets.items():
        minimum = as_size(minima.get(name, 0))
        if not (isinstance(minimum, int) and minimum == 0):
            conditions.append(tf.reduce_all(_component_sizes(node_set) >= tf.cast(minimum, tf.int64)))
    known = [tf.get_static_value(condition) for condition in conditions]
    if any(value is not None and not value for value in known):
        return False
    unknown = [condition for condition, value in zip(conditions, known, strict=True) if value is None]
    return tf.reduce_all(tf.stack(unknown)) if unknown else True


def _component_sizes(node_set: NodeSet) -> tf.Tensor:
    sizes = node_set.sizes
    return tf.cast(sizes.flat_values if isinstance(sizes, tf.RaggedTensor) else sizes, tf.int64)


def _rule_assertions(graph: GraphTensor, constraints: SizeConstraints) -> list[tf.Operation]:
    return [
        # `tf.debugging.Assert` would trace a condition around each, but all of them are within one already.
        tf.raw_ops.Assert(condition=check.holds, data=[check.message, "Got", *check.got])
        for check in _checks(graph, constraints)
        if check.holds is not True
    ]


def _raise_for_broken_rule(graph: GraphTensor, constraints: SizeConstraints) -> NoReturn:
    broken = next(check for check in _checks(graph, constraints) if check.holds is False)
    raise tf.errors.InvalidArgumentError(None, None, f"{broken.message} Got {_text_of(broken.got)}.")


@dataclasses.dataclass(frozen=True)
class _Check:
    holds: _Condition
    message: str
    got: tuple[Any, ...]


# "then it is allowed" is TF-GNN's spelling, kept for code that matches TF-GNN's messages.
def _checks(graph: GraphTensor, constraints: SizeConstraints) -> Iterator[_Check]:
    minima = dict(constraints.min_nodes_per_component)
    num_components = num_components_of(graph)
    target_components = as_size(constraints.total_num_components)
    yield _check(
        num_components <= target_components,
        "Could not pad graph as it already has more graph components then it is allowed by "
        "`total_sizes.total_num_components`.",
        num_components=num_components,
        total_num_components=target_components,
    )
    num_fake = target_components - num_components
    can_add_component = num_fake > 0
    has_room: dict[str, _Condition] = {}
    for name, node_set in graph.node_sets.items():
        size, target = num_items_of(node_set), target_size(constraints.total_num_nodes, name, "nodes")
        minimum = as_size(minima.get(name, 0))
        has_room[name] = size < target
        yield from _node_checks(name, node_set, target, minimum, num_fake)
        yield _needs_component(name, "nodes", can_add_component, size, target)
    for name, edge_set in graph.edge_sets.items():
        size, target = num_items_of(edge_set), target_size(constraints.total_num_edges, name, "edges")
        yield _check(
            size <= target,
            f"Could not pad <{name}> as it already has more edges then it is allowed by the "
            f"`total_sizes.total_num_edges[<{name}>]`.",
            num_edges=size,
            total_num_edges=target,
        )
        yield _needs_component(name, "edges", can_add_component, size, target)
        for node_set_name, _ in edge_set.adjacency.get_indices_dict().values():
            yield _check(
                _or(size == target, has_room[node_set_name]),
                f"Could not create fake incident edges for the node set {node_set_name}: all its "
                f"`total_sizes.total_num_nodes[<{node_set_name}>]` are real nodes, so edges that fill up <{name}> "
                "find no node to connect. Allow at least one node more.",
                num_edges=size,
                total_num_edges=target,
            )


def _node_checks(name: str, node_set: NodeSet, target: Size, minimum: Size, num_fake: Size) -> Iterator[_Check]:
    size = num_items_of(node_set)
    if not (isinstance(minimum, int) and minimum == 0):
        sizes = _component_sizes(node_set)
        yield _check(
            tf.reduce_all(sizes >= tf.cast(minimum, tf.int64)),
            f"Some graph components has fewer <{name}> than it is allowed by the "
            f"`total_sizes.min_nodes_per_component[<{name}>]`.",
            sizes=sizes,
            min_nodes_per_component=minimum,
        )
    too_many = f"Could not pad <{name}> as it already has more nodes then it is allowed by the "
    yield _check(
        size <= target,
        f"{too_many}`total_sizes.total_num_nodes[<{name}>]`.",
        num_nodes=size,
        total_num_nodes=target,
    )
    yield _check(
        size + minimum * num_fake <= target,
        f"{too_many}`total_sizes.total_num_nodes[<{name}>]`, taking into account that at least {_text(minimum)} nodes "
        "should be added to each fake component.",
        num_nodes=size,
        num_fake_components=num_fake,
        total_num_nodes=target,
    )


def _needs_component(name: str, kind: str, can_add_component: _Condition, size: Size, target: Size) -> _Check:
    return _check(
        _or(can_add_component, size == target),
        f"Could not pad <{name}> {kind}. To do this, at least one graph component must be added to the input graph, "
        "but it already has `total_sizes.total_num_components` graph components.",
        **{f"num_{kind}": size, f"total_num_{kind}": target},
    )


def _check(holds: _Condition, message: str, **got: Any) -> _Check:
    if isinstance(holds, tf.Tensor):
        value = tf.get_static_value(holds)
        holds = holds if value is None else bool(value)
    return _Check(holds, message, tuple(part for name, size in got.items() for part in (f"{name}=", size)))


def _or(first: _Condition, second: _Condition) -> _Condition:
    if isinstance(first, bool) and isinstance(second, bool):
        return first or second
    if first is True or second is True:
        return True
    return tf.logical_or(first, second)


def _text_of(got: tuple[Any, ...]) -> str:
    return ", ".join(f"{name}{_plain(value)}" for name, value in zip(got[::2], got[1::2], strict=True))


def _plain(value: Any) -> Any:
    return value.numpy().tolist() if tf.is_tensor(value) and hasattr(value, "numpy") else value


def _text(size: Size) -> str:
    return str(size) if isinstance(size, int) else "the required number of"
