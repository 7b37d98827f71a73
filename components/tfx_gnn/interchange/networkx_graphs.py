"""Graphs from and to NetworkX."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfx_gnn.graph import GraphTensor
from tfx_gnn.graph.graph_constants import EDGES, NODES
from tfx_gnn.graph.reserved_names import ID_NAME
from tfx_gnn.interchange.columns import Column, as_column, check_one_graph, ids_of, make_graph

if TYPE_CHECKING:
    import networkx as nx

_NODE_SET, _EDGE_SET = "node_set", "edge_set"


def from_networkx(graph: nx.Graph) -> GraphTensor:
    """Makes a graph of one of NetworkX.

    The attribute "node_set" of a node names its node set, "nodes" without; "edge_set" of an edge its edge set, "edges"
    without. Other attributes become features, of dtypes as `np.asarray` gives them; texts become strings, lists of
    equal length dense features. An edge of an undirected graph becomes two, there and back, as in PyG; a loop stays
    one. Names of nodes are kept as the feature "#id", unless they count from 0; where they are pairs of the node set
    and an id, as `to_networkx` makes them, that id is. Attributes of the graph become its context.

    Args:
        graph: a graph, directed or not, with or without parallel edges.

    Returns:
        A graph of one component, rank 0, with int64 indices.

    Raises:
        ValueError: if an attribute is missing in a part of a set, names of nodes are of several types, or an edge set
            connects several pairs of node sets.
    """
    members: dict[str, list[Hashable]] = {}
    for node, attributes in graph.nodes(data=True):
        members.setdefault(str(attributes.get(_NODE_SET, NODES)), []).append(node)
    set_of = {node: name for name, nodes in members.items() for node in nodes}
    position = {node: place for nodes in members.values() for place, node in enumerate(nodes)}
    node_sets = {
        name: (
            len(nodes),
            {
                **_ids(name, nodes),
                **_columns([graph.nodes[node] for node in nodes], f"node set {name!r}", without=_NODE_SET),
            },
        )
        for name, nodes in members.items()
    }
    rows: dict[str, list[tuple[Hashable, Hashable, Mapping[str, Any]]]] = {}
    for source, target, attributes in graph.edges(data=True):
        listed = rows.setdefault(str(attributes.get(_EDGE_SET, EDGES)), [])
        listed.append((source, target, attributes))
        if not graph.is_directed() and source != target:
            listed.append((target, source, attributes))
    edge_sets = {}
    for name, edges in rows.items():
        pairs = sorted({(set_of[source], set_of[target]) for source, target, _ in edges})
        if len(pairs) > 1:
            raise ValueError(
                f"`graph` must have edges of one pair of node sets in each edge set; got {pairs} in {name!r}. Give the "
                f"edges the attribute {_EDGE_SET!r}, and an undirected graph a direction: graph.to_directed()."
            )
        sources = np.array([position[source] for source, _, _ in edges], np.int64)
        targets = np.array([position[target] for _, target, _ in edges], np.int64)
        columns = _columns([attributes for _, _, attributes in edges], f"edge set {name!r}", without=_EDGE_SET)
        edge_sets[name] = ((pairs[0][0], sources), (pairs[0][1], targets), columns)
    return make_graph(node_sets, edge_sets, {str(key): value for key, value in graph.graph.items()})


def to_networkx(graph: GraphTensor) -> nx.MultiDiGraph:
    """Makes a graph of NetworkX, of which `from_networkx` makes the graph again.

    Nodes are named by their feature "#id" or, without, by their position; in a graph of several node sets by pairs of
    the node set and that. Features are attributes, besides "node_set" and "edge_set".

    Args:
        graph: a graph of one component, rank 0.

    Returns:
        A directed graph, which may have parallel edges.

    Raises:
        ValueError: if the graph has several components or is a batch.
    """
    import networkx as nx

    check_one_graph(graph)
    made = nx.MultiDiGraph(**{key: as_column(graph.context[key])[0] for key in graph.context.features})
    is_one = len(graph.node_sets) == 1
    names: dict[str, list[Hashable]] = {}
    for name, node_set in graph.node_sets.items():
        ids = ids_of(node_set).tolist()
        names[name] = ids if is_one else [(name, one) for one in ids]
        columns = {key: as_column(node_set[key]) for key in node_set.features if key != ID_NAME}
        for place, node in enumerate(names[name]):
            made.add_node(node, **{_NODE_SET: name}, **{key: _plain(column[place]) for key, column in columns.items()})
    for name, edge_set in graph.edge_sets.items():
        adjacency = edge_set.adjacency
        columns = {key: as_column(edge_set[key]) for key in edge_set.features}
        ends = zip(adjacency.source.numpy().tolist(), adjacency.target.numpy().tolist(), strict=True)
        for place, (source, target) in enumerate(ends):
            made.add_edge(
                names[adjacency.source_name][source],
                names[adjacency.target_name][target],
                **{_EDGE_SET: name},
                **{key: _plain(column[place]) for key, column in columns.items()},
            )
    return made


def _ids(node_set: str, nodes: list[Hashable]) -> dict[str, Column]:
    ids: list[Any] = [
        node[1] if isinstance(node, tuple) and len(node) == 2 and node[0] == node_set else node for node in nodes
    ]
    if all(isinstance(one, int) for one in ids):
        return {} if ids == list(range(len(ids))) else {ID_NAME: np.array(ids, np.int64)}
    if not all(isinstance(one, str) for one in ids):
        kinds = sorted({type(one).__name__ for one in ids})
        raise ValueError(
            f"`graph` must have names of nodes that are all integers or all texts; got {', '.join(kinds)} in node set "
            f"{node_set!r}. Rename them: networkx.relabel_nodes(graph, str)."
        )
    return {ID_NAME: np.array(ids, object)}


def _columns(attributes: list[Mapping[str, Any]], place: str, *, without: str) -> dict[str, Column]:
    names = dict.fromkeys(key for one in attributes for key in one if key != without)
    for name in names:
        number = sum(name not in one for one in attributes)
        if number:
            raise ValueError(
                f"`graph` must have an attribute in all nodes or edges of a set; got {name!r} without a value in "
                f"{number} of {len(attributes)} of {place}. Give them one, or delete it."
            )
    return {str(name): [one[name] for one in attributes] for name in names}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
