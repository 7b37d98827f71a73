"""Size constraints (the padding budget of a batch of graphs), and the rule that decides which sizes fit them."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Union

import numpy as np
import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec

Size = Union[int, tf.Tensor]
#: NumPy arrays, or tensors if a size is not yet known.
Array = Any
SetKey = tuple[const.SetType, const.SetName]


class SizeConstraints(NamedTuple):
    """The numbers of components, nodes and edges that a batch of graphs is padded to: its padding budget.

    Attributes:
        total_num_components: number of graph components, padding included.
        total_num_nodes: number of nodes by node set, over all components, padding included.
        total_num_edges: number of edges by edge set, over all components, padding included.
        min_nodes_per_component: minimum number of nodes by node set in each component, padding
            components included. Node sets that are not named may be empty. An empty mapping or
            tuple means that there is no minimum.

    Example:
        >>> budget = tfx_gnn.SizeConstraints(total_num_components=2, total_num_nodes={"docs": 8}, total_num_edges={})
        >>> budget.total_num_nodes
        {'docs': 8}
    """

    total_num_components: Size
    total_num_nodes: Mapping[const.NodeSetName, Size]
    total_num_edges: Mapping[const.EdgeSetName, Size]
    min_nodes_per_component: Union[Mapping[const.NodeSetName, Size], tuple[tuple[const.NodeSetName, Size], ...]] = ()


def with_room_for_padding(
    sizes: SizeConstraints, *, padded_incident_node_sets: Collection[const.NodeSetName]
) -> SizeConstraints:
    """Enlarges the sizes of the largest batch to constraints that every smaller batch can be padded to.

    Padding goes into separate components, so there must be room for one. That component must have
    the minimum number of nodes, and a padding edge needs a padding node at each end, in
    `padded_incident_node_sets`. If there is a minimum, all graphs must have the same number of
    components: a graph with fewer components needs more padding components, and each of them must
    have the minimum number of nodes.
    """
    demand = dict(sizes.min_nodes_per_component)
    room = {
        name: max(demand.get(name, 0), 1 if name in padded_incident_node_sets else 0) for name in sizes.total_num_nodes
    }
    return sizes._replace(
        total_num_components=sizes.total_num_components + 1,
        total_num_nodes={name: size + room[name] for name, size in sizes.total_num_nodes.items()},
    )


def sizes_that_leave_room(
    constraints: SizeConstraints, *, padded_node_sets: Collection[const.NodeSetName]
) -> SizeConstraints:
    """Reduces constraints so that every batch that fits the result has a padding node in each of the named node sets.

    Such a batch is to be padded to the given constraints, to which it adds a padding component with these nodes.
    """
    demand = dict(constraints.min_nodes_per_component)
    room = {
        name: max(demand.get(name, 0), 1 if name in padded_node_sets else 0) for name in constraints.total_num_nodes
    }
    return constraints._replace(
        total_num_components=constraints.total_num_components - 1,
        total_num_nodes={name: size - room[name] for name, size in constraints.total_num_nodes.items()},
    )


@dataclasses.dataclass(frozen=True)
class SizeRule:
    """Size constraints in the form of arrays over all node sets, then all edge sets.

    Attributes:
        sets: the sets that the arrays describe, in order: ("nodes", name), ..., ("edges", name), ...
        target_components: number of components, padding included.
        targets: number of items of each set, padding included; shape [num_sets].
        demands: minimum number of items of each set in a padding component; shape [num_sets].
        edge_positions: positions in `sets` of the edge set of each edge end; shape [num_ends].
        end_positions: positions in `sets` of the node set of each edge end; shape [num_ends].
    """

    sets: tuple[SetKey, ...]
    target_components: Size
    targets: Array
    demands: Array
    edge_positions: Array
    end_positions: Array

    @classmethod
    def from_constraints(cls, spec: GraphTensorSpec, constraints: SizeConstraints) -> SizeRule:
        """Makes the rule for graphs of a type; the constraints must name each node set and edge set."""
        minima = dict(constraints.min_nodes_per_component)
        nodes, edges = list(spec.node_sets_spec), list(spec.edge_sets_spec)
        ends = [
            (len(nodes) + position, nodes.index(end))
            for position, name in enumerate(edges)
            for end, _ in spec.edge_sets_spec[name].adjacency_spec.get_index_specs_dict().values()
        ]
        edge_positions, end_positions = np.array(ends, dtype=np.int64).reshape([-1, 2]).T
        return cls(
            sets=tuple([(const.NODES, name) for name in nodes] + [(const.EDGES, name) for name in edges]),
            target_components=as_size(constraints.total_num_components),
            targets=stack_sizes(
                [target_size(constraints.total_num_nodes, name, const.NODES) for name in nodes]
                + [target_size(constraints.total_num_edges, name, const.EDGES) for name in edges]
            ),
            demands=stack_sizes([as_size(minima.get(name, 0)) for name in nodes] + [0] * len(edges)),
            edge_positions=edge_positions,
            end_positions=end_positions,
        )

    def fits(self, num_components: Array, sizes: Array) -> Array:
        """Returns whether total sizes, int64 of shape [..., num_sets], can be padded to the targets.

        The result, of shape [...], is a NumPy array if all sizes are known, else a tensor.
        """
        num_fake = self.target_components - num_components
        num_fake_per_set = num_fake[..., np.newaxis]
        is_full = _equal(sizes, self.targets)
        conditions = [
            sizes <= self.targets,
            sizes + self.demands * num_fake_per_set <= self.targets,
            # A set below its target needs a padding component, and padding edges need a padding node at each end.
            is_full | (num_fake_per_set > 0),
            _take(is_full, self.edge_positions) | _take(sizes < self.targets, self.end_positions),
        ]
        if not any(tf.is_tensor(condition) for condition in [num_fake, *conditions]):
            return np.concatenate(conditions, axis=-1).all(axis=-1) & (num_fake >= 0)
        return tf.reduce_all(tf.concat(conditions, axis=-1), axis=-1) & tf.greater_equal(num_fake, 0)

    def fits_each(self, num_components: Array, sizes: Sequence[Array]) -> Array:
        """Does the same as `fits` for many graphs, given one vector per set instead of a matrix.

        XLA fuses these formulas into one loop, which matrices with a short last dimension prevent.
        """
        num_fake = self.target_components - num_components
        is_full = [size == self.targets[row] for row, size in enumerate(sizes)]
        fits = (num_fake > 0) | functools.reduce(operator.and_, is_full, num_fake >= 0)
        for row, size in enumerate(sizes):
            fits &= (size <= self.targets[row]) & (size + self.demands[row] * num_fake <= self.targets[row])
        for edge, end in zip(self.edge_positions.tolist(), self.end_positions.tolist(), strict=True):
            fits &= is_full[edge] | (sizes[end] < self.targets[end])
        return fits

    def is_exceeded(self, num_components: Size, sizes: list[Size]) -> bool:
        """Returns whether any size that is known now exceeds its target.

        If False, `fits` may still be False at run time.
        """
        targets = [self.target_components, *(self.targets.tolist() if isinstance(self.targets, np.ndarray) else [])]
        known = zip([num_components, *sizes], targets, strict=False)
        return any(isinstance(size, int) and isinstance(target, int) and size > target for size, target in known)


def target_size(sizes: Any, name: str, kind: str) -> Size:
    """Looks up the total number of nodes or edges of a set, which the constraints must name."""
    if name not in sizes:
        raise ValueError(
            f"The target total number of <{name}> {kind} must be specified as "
            f"`total_sizes.total_num_{kind}[<{name}>]`; "
            f"got {kind} of {sorted(sizes)} only."
        )
    return as_size(sizes[name])


def as_size(size: Size) -> Size:
    """Returns a size as an int if its value is known, else as an int64 scalar tensor."""
    if isinstance(size, (tf.Tensor, tf.Variable)):
        value = tf.get_static_value(size)
        return tf.cast(size, tf.int64) if value is None else int(value)
    return int(size)


def stack_sizes(sizes: list[Size]) -> Array:
    """Stacks sizes to an int64 vector: a NumPy array if all are ints, else a tensor."""
    if all(isinstance(size, int) for size in sizes):
        return np.array(sizes, dtype=np.int64)
    return tf.stack([tf.cast(size, tf.int64) for size in sizes])


def _equal(left: Array, right: Array) -> Array:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left == right
    return tf.equal(left, right)


def _take(values: Array, positions: Array) -> Array:
    return values[..., positions] if isinstance(values, np.ndarray) else tf.gather(values, positions, axis=-1)
