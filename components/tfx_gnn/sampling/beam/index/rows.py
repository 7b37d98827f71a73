"""Converts rows of tables to rows of an index: codes, ranks, splits and times.

Pure functions of blocks of rows, so that it does not matter who reads which block.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.beam.index import files
from tfx_gnn.sampling.beam.index.requirements import BACKWARD, EdgeRequirements, IndexRequirements
from tfx_gnn.sampling.plan import edge_ranks
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.seed_splits import (
    UNUSED,
    SplitColumns,
    edge_split_codes,
    node_split_codes,
    pair_keys,
    split_time_feature,
    supervision_only,
)
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.table_layout import EXTRA_PREFIX

_Codes = npt.NDArray[np.uint64]
_Ranks = npt.NDArray[np.int8]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GivenRows:
    """Some rows of a table.

    Attributes:
        columns: features and extra columns; of nodes `#id` too.
        rows: int64 array, shape [columns.num_rows]: rows in the table as written.
        place_of: names the place of one of the rows, from its position here, for messages.
    """

    columns: pa.Table
    rows: npt.NDArray[np.int64]
    place_of: Callable[[int], str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownEnds:
    """The nodes at the ends of some edges, all of which are there.

    Attributes:
        sources: uint64 array, shape [num_edges]: codes of the sources.
        targets: uint64 array, shape [num_edges]: codes of the targets.
        source_ranks: int8 array, shape [num_edges]: `node_ranks` of the sources; None if
            they are of a node set without ranks.
        target_ranks: the same for the targets.
    """

    sources: _Codes
    targets: _Codes
    source_ranks: _Ranks | None = None
    target_ranks: _Ranks | None = None


def node_rows(plan: SamplingPlan, requirements: IndexRequirements, node_set: str, given: GivenRows) -> pa.Table:
    """Codes nodes, and finds the splits of seeds.

    Args:
        plan: the sampling plan.
        requirements: what it requirements.
        node_set: name of the set.
        given: some of its nodes.

    Returns:
        Table of `#code`, `#id`, `#row` and the needed features; for nodes whose split
        matters `#split`; and for seeds of a temporal plan `#time`.
    """
    columns = {
        files.CODE: hash_ids(files.one_array(given.columns, files.ID)).view(np.int64),
        files.ID: given.columns.column(files.ID),
        files.ROW: given.rows,
        **{name: given.columns.column(name) for name in requirements.node_sets[node_set]},
    }
    if node_set == plan.seed_node_set and splits_nodes(plan):
        codes = columns[files.CODE].view(np.uint64)
        columns[files.SPLIT] = node_split_codes(
            plan.splits, codes=codes, columns=_split_columns(plan, given, plan.splits.time_feature)
        )
    if node_set == plan.seed_node_set and plan.temporal and plan.seed_table is None:
        columns[files.TIME] = integers(given.columns, plan.temporal.seed_time)
    return pa.table(columns)


def stored_nodes(requirements: IndexRequirements, node_set: str, rows: pa.Table) -> pa.Table:
    """Selects what node files hold.

    Args:
        requirements: what the plan requirements.
        node_set: name of the set.
        rows: what `node_rows` returned.

    Returns:
        Table of `#code`, `#id` and the needed features.
    """
    return rows.select([files.CODE, files.ID, *requirements.node_sets[node_set]])


def splits_nodes(plan: SamplingPlan) -> bool:
    """Tells whether nodes of the seed node set have splits.

    Args:
        plan: the sampling plan.

    Returns:
        Whether the nodes themselves are the seeds, or are hidden from earlier splits.
    """
    return not plan.is_link_plan and (plan.seed_table is None or plan.splits.visibility == "inductive")


def node_ranks(plan: SamplingPlan, node_set: str, rows: pa.Table) -> _Ranks | None:
    """Ranks nodes that are hidden from earlier splits.

    Args:
        plan: the sampling plan.
        node_set: name of the set.
        rows: what `node_rows` returned.

    Returns:
        int8 array, shape [rows.num_rows]; None if all are visible to all.
    """
    if plan.is_link_plan or plan.splits.visibility != "inductive" or node_set != plan.seed_node_set:
        return None
    return edge_ranks.node_ranks(rows.column(files.SPLIT).to_numpy())


def edge_rows(
    plan: SamplingPlan, requirements: IndexRequirements, edge_set: str, given: GivenRows, ends: KnownEnds
) -> pa.Table:
    """Ranks edges between nodes that are known.

    Args:
        plan: the sampling plan.
        requirements: what it requirements.
        edge_set: name of the set.
        given: some of its edges.
        ends: the nodes that they join.

    Returns:
        Table of `#source`, `#target`, `#row`, `#rank` if the plan needs it, and the
        needed features; of the seed edge set also `#split` and `#time` as in seed
        files, and labels.
    """
    of_set = requirements.edge_sets[edge_set]
    columns = {
        files.SOURCE: ends.sources.view(np.int64),
        files.TARGET: ends.targets.view(np.int64),
        files.ROW: given.rows,
        **{name: given.columns.column(name) for name in of_set.features},
    }
    if plan.is_link_plan and of_set.has_ranks:
        split_codes, is_supervision = link_splits(plan, edge_set, given, ends)
        columns[files.RANK] = edge_ranks.link_edge_ranks(split_codes, is_supervision)
        if edge_set == plan.seed_edge_set and plan.seed_table is None:
            if plan.splits.disjoint_train_share:
                split_codes = np.where((split_codes == 0) & ~is_supervision, UNUSED, split_codes).astype(np.int16)
            columns[files.SPLIT] = split_codes
            columns |= {name: given.columns.column(name) for name in requirements.seed_features}
            if plan.temporal:
                columns[files.TIME] = integers(given.columns, plan.temporal.seed_time)
    elif of_set.has_ranks:
        columns[files.RANK] = edge_ranks.inductive_edge_ranks(ends.source_ranks, ends.target_ranks)
    return pa.table(columns)


def direction_rows(requirements: EdgeRequirements, rows: pa.Table, direction: str) -> pa.Table:
    """Arranges edges to be looked up in one direction.

    Args:
        requirements: what is needed of the edge set.
        rows: what `edge_rows` returned, with a `degree_column` for each direction of
            `requirements.degree_directions`.
        direction: "forward" or "backward".

    Returns:
        Table of `#node`, `#row`, `#neighbor`, `#rank` if there is one, features, and
        `#in_degree` if a hop chooses by it.
    """
    node, neighbor = files.SOURCE, files.TARGET
    if direction == BACKWARD:
        node, neighbor = neighbor, node
    columns = {
        files.NODE: rows.column(node),
        files.ROW: rows.column(files.ROW),
        files.NEIGHBOR: rows.column(neighbor),
    }
    if requirements.has_ranks:
        columns[files.RANK] = rows.column(files.RANK)
    columns |= {name: rows.column(name) for name in requirements.features}
    if direction in requirements.degree_directions:
        columns[files.IN_DEGREE] = rows.column(degree_column(direction))
    return pa.table(columns)


def degree_column(direction: str) -> str:
    """Names the column of edges on their way with what an in-degree hop chooses by.

    Args:
        direction: direction of the hop.

    Returns:
        Name of the column: the number of edges of the set at the end where the hop leads.
    """
    return f"{files.IN_DEGREE}.{direction}"


def node_seeds(plan: SamplingPlan, rows: pa.Table) -> pa.Table:
    """Makes seeds of nodes.

    Args:
        plan: a node plan without seed table.
        rows: what `node_rows` returned for the seed node set.

    Returns:
        Table of `#key`, `#row`, `#code`, `#split`, and `#time` in temporal plans, without
        the nodes that are no seeds.
    """
    columns = {
        files.KEY: rows.column(files.CODE),
        files.ROW: rows.column(files.ROW),
        files.CODE: rows.column(files.CODE),
        files.SPLIT: rows.column(files.SPLIT),
    }
    if plan.temporal:
        columns[files.TIME] = rows.column(files.TIME)
    return _used(pa.table(columns))


def edge_seeds(plan: SamplingPlan, requirements: IndexRequirements, rows: pa.Table) -> pa.Table:
    """Makes seeds of edges.

    Args:
        plan: a link plan without seed table.
        requirements: what it requirements.
        rows: what `edge_rows` returned for the seed edge set.

    Returns:
        Table of `#key`, `#row`, `#source`, `#target`, `#split`, `#time` in temporal plans,
        and features, without the edges that are no seeds.
    """
    ends = files.as_codes(rows.column(files.SOURCE)), files.as_codes(rows.column(files.TARGET))
    columns = {
        files.KEY: pair_keys(*ends).view(np.int64),
        **{name: rows.column(name) for name in (files.ROW, files.SOURCE, files.TARGET, files.SPLIT)},
    }
    if plan.temporal:
        columns[files.TIME] = rows.column(files.TIME)
    return _used(pa.table(columns | {name: rows.column(name) for name in requirements.seed_features}))


def table_seeds(
    plan: SamplingPlan, requirements: IndexRequirements, given: GivenRows, ends: tuple[_Codes, ...]
) -> pa.Table:
    """Makes seeds of rows of the seed table.

    Args:
        plan: a plan with a seed table.
        requirements: what it requirements.
        given: some rows, whose nodes are all known.
        ends: codes of the nodes, or of sources and targets, each of shape [num_rows].

    Returns:
        As `node_seeds` or `edge_seeds`, with the needed features.
    """
    codes = dict(zip((files.SOURCE, files.TARGET) if plan.is_link_plan else (files.CODE,), ends, strict=True))
    splits = _split_columns(plan, given, plan.splits.time_feature)
    if plan.is_link_plan:
        is_symmetric = plan.seed_edge_set in plan.reverse_edge_sets
        split_codes = edge_split_codes(
            plan.splits, source_codes=ends[0], target_codes=ends[1], columns=splits, is_symmetric=is_symmetric
        )
    else:
        split_codes = node_split_codes(plan.splits, codes=ends[0], columns=splits)
    columns = {
        files.KEY: (pair_keys(*ends) if plan.is_link_plan else ends[0]).view(np.int64),
        files.ROW: given.rows,
        **{name: values.view(np.int64) for name, values in codes.items()},
        files.SPLIT: split_codes,
    }
    if plan.temporal:
        columns[files.TIME] = integers(given.columns, plan.temporal.seed_time)
    return _used(pa.table(columns | {name: given.columns.column(name) for name in requirements.seed_features}))


def integers(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    """Reads an integer column.

    Args:
        table: any table.
        name: name of the column.

    Returns:
        int64 array, shape [table.num_rows].
    """
    return np.asarray(table.column(name).to_numpy(), np.int64)


def link_splits(
    plan: SamplingPlan, edge_set: str, given: GivenRows, ends: KnownEnds
) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.bool_]]:
    """Finds the splits of edges that are predicted, or of their reverses.

    Args:
        plan: a link plan.
        edge_set: its seed edge set, or a reverse edge set.
        given: some of its edges.
        ends: the nodes that they join.

    Returns:
        Split codes, int16 array, shape [num_edges]; and which edges are supervision
        only, bool array, shape [num_edges].
    """
    is_symmetric = plan.seed_edge_set in plan.reverse_edge_sets
    is_reverse = edge_set != plan.seed_edge_set
    split_codes = edge_split_codes(
        plan.splits,
        source_codes=ends.sources,
        target_codes=ends.targets,
        columns=_split_columns(plan, given, split_time_feature(plan, edge_set)),
        is_symmetric=is_symmetric,
        is_reverse=is_reverse,
    )
    forward = (ends.targets, ends.sources) if is_reverse else (ends.sources, ends.targets)
    return split_codes, supervision_only(plan.splits, pair_keys(*forward, is_symmetric=is_symmetric))


def _split_columns(plan: SamplingPlan, given: GivenRows, time_feature: str) -> SplitColumns:
    splits, columns = plan.splits, given.columns
    return SplitColumns(
        names=files.one_array(columns, EXTRA_PREFIX + splits.column) if splits.column else None,
        times=integers(columns, time_feature) if time_feature else None,
        groups=files.one_array(columns, EXTRA_PREFIX + splits.group_column) if splits.group_column else None,
        place_of=given.place_of,
    )


def _used(rows: pa.Table) -> pa.Table:
    return rows.filter(pa.array(rows.column(files.SPLIT).to_numpy() != UNUSED))
