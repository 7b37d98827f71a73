"""Graphs from and to PyG's `Data` and `HeteroData`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.graph import GraphTensor
from tfx_gnn.graph.graph_constants import EDGES, NODES
from tfx_gnn.interchange.columns import Column, as_column, check_one_graph, make_graph

if TYPE_CHECKING:
    import torch  # pyright: ignore[reportMissingImports] - nobody needs PyG to work on this.
    from torch_geometric.data import Data, HeteroData  # pyright: ignore[reportMissingImports]

_BETWEEN = "__"
_EDGE_INDEX = "edge_index"
_GLOBAL = "_global_store"
"""Where PyG's dicts have what belongs to no type."""
_COUNTS = ("num_nodes", _EDGE_INDEX)


def from_pyg(data: Data | HeteroData) -> GraphTensor:
    """Makes a graph of PyG's `Data` or `HeteroData`.

    A node type is a node set; that of `Data` is "nodes", and its edges are "edges". An edge type (source, relation,
    target) is the edge set "relation" or, where several edge types have the same relation, "source__relation__target".
    Attributes of nodes and edges, such as `x`, `y` or `train_mask`, are features of the same name, and those of the
    whole graph its context.

    Args:
        data: the data, on any device; `edge_index` tells the edges.

    Returns:
        A graph of one component, rank 0, with int64 indices.

    Raises:
        ValueError: if the number of nodes is unknown, or edges are in another form than `edge_index`.
    """
    is_hetero = hasattr(data, "node_types")
    nodes: dict[str, tuple[int, dict[str, Column]]] = {}
    edges: dict[str, Any] = {}
    context: dict[str, Any] = {}
    if is_hetero:
        relations = Counter(relation for _, relation, _ in data.edge_types)
        # Types that are ends of edges alone have no store yet.
        ends = [end for source, _, target in data.edge_types for end in (source, target)]
        for node_type in dict.fromkeys([*data.node_types, *ends]):
            nodes[node_type] = _node_set(data[node_type], node_type)
        for source, relation, target in data.edge_types:
            name = relation if relations[relation] == 1 else _BETWEEN.join((source, relation, target))
            edges[name] = _edge_set(data[source, relation, target], source, target, name)
        of_graph = data.to_dict().get(_GLOBAL, {})
        context = {key: _of_graph(value) for key, value in of_graph.items() if value is not None}
    else:
        number, columns = _node_set(data, NODES)
        of_nodes = {key: column for key, column in columns.items() if data.is_node_attr(key)}
        # PyG goes by sizes: a label of a graph with one edge has that of an edge.
        is_one_edge = data.num_edges == 1
        of_edges = {
            key: column
            for key, column in columns.items()
            if data.is_edge_attr(key) and ("edge" in key or not is_one_edge)
        }
        nodes[NODES] = (number, of_nodes)
        context = {key: _of_graph(columns[key]) for key in columns if key not in {*of_nodes, *of_edges}}
        if data.edge_index is not None:
            source, target = _ends(data.edge_index)
            edges[EDGES] = ((NODES, source), (NODES, target), of_edges)
    return make_graph(nodes, edges, context)


def to_pyg(graph: GraphTensor) -> Data | HeteroData:
    """Makes PyG's data of a graph, of which `from_pyg` makes the graph again.

    A graph with node set "nodes" alone, and edge set "edges", becomes `Data`, any other `HeteroData`. An edge set
    becomes the edge type (source, edge set, target), in which a name "source__relation__target" is the relation alone.
    Strings and ragged features become lists. Needs torch and torch_geometric.

    Args:
        graph: a graph of one component, rank 0.

    Returns:
        The data, on the CPU.

    Raises:
        ValueError: if the graph has several components or is a batch.
    """
    from torch_geometric.data import Data, HeteroData  # pyright: ignore[reportMissingImports]

    check_one_graph(graph)
    is_plain = set(graph.node_sets) == {NODES} and set(graph.edge_sets) <= {EDGES}
    made = Data() if is_plain else HeteroData()
    for name, node_set in graph.node_sets.items():
        store = made if is_plain else made[name]
        store.num_nodes = int(node_set.total_size)
        for key in node_set.features:
            store[key] = _attribute(node_set[key])
    for name, edge_set in graph.edge_sets.items():
        adjacency = edge_set.adjacency
        source, target = adjacency.source_name, adjacency.target_name
        relation = name.removeprefix(source + _BETWEEN).removesuffix(_BETWEEN + target)
        store = made if is_plain else made[source, relation, target]
        ends = np.stack([adjacency.source.numpy(), adjacency.target.numpy()]).astype(np.int64)
        store.edge_index = _tensor(ends)
        for key in edge_set.features:
            store[key] = _attribute(edge_set[key])
    for key in graph.context.features:
        made[key] = _attribute(graph.context[key])
    return made


def _node_set(store: Any, name: str) -> tuple[int, dict[str, Column]]:
    if store.num_nodes is None:
        raise ValueError(
            f"`data` must have a known number of nodes; got none for {name!r}. Set data[{name!r}].num_nodes, or a "
            "feature such as x."
        )
    _check_edges(store, name)
    return int(store.num_nodes), {
        key: _array(value) for key, value in store.items() if key not in _COUNTS and value is not None
    }


def _edge_set(store: Any, source: str, target: str, name: str) -> Any:
    _check_edges(store, name)
    if _EDGE_INDEX not in store:
        raise ValueError(f"`data` must have the edges of {name!r} in `edge_index`; got none. Set it.")
    ends = _ends(store[_EDGE_INDEX])
    columns = {key: _array(value) for key, value in store.items() if key not in _COUNTS and value is not None}
    return (source, ends[0]), (target, ends[1]), columns


def _check_edges(store: Any, name: str) -> None:
    for form in ("adj", "adj_t"):
        if form in store:
            raise ValueError(
                f"`data` must have edges in `edge_index`; got {form!r} for {name!r}. Convert it: row, col, _ = "
                f"data.{form}.coo()."
            )


def _ends(edge_index: torch.Tensor) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    ends = _array(edge_index)
    return ends[0].astype(np.int64), ends[1].astype(np.int64)


def _array(value: Any) -> Any:
    """An array of a tensor; lists of values stay lists."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def _of_graph(value: Any) -> Any:
    """The value of the one graph, which PyG gives a first axis of 1, or none."""
    array = _array(value)
    return array[0] if isinstance(array, np.ndarray) and array.ndim and array.shape[0] == 1 else array


def _attribute(feature: Any) -> Any:
    column = as_column(feature) if feature.shape.rank == 1 or hasattr(feature, "row_splits") else feature.numpy()
    if isinstance(column, list):
        return [_tensor(row) if row.dtype.kind != "O" else row.tolist() for row in column]
    return column.tolist() if column.dtype.kind == "O" else _tensor(column)


def _tensor(array: npt.NDArray[Any]) -> torch.Tensor:
    import torch  # pyright: ignore[reportMissingImports]

    return torch.from_numpy(np.ascontiguousarray(array))
