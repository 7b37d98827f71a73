"""Graphs from and to data frames of pandas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfx_gnn.graph import GraphTensor
from tfx_gnn.graph.reserved_names import ID_NAME
from tfx_gnn.interchange.columns import Column, as_column, check_one_graph, ids_of, make_graph

if TYPE_CHECKING:
    import pandas as pd

_SOURCE, _TARGET = "source", "target"
_NUM_SHOWN = 3


class EdgeFrame(NamedTuple):
    """Edges between two node sets.

    Attributes:
        source: node set in which edges start.
        target: node set in which they end.
        frame: a row for each edge: its ends in the columns "source" and "target", as values of the index of the node
            sets' frames, and its features in the others.
    """

    source: str
    target: str
    frame: pd.DataFrame


class GraphFrames(NamedTuple):
    """A graph as data frames.

    Attributes:
        node_sets: by node set a frame with a row for each node; its index holds the ids.
        edge_sets: the edges.
        context: values of the whole graph.
    """

    node_sets: dict[str, pd.DataFrame]
    edge_sets: dict[str, EdgeFrame]
    context: dict[str, Any]


def from_pandas(
    node_sets: Mapping[str, pd.DataFrame],
    edge_sets: Mapping[str, EdgeFrame | tuple[str, str, pd.DataFrame]],
    context: Mapping[str, Any] | None = None,
) -> GraphTensor:
    """Makes a graph of data frames.

        users = pd.DataFrame({"age": [31, 45]}, index=["ann", "bob"])
        orders = pd.DataFrame({"source": ["ann", "bob"], "target": [7, 7], "amount": [9.5, 3.0]})
        graph = from_pandas({"users": users, "products": products}, {"orders": ("users", "products", orders)})

    Columns keep their dtype; texts become strings, categories texts, and times int64 microseconds since 1970 (UTC). A
    column of equally long lists becomes a dense feature of a higher rank, of differently long ones a ragged one. The
    index is kept as the feature "#id", unless it only counts from 0. For many tables on disk, or tables with keys that
    are empty or unknown, use `tfx-gnn new --tables` instead.

    Args:
        node_sets: by node set a frame with a row for each node; its index holds the ids, which are integers or texts
            and occur once.
        edge_sets: by edge set the node sets of its ends and its frame, as in `EdgeFrame`.
        context: values of the whole graph.

    Returns:
        A graph of one component, rank 0, with int64 indices.

    Raises:
        ValueError: if an id occurs twice, an end names no node, or a cell has no value.
    """
    import pandas as pd

    nodes = {name: (len(frame), {**_ids(frame, name), **_columns(frame)}) for name, frame in node_sets.items()}
    edges = {}
    for name, given in edge_sets.items():
        source, target, frame = given
        sides = ((_SOURCE, source), (_TARGET, target))
        for end, node_set in sides:
            if node_set not in node_sets:
                raise ValueError(
                    f"`edge_sets` must name node sets as ends; got {node_set!r} as {end} of {name!r}. Name one of "
                    f"{sorted(node_sets)}."
                )
        ends = []
        for end, node_set in sides:
            if end not in frame.columns:
                raise ValueError(
                    f"`edge_sets` must have frames with the columns 'source' and 'target'; got {name!r} with "
                    f"{list(map(str, frame.columns))}. Rename them: frame.rename(columns={{...: {end!r}}})."
                )
            ends.append((node_set, _positions(node_sets[node_set].index, pd.Index(frame[end]), name, end, node_set)))
        edges[name] = (ends[0], ends[1], _columns(frame.drop(columns=[_SOURCE, _TARGET])))
    return make_graph(nodes, edges, context)


def to_pandas(graph: GraphTensor) -> GraphFrames:
    """Makes data frames of a graph, so that `from_pandas(*frames)` gives the graph again.

    Times stay int64, and a feature of more than one value by node or edge becomes a column of arrays. The index of a
    node set is its feature "#id", or counts from 0.

    Args:
        graph: a graph of one component, rank 0.

    Returns:
        The frames, with the ends of edges as ids.

    Raises:
        ValueError: if the graph has several components or is a batch.
    """
    import pandas as pd

    check_one_graph(graph)
    ids = {name: ids_of(node_set) for name, node_set in graph.node_sets.items()}
    nodes = {}
    for name, node_set in graph.node_sets.items():
        has_ids = ID_NAME in node_set.features
        index = pd.Index(ids[name], name=None) if has_ids else pd.RangeIndex(len(ids[name]))
        columns = {key: as_column(node_set[key]) for key in node_set.features if key != ID_NAME}
        nodes[name] = pd.DataFrame({key: _series(column, index) for key, column in columns.items()}, index=index)
    edges = {}
    for name, edge_set in graph.edge_sets.items():
        adjacency = edge_set.adjacency
        source, target = adjacency.source_name, adjacency.target_name
        index = pd.RangeIndex(int(edge_set.total_size))
        columns = {
            _SOURCE: ids[source][adjacency.source.numpy()],
            _TARGET: ids[target][adjacency.target.numpy()],
            **{key: as_column(edge_set[key]) for key in edge_set.features},
        }
        frame = pd.DataFrame({key: _series(column, index) for key, column in columns.items()}, index=index)
        edges[name] = EdgeFrame(source, target, frame)
    context = {key: as_column(graph.context[key])[0] for key in graph.context.features}
    return GraphFrames(nodes, edges, context)


def _ids(frame: pd.DataFrame, node_set: str) -> dict[str, Column]:
    import pandas as pd

    index = frame.index
    if isinstance(index, pd.MultiIndex):
        raise ValueError(
            f"`node_sets` must have one id by node; got an index of {index.nlevels} levels in {node_set!r}. Join them: "
            "frame.index = frame.index.map('/'.join)."
        )
    if not index.is_unique:
        twice = index[index.duplicated()].unique()
        raise ValueError(
            f"`node_sets` must have ids that occur once; got {len(twice)} that occur more often in {node_set!r}, such "
            f"as {twice[0]!r}. Drop the rows, or make the index another column: frame.set_index(...)."
        )
    if index.equals(pd.RangeIndex(len(index))) and index.dtype.kind in "iu":
        return {}
    return {ID_NAME: _values(index)}


def _columns(frame: pd.DataFrame) -> dict[str, Column]:
    return {str(name): _values(frame[name]) for name in frame.columns}


def _values(column: Any) -> npt.NDArray[Any]:
    """The values of a series or an index as an array of numpy."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.dtype.categories.dtype if not column.isna().any() else object)
    elif isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None) if hasattr(column, "dt") else column.tz_convert(None)
    elif pd.api.types.is_extension_array_dtype(column.dtype):
        # With empty cells as objects, because pandas 2 makes NaN of these.
        column = column.astype(object if column.isna().any() else getattr(column.dtype, "numpy_dtype", object))
    return np.asarray(column.to_numpy())


def _positions(index: Any, ends: Any, edge_set: str, end: str, node_set: str) -> npt.NDArray[Any]:
    kinds = (index.dtype, ends.dtype)
    if "O" in (index.dtype.kind, ends.dtype.kind):
        # Texts and numbers are never equal, but pandas looks for a common type.
        index, ends = index.astype(object), ends.astype(object)
    positions = index.get_indexer(ends)
    unknown = ends[positions < 0]
    if len(unknown):
        shown = ", ".join(repr(value) for value in unknown.unique()[:_NUM_SHOWN])
        raise ValueError(
            f"`edge_sets` must have ends that are in the index of their node set; got {len(unknown)} of {len(ends)} "
            f"{end}s of {edge_set!r} that are not in {node_set!r}, such as {shown}. Add the nodes, drop the edges, or "
            f"give both the same type: the index has {kinds[0]}, the column {kinds[1]}."
        )
    return np.asarray(positions, np.int64)


def _series(column: Any, index: Any) -> Any:
    import pandas as pd

    return pd.Series(list(column) if isinstance(column, list) else column, index=index)
