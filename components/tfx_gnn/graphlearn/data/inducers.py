"""GraphLearn's inducers, which make subgraphs of the result of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from tfx_gnn.graphlearn.data.data import Data, data_of, flat_rows
from tfx_gnn.graphlearn.data.sub_graph import EdgeType, HeteroSubGraph, SubGraph

AnySubGraph = Union[SubGraph, HeteroSubGraph]
Induced = tuple[Sequence[AnySubGraph], Union[Sequence[AnySubGraph], None]]

TARGET, COMMON, OTHER = 0, 1, 2
"""Structure labels of `EdgeCNInducer`: the ends of the edge, their common neighbors, all other nodes."""

_NODE_ARRAYS = ("int_attrs", "float_attrs", "string_attrs", "labels", "weights", "timestamps", "ids")


class SubGraphInducer:
    """Makes subgraphs of each batch of a query; derive from it and write `induce_func`.

    Example:
        >>> class Pairs(SubGraphInducer):
        ...     def induce_func(self, values):
        ...         return [SubGraph([[0], [1]], Data(ids=np.array([i, i + 1]))) for i in values["seed"].ids], None
        >>> graphs, _ = Pairs().induce_func({"seed": Data(ids=np.array([4, 7]))})
        >>> [graph.nodes.ids.tolist() for graph in graphs]
        [[4, 5], [7, 8]]
    """

    def __init__(
        self,
        use_neg: bool = False,
        edge_types: Sequence[EdgeType] | None = None,
        use_edges: bool = False,
        node_types: Sequence[str] | None = None,
        addl_types_and_shapes: Mapping[str, Any] | None = None,
    ) -> None:
        """Says what the subgraphs have.

        Args:
            use_neg: whether there are negative subgraphs.
            edge_types: edge types (source type, edge type, target type) of heterogeneous subgraphs; None for those
                that are found.
            use_edges: whether edges have attributes.
            node_types: node types of heterogeneous subgraphs; None for those that are found.
            addl_types_and_shapes: further arrays of the subgraphs by name. The dtypes and shapes are found, so the
                values may be anything.
        """
        self.use_neg = use_neg
        self.edge_types = (
            None if edge_types is None else [(source, name, target) for source, name, target in edge_types]
        )
        self.use_edges = use_edges
        self.node_types = None if node_types is None else list(node_types)
        self.addl_types_and_shapes = dict(addl_types_and_shapes or {})

    def induce_func(self, values: Mapping[str, Any]) -> Induced:
        """Makes the subgraphs of a batch.

        Args:
            values: the result of each step of the query, in numpy, by alias.

        Returns:
            The positive subgraphs, and the negative ones or None.

        Raises:
            NotImplementedError: if the class does not implement it.
        """
        raise NotImplementedError(f"`induce_func` must be written for {type(self).__name__}.")


class SubGraphProcessor(SubGraphInducer):
    """Changes each subgraph that a query samples; derive from it and write `process_func`."""

    def process_func(self, subgraph: AnySubGraph) -> AnySubGraph:
        """Changes a subgraph.

        Args:
            subgraph: a subgraph, in numpy.

        Returns:
            The subgraph that takes its place.

        Raises:
            NotImplementedError: if the class does not implement it.
        """
        raise NotImplementedError(f"`process_func` must be written for {type(self).__name__}.")


class EdgeInducer(SubGraphInducer):
    """Makes a subgraph of each edge: its ends and all their neighbors.

    The nodes are source, target, neighbors of the source, neighbors of the target; a node occurs as often as it is
    found. Edges join each neighbor to its end, in both directions; the edge itself is not among them. The query
    samples neighbors of both ends by "full".
    """

    def __init__(
        self,
        use_neg: bool = False,
        addl_types_and_shapes: Mapping[str, Any] | None = None,
        *,
        source: str = "pos_src",
        target: str = "pos_dst",
        source_neighbors: str = "src_hop1",
        target_neighbors: str = "dst_hop1",
        negative: str = "neg_dst",
        negative_neighbors: str = "neg_hop1",
        **kwargs: Any,
    ) -> None:
        """Says which aliases of the query to use.

        Args:
            use_neg: whether to make subgraphs of negative edges, too: from each source to its negative targets.
            addl_types_and_shapes: further arrays that a derived class makes.
            source: alias of the source nodes.
            target: alias of the target nodes.
            source_neighbors: alias of the neighbors of the source nodes.
            target_neighbors: alias of the neighbors of the target nodes.
            negative: alias of the negative targets, any number for each source.
            negative_neighbors: alias of the neighbors of the negative targets.
            **kwargs: further arguments of `SubGraphInducer`.
        """
        super().__init__(use_neg, addl_types_and_shapes=addl_types_and_shapes, **kwargs)
        self._ends = (source, source_neighbors)
        self._targets = (target, target_neighbors)
        self._negatives = (negative, negative_neighbors)

    def induce_func(self, values: Mapping[str, Any]) -> Induced:
        """Makes a subgraph of each edge of a batch.

        Args:
            values: the result of each step of the query, in numpy, by alias.

        Returns:
            A subgraph for each edge, and one for each negative edge or None.

        Raises:
            KeyError: if the query lacks an alias.
            ValueError: if neighbors were not sampled by "full".
        """
        sources = _Ends(values, *self._ends)
        positive = self._induce(sources, _Ends(values, *self._targets))
        return positive, self._induce(sources, _Ends(values, *self._negatives)) if self.use_neg else None

    def _induce(self, sources: _Ends, targets: _Ends) -> list[AnySubGraph]:
        """Makes the subgraphs; of several targets for a source, each has its own."""
        repeats, rest = divmod(targets.num, sources.num) if sources.num else (0, targets.num)
        if rest:
            raise ValueError(
                f"`{targets.alias}` must have as many nodes for each of {sources.alias!r}; got {targets.num} for "
                f"{sources.num}. Sample them by outNeg or outV from there."
            )
        return [self._make(sources, position // repeats, targets, position) for position in range(targets.num)]

    def _make(self, sources: _Ends, source: int, targets: _Ends, target: int) -> AnySubGraph:
        near_source, near_target = sources.neighbors(source), targets.neighbors(target)
        nodes = _concatenated(
            [(sources.nodes, source, source + 1), (targets.nodes, target, target + 1)],
            [(sources.all_neighbors, *near_source), (targets.all_neighbors, *near_target)],
        )
        num_source, num_target = near_source[1] - near_source[0], near_target[1] - near_target[0]
        ends = np.repeat([0, 1], [num_source, num_target])
        neighbors = np.arange(2, 2 + num_source + num_target)
        # Each neighbor has an edge from its end and one back, side by side.
        edge_index = np.stack([[ends, neighbors], [neighbors, ends]], axis=-1).reshape(2, -1)
        return SubGraph(edge_index, nodes, **self._further(nodes, num_source))

    def _further(self, nodes: Data, num_source_neighbors: int) -> dict[str, Any]:
        return {}


class EdgeCNInducer(EdgeInducer):
    """The same as `EdgeInducer`, with an array "struct_label" of one label per node.

    The label is 0 for both ends of the edge, 1 for common neighbors of both, 2 for all other nodes.
    """

    def __init__(
        self,
        use_neg: bool = False,
        addl_types_and_shapes: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Says which aliases of the query to use.

        Args:
            use_neg: as for `EdgeInducer`.
            addl_types_and_shapes: further arrays by name; "struct_label" is always there.
            **kwargs: further arguments of `EdgeInducer`.
        """
        super().__init__(use_neg, {"struct_label": None, **(addl_types_and_shapes or {})}, **kwargs)

    def _further(self, nodes: Data, num_source_neighbors: int) -> dict[str, Any]:
        of_source, of_target = nodes.ids[2 : 2 + num_source_neighbors], nodes.ids[2 + num_source_neighbors :]
        is_common = np.concatenate([np.isin(of_source, of_target), np.isin(of_target, of_source)])
        labels = np.concatenate([[TARGET, TARGET], np.where(is_common, COMMON, OTHER)])
        return {"struct_label": labels.astype(np.int32)}


