"""The root nodes of a graph in a tf.Example, which its `_readout` nodes read from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET, SHADOW_PREFIX
from tfx_gnn.records.example_batches import ExampleBatch, flat_index, item_splits
from tfx_gnn.records.graph_layout import GraphLayout
from tfx_gnn.records.value_hashes import Hashes, hash_values
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE, ROOT_TARGET, SEED

READOUT_PREFIX = f"{const.NODES}/{READOUT_NODE_SET}"
_ROOT_EDGES = f"{READOUT_NODE_SET}/"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RootSets:
    """The sets that readout nodes read from, according to the graph schema.

    Attributes:
        node_sets: node set by root, which is "seed", or "source" and "target".
        shadowed: edge set that has the seed as an edge; its roots are then "source" and "target".
    """

    node_sets: Mapping[str, str]
    shadowed: str = ""

    @staticmethod
    def of(layout: GraphLayout) -> RootSets:
        """Finds the root sets of a layout; there are none without a readout."""
        found = {
            one_set.name.removeprefix(_ROOT_EDGES): one_set.source
            for one_set in layout.sets
            if one_set.set_type == const.EDGES
            and one_set.name.startswith(_ROOT_EDGES)
            and one_set.target == READOUT_NODE_SET
        }
        shadowed = found.get(SEED, "").removeprefix(SHADOW_PREFIX)
        if found.get(SEED, "").startswith(SHADOW_PREFIX) and f"{const.EDGES}/{shadowed}" in layout.set_by_prefix:
            edges = layout.set_by_prefix[f"{const.EDGES}/{shadowed}"]
            return RootSets(node_sets={ROOT_SOURCE: edges.source, ROOT_TARGET: edges.target}, shadowed=shadowed)
        return RootSets(node_sets=found)

    @property
    def are_pairs(self) -> bool:
        """Whether examples are about pairs of nodes."""
        return {ROOT_SOURCE, ROOT_TARGET} <= set(self.node_sets)

    def without_id(self, layout: GraphLayout) -> list[str]:
        """Node sets of roots whose nodes cannot be distinguished because they have no "#id"."""
        names = sorted(set(self.node_sets.values()))
        return [name for name in names if layout.set_by_prefix[f"{const.NODES}/{name}"].id_column is None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadoutRoots:
    """The roots of the readout nodes of a batch.

    Attributes:
        examples: int64 [num_readouts]; the example of each readout node.
        nodes: by root, int64 [num_readouts]: position of the root among all examples' nodes of its set; -1 if
            the readout node lacks that root.
        edges: int64 [num_readouts]: position of the edge that a readout is about, among all examples' edges of
            its set; -1 if the readout lacks one. None unless examples are about edges that they contain.
    """

    examples: npt.NDArray[np.int64]
    nodes: Mapping[str, npt.NDArray[np.int64]]
    edges: npt.NDArray[np.int64] | None = None

    @property
    def is_whole(self) -> npt.NDArray[np.bool_]:
        """Whether each readout node has all its roots: bool [num_readouts]."""
        has_all = np.ones(len(self.examples), bool)
        for nodes in self.nodes.values():
            has_all &= nodes >= 0
        return has_all


def read_roots(batch: ExampleBatch, roots: RootSets, layout: GraphLayout) -> ReadoutRoots:
    """Finds the roots of all readout nodes; the layout has node set `_readout`."""
    splits = item_splits(batch, READOUT_PREFIX)
    examples = np.repeat(np.arange(batch.num_examples), np.diff(splits))
    if not roots.shadowed:
        nodes = {root: _read_root(batch, root, node_set, splits) for root, node_set in roots.node_sets.items()}
        return ReadoutRoots(examples=examples, nodes=nodes)
    # The nodes of a shadow set are the edges of the set that it shadows, in their order.
    edges = _read_root(batch, SEED, f"{SHADOW_PREFIX}{roots.shadowed}", splits)
    shadowed = layout.set_by_prefix[f"{const.EDGES}/{roots.shadowed}"]
    nodes = {}
    for root, key, node_set in (
        (ROOT_SOURCE, shadowed.source_key, shadowed.source),
        (ROOT_TARGET, shadowed.target_key, shadowed.target),
    ):
        ends = flat_index(batch, key, node_set)
        is_edge = (edges >= 0) & (edges < len(ends))
        nodes[root] = np.full(len(edges), -1)
        nodes[root][is_edge] = ends[edges[is_edge]]
    return ReadoutRoots(examples=examples, nodes=nodes, edges=edges)


def node_hashes(batch: ExampleBatch, node_set: str, layout: GraphLayout) -> Hashes:
    """Hashes the "#id" of all nodes of a set that has one, concatenated over all examples: uint64 [num_nodes]."""
    column = layout.set_by_prefix[f"{const.NODES}/{node_set}"].id_column
    assert column is not None
    # A hub is in many subgraphs: hash each id of the batch once.
    encoded = batch.column(column.key).values.dictionary_encode()
    return hash_values(encoded.dictionary)[encoded.indices.to_numpy(zero_copy_only=False)]


def _read_root(batch: ExampleBatch, root: str, node_set: str, splits: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    prefix = f"{const.EDGES}/{_ROOT_EDGES}{root}"
    sources = flat_index(batch, f"{prefix}.{const.SOURCE_NAME}", node_set)
    targets = flat_index(batch, f"{prefix}.{const.TARGET_NAME}", READOUT_NODE_SET)
    nodes = np.full(int(splits[-1]), -1)
    nodes[targets] = sources
    return nodes
