"""Writes parts of a graph as records of a model's examples: nodes without edges, or edges whose ends stand for all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.engine.sampled_subgraphs import SampledEdges, SampledNodes, SampledReadouts, SampledSubgraphs
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.plan.hop import SEED

_Rows = npt.NDArray[np.int64]

_NONE = np.zeros(0, np.int64)


class PartRecords:
    """Writes records without readouts, from which a model encodes the features of nodes, or of edges."""

    def __init__(self, encoder: SubgraphExampleEncoder) -> None:
        """Takes what writes the examples of a plan."""
        self._encoder = encoder
        self._node_sets = [name for name in encoder.schema.node_sets if not name.startswith("_")]
        self._ends = {
            name: (edge_set.source, edge_set.target)
            for name, edge_set in encoder.schema.edge_sets.items()
            if not name.startswith("_")
        }

    def of_nodes(self, node_set: str, rows: _Rows) -> bytes:
        """Writes nodes of a set, given by their rows, and no edges."""
        return self._record({node_set: rows}, {})

    def of_edges(self, positions: Mapping[str, _Rows]) -> bytes:
        """Writes edges, given by edge set as positions in its table; each leads from one node to one node.

        The features of an edge do not depend on its ends.
        """
        ends = {name for edge_set, found in positions.items() if len(found) for name in self._ends[edge_set]}
        return self._record({name: np.zeros(1, np.int64) for name in ends}, positions)

    def _record(self, nodes: Mapping[str, _Rows], edges: Mapping[str, _Rows]) -> bytes:
        def splits(rows: _Rows) -> _Rows:
            return np.array([0, len(rows)])

        node_rows = {name: nodes.get(name, _NONE) for name in self._node_sets}
        edge_rows = {name: edges.get(name, _NONE) for name in self._ends}
        part = SampledSubgraphs(
            num_subgraphs=1,
            node_sets={name: SampledNodes(rows=rows, splits=splits(rows)) for name, rows in node_rows.items()},
            edge_sets={
                name: SampledEdges(
                    rows=rows, sources=np.zeros_like(rows), targets=np.zeros_like(rows), splits=splits(rows)
                )
                for name, rows in edge_rows.items()
            },
            readouts=SampledReadouts(splits=splits(_NONE), positions={SEED: _NONE}, seed_rows=np.zeros(1, np.int64)),
        )
        (record,) = self._encoder.encode(part)
        return record