class HeteroEdgeInducer(EdgeInducer):
    """Makes a heterogeneous subgraph of each edge between two node types: its ends and all their neighbors.

    The nodes of the source type are the source and the neighbors of the target; those of the target type are the
    target and the neighbors of the source. Edges of the first type lead from the source to all nodes of the target
    type, the target among them; those of the second type lead from the target to all nodes of the source type.
    """

    def __init__(
        self,
        use_neg: bool = False,
        edge_types: Sequence[EdgeType] = (),
        **kwargs: Any,
    ) -> None:
        """Says which types the subgraphs have.

        Args:
            use_neg: as for `EdgeInducer`.
            edge_types: the type of the edges and that of their reverse, such as [("u", "u-i", "i"),
                ("i", "u-i_reverse", "u")].
            **kwargs: further arguments of `EdgeInducer`.

        Raises:
            ValueError: if these are not two edge types, from each of two node types to the other.
        """
        super().__init__(use_neg, edge_types=edge_types, **kwargs)
        types = self.edge_types or []
        if len(types) != 2 or types[0][0] != types[1][2] or types[0][2] != types[1][0] or types[0][0] == types[0][2]:
            raise ValueError(
                f"`edge_types` must be an edge type between two node types and its reverse; got {list(edge_types)}. "
                'Write [("u", "u-i", "i"), ("i", "u-i_reverse", "u")].'
            )

    def _make(self, sources: _Ends, source: int, targets: _Ends, target: int) -> AnySubGraph:
        assert self.edge_types is not None
        forward, backward = self.edge_types
        near_source, near_target = sources.neighbors(source), targets.neighbors(target)
        source_nodes = _concatenated([(sources.nodes, source, source + 1)], [(targets.all_neighbors, *near_target)])
        target_nodes = _concatenated([(targets.nodes, target, target + 1)], [(sources.all_neighbors, *near_source)])
        return HeteroSubGraph(
            {forward: _from_first(len(target_nodes.ids)), backward: _from_first(len(source_nodes.ids))},
            {forward[0]: source_nodes, forward[2]: target_nodes},
        )


