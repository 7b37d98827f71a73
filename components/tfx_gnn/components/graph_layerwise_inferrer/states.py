"""Computes the states of all nodes of a graph, one layer after the other, in files that are mapped into memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_layerwise_inferrer.batches import MAX_BATCH_NODES, LayerBatches
from tfx_gnn.components.graph_layerwise_inferrer.part_records import PartRecords
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.io.disk_sync import sync_path
from tfx_gnn.io.fingerprint import fingerprint_files
from tfx_gnn.io.finished_shards import FinishedShards
from tfx_gnn.io.progress import progress
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.index.graph_index import IndexedGraph
from tfx_gnn.serving.layerwise_model import LayerwiseModel

STATES_DIR = "states"
"""Folder of the files while they are needed."""

_CHECKSUM = "checksum"

_States = npt.NDArray[np.float32]
_Batches = Iterator[tuple[int, int, Any]]


class LayerStates:
    """The states of all nodes after each layer.

    The states of a node set after a layer are one file, float32 [num_nodes, units], on a local disk. A finished file is
    noted with its checksum, so that a run that was killed goes on after it.
    """

    def __init__(
        self,
        model: LayerwiseModel,
        graph: IndexedGraph,
        encoder: SubgraphExampleEncoder,
        *,
        folder: str,
        batch_edges: int,
    ) -> None:
        """Takes the folder of the run, which may hold the files of an earlier run of the same work.

        Args:
            model: the layers.
            graph: the graph.
            encoder: what writes the model's examples of the graph.
            folder: the folder.
            batch_edges: as for `LayerBatches`.
        """
        self._model, self._graph = model, graph
        self._records = PartRecords(encoder)
        self._batches = LayerBatches(
            graph,
            model.plan,
            edge_features=lambda positions: model.encode(self._records.of_edges(positions)),
            batch_edges=batch_edges,
        )
        ways = [way for of_layer in model.plan.relations for of_set in of_layer.values() for way in of_set]
        updated = {name for of_layer in model.plan.layers for name in of_layer}
        self._sets = sorted({model.plan.seed_set, *updated, *(way.sender for way in ways)})
        self._folder = os.path.join(folder, STATES_DIR)
        self._log = FinishedShards(folder)

    def compute(self) -> list[_States]:
        """Computes the states that an earlier run did not.

        Returns:
            States of the seed set that the head of the model reads, mapped from their files.

        Raises:
            tf.errors.InvalidArgumentError: if a transformed feature is not finite.
        """
        os.makedirs(self._folder, exist_ok=True)
        plan = self._model.plan
        states = {name: self._stored(0, name, plan.widths[name], self._encoded(name)) for name in self._sets}
        of_seeds = [states[plan.seed_set]]
        for layer, widths in enumerate(plan.layers):
            states |= {
                name: self._stored(layer + 1, name, width, self._updated(layer, name, dict(states)))
                for name, width in widths.items()
            }
            of_seeds.append(states[plan.seed_set])
        return of_seeds if plan.reads_all_states else of_seeds[-1:]

    def _stored(self, stage: int, node_set: str, width: int, batches: _Batches) -> _States:
        """Returns the states of a node set from their file; writes it from `batches` unless an earlier run did."""
        split, shard = f"{STATES_DIR}-{stage}", self._sets.index(node_set)
        path = os.path.join(self._folder, f"{stage}-{shard}.npy")
        noted = self._log.read().get((split, shard))
        if noted is None or not os.path.exists(path) or noted[_CHECKSUM] != fingerprint_files([path]):
            num_nodes = self._graph.node_tables[node_set].num_nodes
            partial = f"{path}.writing"
            write_header: Any = np.lib.format.write_array_header_1_0  # NumPy has no types for it.
            name = f"layer {stage} of {node_set}" if stage else f"encoding {node_set}"
            # Written, not mapped: on a full disk, a write fails, while a mapped page would kill the process.
            with open(partial, "wb") as file, progress(name, total=num_nodes, unit="nodes") as advance:
                write_header(file, {"descr": "<f4", "fortran_order": False, "shape": (num_nodes, width)})
                for start, stop, values in batches:
                    file.write(np.ascontiguousarray(values, "<f4").data)
                    advance(stop - start)
            sync_path(partial)
            os.replace(partial, path)
            sync_path(self._folder)
            self._log.note(split, shard, {_CHECKSUM: fingerprint_files([path])})
        stored: _States = np.load(path, mmap_mode="r")
        return stored

    def _encoded(self, node_set: str) -> _Batches:
        num_nodes = self._graph.node_tables[node_set].num_nodes
        for start in range(0, num_nodes, MAX_BATCH_NODES):
            stop = min(start + MAX_BATCH_NODES, num_nodes)
            encoded = self._model.encode(self._records.of_nodes(node_set, np.arange(start, stop)))
            yield start, stop, encoded[f"{const.NODES}/{node_set}"].numpy()

    def _updated(self, layer: int, node_set: str, states: Mapping[str, _States]) -> _Batches:
        for start, stop in self._batches.ranges(layer, node_set):
            inputs = self._batches.inputs(layer, node_set, start, stop, states)
            yield start, stop, self._model.update(layer, node_set, inputs)
