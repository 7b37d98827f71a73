"""Reads from a graph what a layer needs to update some of its nodes: all their edges, and the states at both ends."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_layerwise_inferrer.rules import DIRECTIONS
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.tags import reverse_tag
from tfx_gnn.sampling.index.graph_index import EdgesByRow, IndexedGraph
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.serving.layerwise_model import LayerPlan, ReadRelation

MAX_BATCH_NODES = 65536
"""Largest number of nodes whose states are computed at once."""

_Integers = npt.NDArray[np.int64]
_States = npt.NDArray[np.float32]


class _FoundEdges(NamedTuple):
    """Edges of a relation to some nodes: positions of the receivers among these, rows of the senders and the edges."""

    receivers: _Integers
    senders: _Integers
    rows: _Integers


class LayerBatches:
    """Parts the nodes of a graph into batches, and reads what layers need for each.

    Memory: 5 bytes for each node of the graph, and a batch.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        plan: LayerPlan,
        *,
        edge_features: Callable[[Mapping[str, _Integers]], Mapping[str, Any]],
        batch_edges: int,
    ) -> None:
        """Opens the edges that the layers read.

        Args:
            graph: the graph.
            plan: what the layers read.
            edge_features: returns the features of edges by "edges/<set>.<feature>", [num_edges, ...] each, for their
                positions in the tables by edge set.
            batch_edges: edges of a batch; a node that has more is alone in its batch.
        """
        self._graph, self._plan = graph, plan
        self._edge_features, self._batch_edges = edge_features, batch_edges
        ways = {way for of_layer in plan.relations for of_set in of_layer.values() for way in of_set}
        self._edges: dict[tuple[str, int], EdgesByRow] = {}
        for way in ways:
            direction: Any = DIRECTIONS[way.receiver_tag]
            hop = Hop(edge_set=way.edge_set, direction=direction, strategy="full")
            self._edges[way.edge_set, way.receiver_tag] = graph.edges_by_node(hop)
        receivers = {name for of_layer in plan.relations for name in of_layer}
        self._places = {
            name: _Places(graph.node_tables[name].num_nodes) for name in {*receivers, *(way.sender for way in ways)}
        }

    def ranges(self, layer: int, node_set: str) -> Iterator[tuple[int, int]]:
        """Yields the first row of each batch of a node set, and the row after its last."""
        start, num_nodes = 0, self._graph.node_tables[node_set].num_nodes
        edges = [self._edges[way.edge_set, way.receiver_tag] for way in self._plan.relations[layer][node_set]]
        while start < num_nodes:
            stop = min(start + MAX_BATCH_NODES, num_nodes)
            counts = np.zeros(stop - start, np.int64)
            for one in edges:
                offsets = one.offsets[start : stop + 1].astype(np.int64)
                counts += offsets[1:] - offsets[0]
            stop = start + max(1, int(np.searchsorted(counts, self._batch_edges, side="right")))
            yield start, stop
            start = stop

    def inputs(self, layer: int, node_set: str, start: int, stop: int, states: Mapping[str, _States]) -> dict[str, Any]:
        """Reads what a layer needs to update the nodes of a range; see `LayerwiseModel.update`.

        Args:
            layer: number of the layer.
            node_set: the node set.
            start: first row of the range.
            stop: the row after its last.
            states: by node set, float32 [num_nodes, units], those that the layer reads.
        """
        ways = self._plan.relations[layer][node_set]
        found = [self._found_edges(way, ways, node_set, start, stop) for way in ways]
        senders: dict[str, list[_Integers]] = collections.defaultdict(list)
        for way, edges in zip(ways, found, strict=True):
            senders[way.sender].append(edges.senders)
        inputs: dict[str, Any] = {"num_targets": np.int32(stop - start)}
        for name in {node_set, *senders}:
            # The nodes to update come first.
            own = (start, stop) if name == node_set else (0, 0)
            others = self._places[name].assign(own, senders[name])
            inputs[f"{const.NODES}/{name}"] = np.concatenate([states[name][slice(*own)], states[name][others]])
        rows: dict[str, list[_Integers]] = collections.defaultdict(list)
        ends: dict[str, list[npt.NDArray[np.int32]]] = collections.defaultdict(list)
        for way, edges in zip(ways, found, strict=True):
            start_of_keys = f"{const.EDGES}/{way.edge_set}."
            names = {const.SOURCE: const.SOURCE_NAME, const.TARGET: const.TARGET_NAME}
            ends[start_of_keys + names[way.receiver_tag]].append(edges.receivers.astype(np.int32))
            ends[start_of_keys + names[reverse_tag(way.receiver_tag)]].append(
                self._places[way.sender].positions[edges.senders]
            )
            rows[way.edge_set].append(edges.rows)
        inputs |= {key: np.concatenate(parts) for key, parts in ends.items()}
        with_features = {way.edge_set for way in ways if way.features}
        if with_features:
            positions = {
                name: self._graph.edge_tables[name].positions_of(np.concatenate(rows[name])) for name in with_features
            }
            read = {f"{const.EDGES}/{way.edge_set}.{name}" for way in ways for name in way.features}
            inputs |= {key: values for key, values in self._edge_features(positions).items() if key in read}
        return inputs

    def _found_edges(
        self, way: ReadRelation, ways: Sequence[ReadRelation], node_set: str, start: int, stop: int
    ) -> _FoundEdges:
        edges = self._edges[way.edge_set, way.receiver_tag]
        offsets = edges.offsets[start : stop + 1].astype(np.int64)
        positions = np.arange(offsets[0], offsets[-1])
        receivers = np.repeat(np.arange(stop - start), np.diff(offsets))
        senders = edges.neighbors_at(positions)
        tags = {other.receiver_tag for other in ways if other.edge_set == way.edge_set}
        if way.receiver_tag == const.SOURCE and len(tags) > 1:
            # Of an edge between two nodes of the range, both ends find it; the target has it already.
            is_new = (senders < start) | (senders >= stop)
            positions, receivers, senders = positions[is_new], receivers[is_new], senders[is_new]
        return _FoundEdges(receivers, senders, edges.rows_at(positions))


class _Places:
    """Positions of a node set's nodes in a batch.

    Attributes:
        positions: int32 [num_nodes]: position of each node of the batch; anything for others.
    """

    def __init__(self, num_nodes: int) -> None:
        self.positions = np.zeros(num_nodes, np.int32)
        self._is_met = np.zeros(num_nodes, np.bool_)

    def assign(self, own: tuple[int, int], others: Sequence[_Integers]) -> _Integers:
        """Gives positions to a range of rows, and then to other rows in ascending order, which it returns."""
        start, stop = own
        for rows in others:
            self._is_met[rows] = True
        self._is_met[start:stop] = False
        found = np.flatnonzero(self._is_met)
        self._is_met[found] = False
        self.positions[start:stop] = np.arange(stop - start)
        self.positions[found] = np.arange(stop - start, stop - start + len(found))
        return found
