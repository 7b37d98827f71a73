"""Assigns seeds to splits: which tables and columns decide, and the split of each row.

These are pure functions of arrays: of all seeds in memory, or of one block of seeds in a pipeline.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.sampling.random_choice import hash_ids, mix
from tfx_gnn.tables.edges import Edges
from tfx_gnn.tables.graph_tables import NodeTable
from tfx_gnn.tables.table_files import Table
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import EXTRA_PREFIX

UNUSED = -1
"""Split code of rows that are not seeds."""

# Independent streams of hashes of one key: ASCII of "split" and "superv".
_SPLIT_STREAM = np.uint64(0x73706C6974)
_SUPERVISION_STREAM = np.uint64(0x737570657276)
_SHARE_BITS = 53  # as many as a float64 holds exactly

_Codes = npt.NDArray[np.uint64]
_PlaceOf = Callable[[int], str]
_Values = TypeVar("_Values")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitColumns:
    """The columns of a table that decide the splits of its rows; None for columns that the plan's rule does not need.

    Attributes:
        names: array of strings or integers, shape [num_rows]: values of `SplitPlan.column`.
            Integers are compared with split names as decimal text.
        times: int64 array, shape [num_rows]: values of `SplitPlan.time_feature`.
        groups: array of strings or integers, shape [num_rows]: values of `SplitPlan.group_column`.
        place_of: describes for error messages where the row at a position is.
    """

    names: pa.Array | None = None
    times: npt.NDArray[np.int64] | None = None
    groups: pa.Array | None = None
    place_of: Callable[[int], str] = "row {}".format


@dataclasses.dataclass(frozen=True, kw_only=True)
class TablesWithSplits:
    """The tables whose rows belong to splits.

    All of them must have the columns that the split rule reads.

    Attributes:
        node_sets: node sets whose nodes are seeds, or are hidden from earlier splits.
        edge_sets: edge sets that sampling reads and whose edges are seeds or reverses of seeds.
        has_seed_table: whether the seeds are rows of a seed table.
        extra_columns: columns to read as text from each of these tables, besides features.
    """

    node_sets: tuple[str, ...]
    edge_sets: tuple[str, ...]
    has_seed_table: bool
    extra_columns: tuple[str, ...]

    @property
    def extra_columns_by_table(self) -> dict[str, tuple[str, ...]]:
        """The extra columns by table label, for `read_tables`."""
        labels = [*(f"nodes/{name}" for name in self.node_sets), *(f"edges/{name}" for name in self.edge_sets)]
        return dict.fromkeys(labels, self.extra_columns) if self.extra_columns else {}


def tables_with_splits(plan: SamplingPlan) -> TablesWithSplits:
    """Lists the tables whose rows belong to splits, in alphabetical order of their names."""
    has_node_splits = not plan.is_link_plan and (plan.seed_table is None or plan.splits.visibility == "inductive")
    return TablesWithSplits(
        node_sets=(plan.seed_node_set,) if has_node_splits else (),
        edge_sets=plan.split_edge_sets,
        has_seed_table=plan.seed_table is not None,
        extra_columns=tuple(name for name in (plan.splits.column, plan.splits.group_column) if name),
    )


def split_time_feature(plan: SamplingPlan, edge_set: str) -> str:
    """Names the time feature that decides the splits of a seed edge set or reverse edge set.

    This is `splits.time_feature`. But if that is also `temporal.seed_time`, and the seeds are
    not edges of this set, it is the set's feature in `temporal.edge_times`, if there is one.
    """
    temporal = plan.temporal
    is_seed = edge_set == plan.seed_edge_set and plan.seed_table is None
    if temporal is None or is_seed or temporal.seed_time != plan.splits.time_feature:
        return plan.splits.time_feature
    return temporal.edge_times.get(edge_set, plan.splits.time_feature)


def node_split_columns(plan: SamplingPlan, table: NodeTable) -> SplitColumns:
    """Takes the columns that decide splits from a node table, read with the extra columns of `tables_with_splits`."""

    def place_of(row: int) -> str:
        return f"the record with id {table.ids[row].as_py()!r} of {table.path}"

    return _take_split_columns(plan, table, plan.splits.time_feature, place_of=place_of)


def edge_split_columns(plan: SamplingPlan, edge_set: str, table: Edges) -> SplitColumns:
    """Takes the columns that decide splits from an edge table, read with the extra columns of `tables_with_splits`."""

    def place_of(row: int) -> str:
        return f"row {int(table.rows[row])} (from 0) of {table.path}"

    return _take_split_columns(plan, table, split_time_feature(plan, edge_set), place_of=place_of)


def _take_split_columns(
    plan: SamplingPlan, table: NodeTable | Edges, time_feature: str, *, place_of: Callable[[int], str]
) -> SplitColumns:
    splits = plan.splits
    times: pa.Array | None = table.features[time_feature] if time_feature else None
    return SplitColumns(
        names=_extra_column(table, splits.column) if splits.column else None,
        times=None if times is None else times.to_numpy(zero_copy_only=False).astype(np.int64),
        groups=_extra_column(table, splits.group_column) if splits.group_column else None,
        place_of=place_of,
    )


def _extra_column(table: NodeTable | Edges, name: str) -> pa.Array:
    if name not in table.extra_columns:
        raise ValueError(
            f"`extra_columns` must hold the column {name!r}, which decides splits; got "
            f"{sorted(table.extra_columns)} of {table.path}. "
            "Read the tables with the extra columns that `tables_with_splits` lists."
        )
    return table.extra_columns[name]


def select_split_columns(splits: SplitPlan, table: Table, rows: npt.NDArray[np.int64]) -> SplitColumns:
    """Takes the columns that decide splits from some rows of a seed table or context table."""
    chosen = pa.array(rows)
    times = table.columns[splits.time_feature].take(chosen) if splits.time_feature else None
    return SplitColumns(
        names=table.columns[EXTRA_PREFIX + splits.column].take(chosen) if splits.column else None,
        times=None if times is None else np.asarray(times.to_numpy(zero_copy_only=False), np.int64),
        groups=table.columns[EXTRA_PREFIX + splits.group_column].take(chosen) if splits.group_column else None,
        place_of=lambda position: place_of_row(table, int(rows[position])),
    )


def place_of_row(table: Table, row: int) -> str:
    """Describes the file and record of the row at a position in the columns of a table."""
    [(file, number)] = table.locate(table.rows[row : row + 1])
    return f"{file}, {table_format(table.layout).row_word} {number}"


def pair_keys(source_codes: _Codes, target_codes: _Codes, *, is_symmetric: bool = False) -> _Codes:
    """Computes keys of pairs of nodes from the hashes of both ids.

    With `is_symmetric`, a pair and its reverse have the same key.
    """
    if is_symmetric:
        source_codes, target_codes = np.minimum(source_codes, target_codes), np.maximum(source_codes, target_codes)
    return mix(mix(source_codes) ^ target_codes)


def node_split_codes(splits: SplitPlan, *, codes: _Codes, columns: SplitColumns) -> npt.NDArray[np.int16]:
    """Finds the split of each node: its position in `splits.names`, or `UNUSED`."""
    return _split_codes(splits, codes, columns)


def edge_split_codes(
    splits: SplitPlan,
    *,
    source_codes: _Codes,
    target_codes: _Codes,
    columns: SplitColumns,
    is_symmetric: bool = False,
    is_reverse: bool = False,
) -> npt.NDArray[np.int16]:
    """Finds the split of each edge, or pair: its position in `splits.names`, or `UNUSED`.

    By hash, an edge and its reverse have the same split. `is_symmetric` means that the seed edge set holds both
    directions, `is_reverse` that the edges are those of a reverse edge set.
    """
    if is_reverse:
        source_codes, target_codes = target_codes, source_codes
    return _split_codes(splits, pair_keys(source_codes, target_codes, is_symmetric=is_symmetric), columns)


def supervision_only(splits: SplitPlan, keys: _Codes) -> npt.NDArray[np.bool_]:
    """Returns which edges are supervision only, provided that they are in the first split.

    `keys` are the `pair_keys` of the edges; for reverse edges, of their forward edges.
    """
    threshold = np.uint64(int(splits.disjoint_train_share * 2**_SHARE_BITS))
    hashes = _stream(splits, _SUPERVISION_STREAM, keys)
    chosen: npt.NDArray[np.bool_] = (hashes >> np.uint64(64 - _SHARE_BITS)) < threshold
    return chosen


def _split_codes(splits: SplitPlan, keys: _Codes, columns: SplitColumns) -> npt.NDArray[np.int16]:
    if splits.rule == "column":
        return _codes_by_column(splits, _given(columns.names, splits.column), columns.place_of)
    if splits.rule == "time":
        return _codes_by_time(splits, _given(columns.times, splits.time_feature), columns.place_of)
    if splits.group_column:
        groups = _given(columns.groups, splits.group_column)
        _refuse_nulls(groups, splits.group_column, columns.place_of)
        keys = hash_ids(groups.cast(pa.large_string()))
    ends = np.cumsum([splits.weights[name] for name in splits.names])
    # The first 32 bits, as a fixed-point number in [0, total).
    places = (_stream(splits, _SPLIT_STREAM, keys) >> np.uint64(32)) * np.uint64(ends[-1]) >> np.uint64(32)
    return np.searchsorted(ends, places.astype(np.int64), side="right").astype(np.int16)


def _codes_by_column(splits: SplitPlan, values: pa.Array, place_of: _PlaceOf) -> npt.NDArray[np.int16]:
    _refuse_nulls(values, splits.column, place_of)
    encoded = values.cast(pa.large_string()).dictionary_encode()
    known = {name: code for code, name in enumerate(splits.names)} | dict.fromkeys(splits.unused_values, UNUSED)
    distinct = encoded.dictionary.to_pylist()
    indices = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    for position, value in enumerate(distinct):
        if value not in known:
            row = int(np.flatnonzero(indices == position)[0])
            advice = did_you_mean(
                value, splits.names, otherwise="Correct it, name all splits in `order`, or list it in `unused_values`."
            )
            raise ValueError(
                f"`{splits.column}` must name one of the splits {list(splits.names)}; got {value!r} in "
                f"{place_of(row)}. {advice}"
            )
    return np.array([known[value] for value in distinct], np.int16)[indices]


def _codes_by_time(splits: SplitPlan, times: npt.NDArray[np.int64], place_of: _PlaceOf) -> npt.NDArray[np.int16]:
    bounds = [bound for bound in splits.until.values() if bound is not None]
    codes = np.searchsorted(np.array(bounds, np.int64), times, side="right").astype(np.int16)
    late = np.flatnonzero(codes == len(splits.names))
    if len(late):
        raise ValueError(
            f"`{splits.time_feature}` must lie before the last bound of `until`, {bounds[-1]}; got "
            f"{int(times[late[0]])} in {place_of(int(late[0]))}, one of {len(late)}. "
            "Give the last split the bound None."
        )
    return codes


def _refuse_nulls(values: pa.Array, column: str, place_of: _PlaceOf) -> None:
    if values.null_count:
        row = pc.index(values.is_null(), pa.scalar(value=True)).as_py()
        raise ValueError(
            f"`{column}` must have a value in every row; got none in {place_of(row)}, one of {values.null_count}. "
            "Fill in the cells."
        )


def _given(values: _Values | None, name: str) -> _Values:
    if values is None:
        raise ValueError(f"`columns` must hold the values of {name!r}; got none. Read the column with the table.")
    return values


def _stream(splits: SplitPlan, stream: np.uint64, keys: _Codes) -> _Codes:
    return mix(keys ^ mix(mix(np.array([splits.hash_seed], np.uint64)) ^ stream))
