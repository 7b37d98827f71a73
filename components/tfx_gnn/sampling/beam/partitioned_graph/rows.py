"""Converts rows of tables to rows of a partitioned graph: codes, ranks, splits and times.

These are pure functions of blocks of rows, so that it does not matter which worker reads which block.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.beam.partitioned_graph import files
from tfx_gnn.sampling.beam.partitioned_graph.job import BACKWARD, EdgeRequirements, PartitionJob, PartitionRequirements
from tfx_gnn.sampling.beam.partitioned_graph.partitions import count_buckets
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
from tfx_gnn.tables.table_layout import EXTRA_PREFIX, TableLayout

_Codes = npt.NDArray[np.uint64]
_Ranks = npt.NDArray[np.int8]
_NO_CODES = np.zeros(0, np.uint64)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GivenRows:
    """Some rows of a table.

    Attributes:
        columns: features and extra columns; for nodes also `#id`.
        rows: int64 array, shape [columns.num_rows]: rows in the table as written.
        place_of: describes for messages where the row at a position of `rows` is.
    """

    columns: pa.Table
    rows: npt.NDArray[np.int64]
    place_of: Callable[[int], str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownEnds:
    """The nodes at the ends of some edges; all of them exist.

    Attributes:
        sources: uint64 array, shape [num_edges]: codes of the sources.
        targets: uint64 array, shape [num_edges]: codes of the targets.
        source_ranks: int8 array, shape [num_edges]: `node_ranks` of the sources; None if
            their node set has no ranks.
        target_ranks: int8 array, shape [num_edges]: `node_ranks` of the targets; None if
            their node set has no ranks.
    """

    sources: _Codes
    targets: _Codes
    source_ranks: _Ranks | None = None
    target_ranks: _Ranks | None = None


def node_rows(plan: SamplingPlan, requirements: PartitionRequirements, node_set: str, given: GivenRows) -> pa.Table:
    """Makes rows of nodes: `#code`, `#id`, `#row` and the needed features.

    Nodes whose split matters also have `#split`, and seeds of a temporal plan have `#time`.
    """
    columns = {
        files.CODE: hash_ids(files.one_array(given.columns, files.ID)).view(np.int64),
        files.ID: given.columns.column(files.ID),
        files.ROW: given.rows,
        **{name: given.columns.column(name) for name in requirements.node_sets[node_set]},
    }
    if node_set == plan.seed_node_set and _splits_nodes(plan):
        codes = columns[files.CODE].view(np.uint64)
        columns[files.SPLIT] = node_split_codes(
            plan.splits, codes=codes, columns=_split_columns(plan, given, plan.splits.time_feature)
        )
    if node_set == plan.seed_node_set and plan.temporal and plan.seed_table is None:
        columns[files.TIME] = integers(given.columns, plan.temporal.seed_time)
    return pa.table(columns)


def stored_nodes(requirements: PartitionRequirements, node_set: str, rows: pa.Table) -> pa.Table:
    """Selects the columns of node files: `#code`, `#id` and the needed features."""
    return rows.select([files.CODE, files.ID, *requirements.node_sets[node_set]])


def _splits_nodes(plan: SamplingPlan) -> bool:
    """Returns whether nodes of the seed node set have splits: as seeds, or to hide them from earlier splits."""
    return not plan.is_link_plan and (plan.seed_table is None or plan.splits.visibility == "inductive")


def node_ranks(plan: SamplingPlan, node_set: str, rows: pa.Table) -> _Ranks | None:
    """Ranks nodes that are hidden from earlier splits; None if every split sees all nodes."""
    if plan.is_link_plan or plan.splits.visibility != "inductive" or node_set != plan.seed_node_set:
        return None
    return edge_ranks.node_ranks(rows.column(files.SPLIT).to_numpy())


def edge_rows(
    plan: SamplingPlan, requirements: PartitionRequirements, edge_set: str, given: GivenRows, ends: KnownEnds
) -> pa.Table:
    """Makes rows of edges between known nodes: `#source`, `#target`, `#row`, `#rank` if needed, and needed features.

    The seed edge set also has `#split` and `#time`, as in seed files, and labels.
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
    """Arranges the rows of `edge_rows`, with their `degree_column`s, for lookup in one direction.

    The columns are `#node`, `#row`, `#neighbor`, `#rank` if the edges have ranks, features, and `#in_degree` if a hop
    chooses by it.
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
    """Names the column with the number of edges at the end that an in-degree hop leads to."""
    return f"{files.IN_DEGREE}.{direction}"


def node_seeds(plan: SamplingPlan, rows: pa.Table) -> pa.Table:
    """Makes seeds from nodes: `#key`, `#row`, `#code`, `#split`, and `#time` in temporal plans."""
    columns = {
        files.KEY: rows.column(files.CODE),
        files.ROW: rows.column(files.ROW),
        files.CODE: rows.column(files.CODE),
        files.SPLIT: rows.column(files.SPLIT),
    }
    if plan.temporal:
        columns[files.TIME] = rows.column(files.TIME)
    return _used(pa.table(columns))


def edge_seeds(plan: SamplingPlan, requirements: PartitionRequirements, rows: pa.Table) -> pa.Table:
    """Makes seeds from edges: `#key`, `#row`, `#source`, `#target`, `#split`, `#time` if temporal, and features."""
    ends = files.as_codes(rows.column(files.SOURCE)), files.as_codes(rows.column(files.TARGET))
    columns = {
        files.KEY: pair_keys(*ends).view(np.int64),
        **{name: rows.column(name) for name in (files.ROW, files.SOURCE, files.TARGET, files.SPLIT)},
    }
    if plan.temporal:
        columns[files.TIME] = rows.column(files.TIME)
    return _used(pa.table(columns | {name: rows.column(name) for name in requirements.seed_features}))


def table_seeds(
    plan: SamplingPlan, requirements: PartitionRequirements, given: GivenRows, ends: tuple[_Codes, ...]
) -> pa.Table:
    """Makes seeds from rows of the seed table, like `node_seeds` or `edge_seeds`, with the needed features.

    All nodes exist; `ends` holds the codes of the nodes, or of the sources and targets.
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
    """Reads an integer column as int64."""
    return np.asarray(table.column(name).to_numpy(), np.int64)


