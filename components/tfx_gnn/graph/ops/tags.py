"""Resolves tags, which name the ends of edges or the context as sources and receivers of values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Union

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor

NameOrNames = Union[str, Sequence[str], None]


def reverse_tag(tag: const.IncidentNodeTag) -> const.IncidentNodeTag:
    """Returns the other end of an ordinary edge.

    Args:
        tag: `SOURCE` or `TARGET`.

    Raises:
        ValueError: for any other tag; hyperedges have no opposite end.

    Example:
        >>> tfx_gnn.reverse_tag(tfx_gnn.SOURCE) == tfx_gnn.TARGET
        True
    """
    if tag == const.SOURCE:
        return const.TARGET
    if tag == const.TARGET:
        return const.SOURCE
    raise ValueError(f"Expected tag tfx_gnn.SOURCE (0) or tfx_gnn.TARGET (1), got: {tag}.")


@dataclasses.dataclass(frozen=True)
class ItemSets:
    """The edge sets or node sets that a broadcast goes to, or that a pooling starts from.

    Attributes:
        tag: the other side of the operation: an end of the edges, or `CONTEXT`.
        names: set names, at least one.
        are_edge_sets: whether they are edge sets; node sets are only allowed with `CONTEXT`.
        came_as_sequence: whether the caller passed a sequence and so gets a list of results.
    """

    tag: const.IncidentNodeOrContextTag
    names: tuple[const.SetName, ...]
    are_edge_sets: bool
    came_as_sequence: bool = False

    def pieces(self, graph: GraphTensor) -> list[Any]:
        """Returns the node sets or edge sets of these names."""
        sets: Mapping[str, Any] = graph.edge_sets if self.are_edge_sets else graph.node_sets
        return [sets[name] for name in self.names]


def resolve_item_sets(
    tag: const.IncidentNodeOrContextTag, *, edge_set_name: NameOrNames, node_set_name: NameOrNames, caller: str
) -> ItemSets:
    """Checks the arguments that select the sets of a broadcast or pooling."""
    for argument, value in (("edge_set_name", edge_set_name), ("node_set_name", node_set_name)):
        if value is not None and not isinstance(value, str) and not (isinstance(value, Sequence) and value):
            raise ValueError(
                f"{caller} requires {argument} to be a non-empty Sequence or None, or one name; got {value!r}."
            )
    if tag == const.CONTEXT:
        num_given = (edge_set_name is not None) + (node_set_name is not None)
        if num_given != 1:
            raise ValueError(
                f"{caller} with tag tfx_gnn.CONTEXT requires to pass exactly one of edge_set_name, node_set_name "
                f"but got {num_given}."
            )
    elif not isinstance(tag, int):
        raise ValueError(
            f"{caller} got tag {tag} but requires either the special value tfx_gnn.CONTEXT or a valid "
            "IncidentNodeTag, that is, tfx_gnn.SOURCE, tfx_gnn.TARGET, or another valid integer in case of "
            "hypergraphs."
        )
    elif edge_set_name is None or node_set_name is not None:
        raise ValueError(
            f"{caller} requires to pass edge_set_name, not node_set_name, unless tag is set to tfx_gnn.CONTEXT."
        )
    names = node_set_name if edge_set_name is None else edge_set_name
    assert names is not None
    return ItemSets(
        tag=tag,
        names=(names,) if isinstance(names, str) else tuple(names),
        are_edge_sets=edge_set_name is not None,
        came_as_sequence=not isinstance(names, str),
    )


def common_node_set_name(
    graph: GraphTensor, edge_set_names: Sequence[const.EdgeSetName], tag: const.IncidentNodeTag, *, caller: str
) -> const.NodeSetName:
    """Returns the node set at one end of several edge sets."""
    node_set_names = [graph.edge_sets[name].adjacency.node_set_name(tag) for name in edge_set_names]
    if len(set(node_set_names)) > 1:
        raise ValueError(
            f"{caller} requires the same endpoint for all named edge sets but got node sets {node_set_names} "
            f"from tag={tag} and edge_set_name={list(edge_set_names)}."
        )
    return node_set_names[0]


def check_one_feature(feature_value: object, feature_name: str | None, *, caller: str) -> None:
    """Checks that a feature is given either by value or by name."""
    if (feature_value is None) == (feature_name is None):
        raise ValueError(
            f"{caller} requires exactly one of feature_name, feature_value; got "
            + ("none." if feature_value is None else f"both, feature_name='{feature_name}'.")
        )
