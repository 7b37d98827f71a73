"""The tables and columns that decide about splits, and edge ranks in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from tfx_gnn.sampling.plan import edge_ranks
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.seed_splits import (
    SplitColumns,
    edge_split_codes,
    node_split_codes,
    pair_keys,
    supervision_only,
)
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.graph_tables import EdgeTable, GraphTables, NodeTable

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import Feature, GraphSchema

_Codes = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TablesWithSplits:
    """The tables each of whose rows belongs to a split.

    All of them must carry the columns that the rule for splits looks at.

    Attributes:
        node_sets: node sets whose nodes are seeds, or hidden from earlier splits.
        edge_sets: edge sets whose edges are seeds or reverses of seeds, and are looked at.
        has_seed_table: whether the seeds are rows of a seed table.
        extra_columns: columns that each of them is read with as text, beside features.
    """

    node_sets: tuple[str, ...]
    edge_sets: tuple[str, ...]
    has_seed_table: bool
    extra_columns: tuple[str, ...]

    @property
    def extra_columns_by_table(self) -> dict[str, tuple[str, ...]]:
        """The extra columns by label of the table, for `read_tables`."""
        labels = [*(f"nodes/{name}" for name in self.node_sets), *(f"edges/{name}" for name in self.edge_sets)]
        return dict.fromkeys(labels, self.extra_columns) if self.extra_columns else {}


def tables_with_splits(plan: SamplingPlan) -> TablesWithSplits:
    """Lists the tables each of whose rows belongs to a split, by name in alphabetical order."""
    has_node_splits = not plan.is_link_plan and (plan.seed_table is None or plan.splits.visibility == "inductive")
    return TablesWithSplits(
        node_sets=(plan.seed_node_set,) if has_node_splits else (),
        edge_sets=plan.split_edge_sets,
        has_seed_table=plan.seed_table is not None,
        extra_columns=tuple(name for name in (plan.splits.column, plan.splits.group_column) if name),
    )


def split_time_feature(plan: SamplingPlan, edge_set: str) -> str:
    """Names the feature of a seed or reverse edge set whose time decides about its splits.

    It is `splits.time_feature`; but where that is the time of the seeds and these are no
    edges of the set, the feature that `temporal.edge_times` gives, if it does.
    """
    temporal = plan.temporal
    is_seed = edge_set == plan.seed_edge_set and plan.seed_table is None
    if temporal is None or is_seed or temporal.seed_time != plan.splits.time_feature:
        return plan.splits.time_feature
    return temporal.edge_times.get(edge_set, plan.splits.time_feature)


def check_split_features(plan: SamplingPlan, schema: GraphSchema) -> None:
    """Checks that the time that decides about splits is known for every row that has one."""
    seed_time = plan.splits.time_feature
    if not seed_time:
        return
    tables = tables_with_splits(plan)
    if tables.has_seed_table and plan.seed_table_features.get(seed_time) != "int64":
        raise ValueError(
            f"`splits.time_feature` must be an int64 column of the seed table; got {seed_time!r}, and the "
            f"columns "
            f"{dict(plan.seed_table_features)}. Declare it in `features`."
        )
    holders: list[tuple[str, str, Mapping[str, Feature]]] = [
        *((f"node set {node_set!r}", seed_time, schema.node_sets[node_set].features) for node_set in tables.node_sets),
        *(
            (f"edge set {edge_set!r}", split_time_feature(plan, edge_set), schema.edge_sets[edge_set].features)
            for edge_set in tables.edge_sets
        ),
    ]
    for place, name, features in holders:
        if name not in features:
            raise ValueError(
                f"`splits.time_feature` must be a feature of every table that has splits; got {name!r}, which "
                f"{place} lacks; it has {sorted(features)}. Add it there, or split by hash."
            )
        feature = features[name]
        if not tf.dtypes.as_dtype(feature.dtype).is_integer or feature.shape.dim or feature.shape.unknown_rank:
            raise ValueError(
                f"`splits.time_feature` must be one integer for each row; got {name!r} of type "
                f"{tf.dtypes.as_dtype(feature.dtype).name} in {place}. Give times as integers, seconds for example."
            )


def node_split_columns(plan: SamplingPlan, table: NodeTable) -> SplitColumns:
    """Takes what decides about splits from a node table, read with the extra columns of `tables_with_splits`."""

    def place_of(row: int) -> str:
        return f"the record with id {table.ids[row].as_py()!r} of {table.path}"

    return _split_columns(plan, table, plan.splits.time_feature, place_of=place_of)


def edge_split_columns(plan: SamplingPlan, edge_set: str, table: EdgeTable) -> SplitColumns:
    """Takes what decides about splits from an edge table, read with the extra columns of `tables_with_splits`."""

    def place_of(row: int) -> str:
        return f"row {int(table.rows[row])} (from 0) of {table.path}"

    return _split_columns(plan, table, split_time_feature(plan, edge_set), place_of=place_of)


def rank_edges(tables: GraphTables, plan: SamplingPlan) -> dict[str, npt.NDArray[np.int8]]:
    """Ranks all edges that are not seen from every split.

    Args:
        tables: the graph, read with the extra columns that `tables_with_splits` lists.
        plan: the sampling plan.

    Returns:
        By edge set, int8 array, shape [num_edges], see `edge_ranks`. Edge sets that are
        not there are seen by all.

    Raises:
        ValueError: if a row has no split, or an edge and its reverse have different ones.
    """
    if plan.is_link_plan:
        return _rank_link_edges(tables, plan)
    if plan.splits.visibility != "inductive":
        return {}
    seeds = tables.node_tables[plan.seed_node_set]
    node_ranks = edge_ranks.node_ranks(
        node_split_codes(plan.splits, codes=hash_ids(seeds.ids), columns=node_split_columns(plan, seeds))
    )
    ranks = {}
    for name, table in tables.edge_tables.items():
        of_edges = edge_ranks.inductive_edge_ranks(
            node_ranks[table.sources] if table.source_set == plan.seed_node_set else None,
            node_ranks[table.targets] if table.target_set == plan.seed_node_set else None,
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
        ranks[name] = edge_ranks.link_edge_ranks(splits[name], is_supervision)
    if plan.splits.rule != "hash" or plan.splits.group_column:
        for name in plan.reverse_edge_sets:
            if name in splits:
                _check_reverses(tables, plan, name, splits)
    return ranks


def _check_reverses(
    tables: GraphTables, plan: SamplingPlan, name: str, splits: Mapping[str, npt.NDArray[np.int16]]
) -> None:
    """Refuses a reverse edge whose forward edges are all in other splits, which would show them."""
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


def _split_columns(
    plan: SamplingPlan, table: NodeTable | EdgeTable, time_feature: str, *, place_of: Callable[[int], str]
) -> SplitColumns:
    splits = plan.splits
    times: pa.Array | None = table.features[time_feature] if time_feature else None
    return SplitColumns(
        names=_extra_column(table, splits.column) if splits.column else None,
        times=None if times is None else times.to_numpy(zero_copy_only=False).astype(np.int64),
        groups=_extra_column(table, splits.group_column) if splits.group_column else None,
        place_of=place_of,
    )


def _extra_column(table: NodeTable | EdgeTable, name: str) -> pa.Array:
    if name not in table.extra_columns:
        raise ValueError(
            f"`extra_columns` must hold the column {name!r}, which decides about splits; got "
            f"{sorted(table.extra_columns)} of {table.path}. "
            "Read the tables with those that `tables_with_splits` lists."
        )
    return table.extra_columns[name]