def _from_first(num_targets: int) -> npt.NDArray[np.int64]:
    return np.stack([np.zeros(num_targets, np.int64), np.arange(num_targets)])


class _Ends:
    """The nodes at one end of the edges of a batch, and their neighbors."""

    def __init__(self, values: Mapping[str, Any], alias: str, neighbors_alias: str) -> None:
        for name in (alias, neighbors_alias):
            if name not in values:
                raise KeyError(
                    f"The query must have the alias {name!r}; got {sorted(values)}. Add .alias({name!r}), or give the "
                    "inducer the alias."
                )
        neighbors = values[neighbors_alias]
        if getattr(neighbors, "offsets", None) is None:
            raise ValueError(
                f"`{neighbors_alias}` must hold all neighbors; got {type(neighbors).__name__} of a fixed number of "
                'them. Sample by("full").'
            )
        self.alias = alias
        self.nodes = flat_rows(values[alias])
        self.num = len(self.nodes["ids"])
        self.all_neighbors = flat_rows(neighbors)
        counts = np.asarray(neighbors.offsets)
        if len(counts) != self.num:
            raise ValueError(
                f"`{neighbors_alias}` must hold the neighbors of each of {alias!r}; got those of {len(counts)} nodes "
                f"for {self.num}. Sample them from there."
            )
        self._ends = np.cumsum(counts)
        self._begins = self._ends - counts

    def neighbors(self, position: int) -> tuple[int, int]:
        """Returns where the neighbors of a node begin and end."""
        return int(self._begins[position]), int(self._ends[position])


def _concatenated(*groups: Sequence[tuple[Mapping[str, Any], int, int]]) -> Data:
    """Concatenates rows of nodes; arrays that only some of them have are left out."""
    parts = [part for group in groups for part in group]
    keys = [key for key in _NODE_ARRAYS if all(key in arrays for arrays, _, _ in parts)]
    return data_of({key: np.concatenate([arrays[key][begin:end] for arrays, begin, end in parts]) for key in keys})