def link_splits(
    plan: SamplingPlan, edge_set: str, given: GivenRows, ends: KnownEnds
) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.bool_]]:
    """Returns the split codes of predicted edges or of their reverses, and which edges are supervision only."""
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


def partition_schemas(job: PartitionJob) -> dict[str, pa.Schema]:
    """Returns the schema of each table of a partitioned graph except the context, by converting empty tables."""
    plan, requirements = job.plan, job.requirements
    schemas = {}
    for name in requirements.node_sets:
        rows = node_rows(plan, requirements, name, _no_rows(job.layouts[f"nodes/{name}"]))
        schemas[files.node_table(name)] = stored_nodes(requirements, name, rows).schema
        if name == plan.seed_node_set and plan.seed_table is None:
            schemas[files.SEED_TABLE] = node_seeds(plan, rows).schema
    for name, of_set in requirements.edge_sets.items():
        no_ranks = np.zeros(0, np.int8) if of_set.has_ranks else None
        ends = KnownEnds(sources=_NO_CODES, targets=_NO_CODES, source_ranks=no_ranks, target_ranks=no_ranks)
        rows = edge_rows(plan, requirements, name, _no_rows(job.layouts[f"edges/{name}"]), ends)
        if name == plan.seed_edge_set and plan.seed_table is None:
            schemas[files.SEED_TABLE] = edge_seeds(plan, requirements, rows).schema
        for direction in of_set.degree_directions:
            rows = rows.append_column(degree_column(direction), pa.array(np.zeros(0, np.int64)))
        for direction in of_set.directions:
            found = direction_rows(of_set, rows, direction)
            in_buckets = found.append_column(files.BUCKET, pa.array(np.zeros(0, np.int32)))
            schemas[files.edge_table(name, direction)] = found.schema
            schemas[files.bucket_table(name, direction)] = in_buckets.schema
            schemas[files.hub_table(name, direction)] = count_buckets(in_buckets).schema
        if of_set.stored_degrees:
            schemas[files.in_degree_table(name)] = pa.schema([(files.IN_DEGREE, pa.int64())])
    if plan.seed_table is not None:
        ends_of_seeds = (_NO_CODES,) * len(requirements.root_sets)
        seeds = table_seeds(plan, requirements, _no_rows(job.layouts["seeds"]), ends_of_seeds)
        schemas[files.SEED_TABLE] = seeds.schema
    return schemas


def _no_rows(layout: TableLayout) -> GivenRows:
    columns = {key: pa.array([], column.arrow_type) for key, column in layout.columns.items()}
    return GivenRows(columns=pa.table(columns), rows=np.zeros(0, np.int64), place_of="row {}".format)


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
