"""The fraction of edges whose ends have the same label.

A node's label is known if the node is the seed of some example, in whatever split. Every edge counts
once per split, no matter how many subgraphs contain it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_example_validator.split_leaks import SeedsOfBatch
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.records.example_batches import flat_index
from tfx_gnn.records.graph_layout import GraphLayout
from tfx_gnn.records.readout_roots import READOUT_PREFIX, RootSets, node_hashes
from tfx_gnn.records.value_hashes import Hashes, Rows, first_of_equal, group_equal, hash_items
from tfx_gnn.sampling.plan.hop import SEED
from tfx_gnn.sampling.random_choice import mix

END_ROW = np.dtype(
    [("node", "<u8"), ("other", "<u8"), ("label", "<u8"), ("edge_set", "<u2"), ("rank", "<u2"), ("is_edge", "?")]
)
"""Either the label of a node, or an edge at a node whose label is to be looked up. An edge row has the edge's other end
and, once known, that end's label."""


@dataclasses.dataclass(kw_only=True)
class EdgeAgreement:
    """Edges of one set and one split whose ends both have known labels.

    Attributes:
        edge_set: position in `list_homophilic_edge_sets`.
        rank: position of the split.
        num_edges: distinct edges with two known labels.
        num_equal: edges among these that join equal labels.
    """

    edge_set: int
    rank: int
    num_edges: int
    num_equal: int


def list_homophilic_edge_sets(layout: GraphLayout, roots: RootSets) -> list[str]:
    """Lists the edge sets from the seed node set to itself; none unless seeds are nodes with ids."""
    seed_set = roots.node_sets.get(SEED, "")
    if not seed_set or roots.without_id(layout):
        return []
    return [
        one_set.name
        for one_set in layout.sets
        if one_set.set_type == const.EDGES and one_set.source == one_set.target == seed_set
    ]


def make_end_rows(seeds: SeedsOfBatch, roots: RootSets, label: str, layout: GraphLayout, rank: int) -> Rows:
    """Returns the labels of seeds and the edges of examples, as `END_ROW`."""
    hashes = node_hashes(seeds.batch, roots.node_sets[SEED], layout)
    labels = hash_items(seeds.batch, layout.features[f"{READOUT_PREFIX}.{label}"], READOUT_PREFIX)
    whole = seeds.roots.is_whole & (len(labels) > 0)
    of_nodes = np.zeros(int(whole.sum()), END_ROW)
    of_nodes["node"] = hashes[seeds.roots.nodes[SEED][whole]]
    if len(of_nodes):
        of_nodes["label"] = labels[whole]
    parts = [of_nodes]
    for number, name in enumerate(list_homophilic_edge_sets(layout, roots)):
        one_set = layout.set_by_prefix[f"{const.EDGES}/{name}"]
        rows = np.zeros(len(flat_index(seeds.batch, one_set.source_key, one_set.source)), END_ROW)
        rows["node"] = hashes[flat_index(seeds.batch, one_set.source_key, one_set.source)]
        rows["other"] = hashes[flat_index(seeds.batch, one_set.target_key, one_set.target)]
        rows["edge_set"], rows["rank"], rows["is_edge"] = number, rank, True
        parts.append(rows)
    return reduce_end_rows(np.concatenate(parts))


def hash_end_rows(rows: Rows) -> Hashes:
    """Hashes that group edges with the label of their node."""
    return mix(rows["node"])


def reduce_end_rows(rows: Rows) -> Rows:
    """Keeps one row per label and one per edge; if a node has two labels, the choice does not depend on order."""
    return first_of_equal(rows, ("is_edge", "node", "other", "edge_set", "rank"), ("label",))


def ask_sources(rows: Rows) -> Rows:
    """Attaches the source's label to each edge, and reverses the edges so that the target's label is looked up next.

    `rows` are all rows of some nodes, reduced. Edges whose source has no label are dropped.
    """
    labels, edges, is_known, known = _look_up(rows)
    turned = edges[is_known].copy()
    turned["node"], turned["other"] = edges["other"][is_known], edges["node"][is_known]
    turned["label"] = known
    return np.concatenate([labels, turned])


def ask_targets(rows: Rows) -> list[EdgeAgreement]:
    """Compares target labels with source labels, in all rows that `ask_sources` returned for some targets."""
    _, edges, is_known, known = _look_up(rows)
    counted = edges[is_known]
    is_equal = counted["label"] == known
    order = np.lexsort([counted["rank"], counted["edge_set"]])
    ordered, starts = group_equal(counted, ("edge_set", "rank"))
    if not len(starts):
        return []
    totals = np.diff(np.append(starts, len(ordered)))
    equals = np.add.reduceat(is_equal[order].astype(np.int64), starts)
    return [
        EdgeAgreement(edge_set=int(row["edge_set"]), rank=int(row["rank"]), num_edges=int(total), num_equal=int(equal))
        for row, total, equal in zip(ordered[starts], totals, equals, strict=True)
    ]


def merge_agreements(parts: Iterable[list[EdgeAgreement]]) -> list[EdgeAgreement]:
    """Adds up counts of disjoint edges, in any order."""
    totals: dict[tuple[int, int], EdgeAgreement] = {}
    for part in parts:
        for item in part:
            key = (item.edge_set, item.rank)
            total = totals.setdefault(key, dataclasses.replace(item, num_edges=0, num_equal=0))
            total.num_edges += item.num_edges
            total.num_equal += item.num_equal
    return [totals[key] for key in sorted(totals)]


def _look_up(rows: Rows) -> tuple[Rows, Rows, npt.NDArray[np.bool_], Hashes]:
    """Labels (one per node), edges, whether each edge's node has a label (bool), and the labels where it does."""
    labels = first_of_equal(rows[~rows["is_edge"]], ("node",), ("label",))
    edges = rows[rows["is_edge"]]
    if not len(labels):
        return labels, edges, np.zeros(len(edges), bool), np.zeros(0, np.uint64)
    found = np.minimum(np.searchsorted(labels["node"], edges["node"]), len(labels) - 1)
    is_known = labels["node"][found] == edges["node"]
    return labels, edges, is_known, labels["label"][found[is_known]]
