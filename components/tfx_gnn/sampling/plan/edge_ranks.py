"""Edge ranks and seed limits, which decide what a split may see.

A seed of split `i` (its position in `SplitPlan.names`) has the limit `2 * i`, and
its subgraph holds edges of at most that rank. So every split sees edges of rank 0;
splits after `i`, but not split `i` itself, see edges of the odd rank `2 * i + 1`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.seed_splits import (
    UNUSED,
    edge_split_codes,
    edge_split_columns,
    node_split_codes,
    node_split_columns,
    pair_keys,
    supervision_only,
    tables_with_splits,
)
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.graph_tables import GraphTables

ALWAYS_VISIBLE = 0
"""Rank of edges that every subgraph may hold."""

_Codes = npt.NDArray[np.uint64]
_Ranks = npt.NDArray[np.int8]


def rank_limit(split_code: int) -> int:
    """Returns the highest rank that subgraphs of a split may hold: an even number."""
    return 2 * split_code


def link_edge_ranks(split_codes: npt.NDArray[np.int16], is_supervision_only: npt.NDArray[np.bool_]) -> _Ranks:
    """Ranks the edges that are predicted, and their reverses.

    Every split sees the edges of the first split, except edges that are supervision
    only: these are visible from the second split on. Edges of a later split are
    visible to the splits after it. Edges that are not seeds are visible to all.
    """
    ranks = 2 * split_codes.astype(np.int8) + 1
    is_open = (split_codes == UNUSED) | ((split_codes == 0) & ~is_supervision_only)
    return np.where(is_open, ALWAYS_VISIBLE, ranks).astype(np.int8)


def node_ranks(split_codes: npt.NDArray[np.int16]) -> _Ranks:
    """Ranks the nodes of the seed node set in an inductive plan.

    A node is visible to its own split and later ones; nodes that are not seeds are visible to all.
    """
    return np.where(split_codes == UNUSED, ALWAYS_VISIBLE, 2 * split_codes).astype(np.int8)


def inductive_edge_ranks(source_ranks: _Ranks | None, target_ranks: _Ranks | None) -> _Ranks | None:
    """Ranks edges by the nodes that they would reveal: the higher rank of their two ends.

    Ranks are None for ends outside the seed node set; None is returned if every split sees all edges.
    """
    if source_ranks is None or target_ranks is None:
        return source_ranks if target_ranks is None else target_ranks
    return np.maximum(source_ranks, target_ranks)


def rank_edges(tables: GraphTables, plan: SamplingPlan) -> dict[str, npt.NDArray[np.int8]]:
    """Ranks the edges of all edge sets that have edges hidden from some split.

    Args:
        tables: the graph, read with the extra columns that `tables_with_splits` lists.
        plan: the sampling plan.

    Returns:
        By edge set, int8 array, shape [num_edges]: a seed of split `i` sees ranks up to `2 * i`. Edge sets without
        an entry are visible to all.

    Raises:
        ValueError: if a row has no split, or an edge and its reverse have different splits.
    """
    if plan.is_link_plan:
        return _rank_link_edges(tables, plan)
    if plan.splits.visibility != "inductive":
        return {}
    seeds = tables.node_tables[plan.seed_node_set]
    ranks_of_nodes = node_ranks(
        node_split_codes(plan.splits, codes=hash_ids(seeds.ids), columns=node_split_columns(plan, seeds))
    )
    ranks = {}
    for name, table in tables.edge_tables.items():
        of_edges = inductive_edge_ranks(
            ranks_of_nodes[table.sources] if table.source_set == plan.seed_node_set else None,
            ranks_of_nodes[table.targets] if table.target_set == plan.seed_node_set else None,
        )
        if of_edges is not None:
            ranks[name] = of_edges
    return ranks


def _rank_link_edges(tables: GraphTables, plan: SamplingPlan) -> dict[str, npt.NDArray[np.int8]]:
    is_symmetric = plan.seed_edge_set in plan.reverse_edge_sets
    ranks: dict[str, npt.NDArray[np.int8]] = {}
    splits: dict[str, npt.NDArray[np.int16]] = {}
    for name in tables_with_splits(plan).edge_sets:
        table = tables.edge_tables[name]
        sources, targets = _end_codes(tables, name)
        is_reverse = name != plan.seed_edge_set
        splits[name] = edge_split_codes(
            plan.splits,
            source_codes=sources,
            target_codes=targets,
            columns=edge_split_columns(plan, name, table),
            is_symmetric=is_symmetric,
            is_reverse=is_reverse,
        )
        forward = (targets, sources) if is_reverse else (sources, targets)
        is_supervision = supervision_only(plan.splits, pair_keys(*forward, is_symmetric=is_symmetric))
        ranks[name] = link_edge_ranks(splits[name], is_supervision)
    if plan.splits.rule != "hash" or plan.splits.group_column:
        for name in plan.reverse_edge_sets:
            if name in splits:
                _check_reverses(tables, plan, name, splits)
    return ranks


def _check_reverses(
    tables: GraphTables, plan: SamplingPlan, name: str, splits: Mapping[str, npt.NDArray[np.int16]]
) -> None:
    """Refuses a reverse edge whose forward edges are all in other splits: it would reveal them."""
    keys = pair_keys(*_end_codes(tables, plan.seed_edge_set))
    sources, targets = _end_codes(tables, name)
    forward_keys = pair_keys(targets, sources)
    agrees = np.isin(_with_splits(forward_keys, splits[name]), _with_splits(keys, splits[plan.seed_edge_set]))
    rows = np.flatnonzero(np.isin(forward_keys, keys) & ~agrees)
    if len(rows):
        row, table = int(rows[0]), tables.edge_tables[name]
        code = int(splits[name][row])
        raise ValueError(
            "`splits` must give an edge and its reverse the same split; got "
            f"{plan.splits.names[code] if code >= 0 else 'unused'!r} for row {int(table.rows[row])} (from 0) of "
            f"{table.path}, one of {len(rows)} whose edge in {plan.seed_edge_set!r} has another. Correct the table, "
            "or split by hash."
        )


def _end_codes(tables: GraphTables, edge_set: str) -> tuple[_Codes, _Codes]:
    table = tables.edge_tables[edge_set]
    sources = hash_ids(tables.node_tables[table.source_set].ids)[table.sources]
    targets = hash_ids(tables.node_tables[table.target_set].ids)[table.targets]
    return sources, targets


def _with_splits(keys: _Codes, split_codes: npt.NDArray[np.int16]) -> _Codes:
    return pair_keys(keys, split_codes.astype(np.uint64))
