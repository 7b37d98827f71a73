"""Size constraints: the padding budget of a batch of graphs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Union

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const

Size = Union[int, tf.Tensor]


class SizeConstraints(NamedTuple):
    """How many components, nodes and edges a graph holds, or is padded to.

    Attributes:
        total_num_components: number of graph components, padding included.
        total_num_nodes: number of nodes by node set, over all components, padding included.
        total_num_edges: number of edges by edge set, over all components, padding included.
        min_nodes_per_component: smallest number of nodes by node set that each component has,
            those made by padding included. Node sets that are not named may be empty. Empty, as
            mapping or tuple, if there is no such demand.

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

    Padding goes into components of its own, so there must be room for one; that component has the
    smallest number of nodes that is demanded; and a padding edge needs a padding node at each end,
    in `padded_incident_node_sets`. With a demand, graphs must all have the same number of components:
    a graph with fewer needs more padding components, and each of them takes its share of nodes.
    """
    demand = dict(sizes.min_nodes_per_component)
    room = {
        name: max(demand.get(name, 0), 1 if name in padded_incident_node_sets else 0) for name in sizes.total_num_nodes
    }
    return sizes._replace(
        total_num_components=sizes.total_num_components + 1,
        total_num_nodes={name: size + room[name] for name, size in sizes.total_num_nodes.items()},
    )


def tight_size_constraints_from_maxima(
    *,
    max_num_nodes: Mapping[const.NodeSetName, int],
    max_num_edges: Mapping[const.EdgeSetName, int],
    incident_node_sets: Mapping[const.EdgeSetName, Iterable[const.NodeSetName]],
    batch_size: int,
    max_num_components: int = 1,
    min_nodes_per_component: Mapping[const.NodeSetName, int] | None = None,
) -> SizeConstraints:
    """Makes constraints for any batch of graphs whose largest single sizes are known.

    This is `find_tight_size_constraints` for callers that have measured the maxima by other means,
    such as one distributed pass over a data set. It holds for graphs of variable size.
    `incident_node_sets` maps each edge set to the node sets at its ends.

    Example:
        >>> tight_size_constraints_from_maxima(
        ...     max_num_nodes={"docs": 3}, max_num_edges={"cites": 6},
        ...     incident_node_sets={"cites": ("docs", "docs")}, batch_size=10, max_num_components=5)
        SizeConstraints(total_num_components=51, total_num_nodes={'docs': 31}, total_num_edges={'cites': 60}, \
min_nodes_per_component={})
    """
    min_nodes_per_component = dict(min_nodes_per_component or {})
    _check_at_least(1, batch_size, "batch_size")
    _check_at_least(1, max_num_components, "max_num_components")
    for sizes, name in (
        (max_num_nodes, "max_num_nodes"),
        (max_num_edges, "max_num_edges"),
        (min_nodes_per_component, "min_nodes_per_component"),
    ):
        for set_name, size in sizes.items():
            _check_at_least(0, size, f"{name}['{set_name}']")
    if set(incident_node_sets) != set(max_num_edges):
        raise ValueError(
            "`incident_node_sets` must have one entry per edge set of `max_num_edges`; got "
            f"{sorted(incident_node_sets)} for {sorted(max_num_edges)}. Take both from the same graph schema."
        )
    named = {name for names in incident_node_sets.values() for name in names}
    for argument, names in (
        ("incident_node_sets", named),
        ("min_nodes_per_component", set(min_nodes_per_component)),
    ):
        unknown = names - set(max_num_nodes)
        if unknown:
            raise ValueError(
                f"`{argument}` must name node sets of `max_num_nodes`; got {sorted(unknown)}. "
                f"Known node sets are {sorted(max_num_nodes)}."
            )
    return with_room_for_padding(
        SizeConstraints(
            total_num_components=batch_size * max_num_components,
            total_num_nodes={name: batch_size * size for name, size in max_num_nodes.items()},
            total_num_edges={name: batch_size * size for name, size in max_num_edges.items()},
            min_nodes_per_component=min_nodes_per_component,
        ),
        padded_incident_node_sets=named,
    )


def _check_at_least(least: int, value: int, name: str) -> None:
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}; got {value}.")
