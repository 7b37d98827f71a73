"""Finds numbers that leave, after the time of training, the range that training saw, as a month or a counter does.

A network extrapolates them, so that they make it worse on all that comes later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.tables.column_values import as_texts
from tfx_gnn.tables.prepared_tables import PreparedTables
from tfx_gnn.tables.schema_inference import read_all_columns
from tfx_gnn.tables.table_layout import TableLayout
from tfx_gnn_pipelines.proposals.preparations import Preparation
from tfx_gnn_pipelines.proposals.tables import SetTable

_LEAST_SHARE_OUTSIDE = 0.5
"""A column drifts if so large a share of the later rows is outside of the range of the earlier ones."""
_LEAST_ROWS = 20
"""Rows before and after the bound, below which nothing is told from chance."""

_Numbers = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DriftingColumn:
    """A column of numbers whose later values training never saw.

    Attributes:
        column: its name.
        share: share of the later rows with a value that are outside of the range of the earlier ones.
    """

    column: str
    share: float


def find_drifting_columns(
    layout: TableLayout, *, time: str, bound: int, columns: Sequence[str]
) -> list[DriftingColumn]:
    """Finds the columns of numbers that are mostly outside, from a time on, of the range that they had before.

    Args:
        layout: the table.
        time: its column of times.
        bound: the time, in seconds since 1970, before which rows are for training.
        columns: the columns of numbers to look at.

    Returns:
        The columns of which at least half of the later values are outside, in the order of `columns`.
    """
    is_later: list[npt.NDArray[np.bool_]] = []
    parts: dict[str, list[_Numbers]] = {name: [] for name in columns}
    for block in read_all_columns(layout):
        is_later.append(_numbers(block.columns.column(time), layout) >= bound)
        for name, of_column in parts.items():
            of_column.append(_numbers(block.columns.column(name), layout))
    later = np.concatenate(is_later) if is_later else np.zeros(0, bool)
    found = []
    for name, of_column in parts.items():
        share = _share_outside(np.concatenate(of_column), later) if of_column else 0.0
        if share >= _LEAST_SHARE_OUTSIDE:
            found.append(DriftingColumn(column=name, share=share))
    return found


def drop_drifting_columns(
    schema: GraphSchema, tables: Mapping[str, SetTable], prepared: PreparedTables | None, bound: int | None
) -> Iterator[tuple[tuple[str, str], Preparation]]:
    """Yields the features, by set and name, that are left out because they leave, after training, their range there.

    Training ends at `bound`, in seconds since 1970; None if it is not divided from what comes later by time.
    """
    if prepared is None or bound is None:
        return
    for name, time in prepared.node_times.items():
        table, times = tables[f"nodes/{name}"], prepared.times[f"nodes/{name}"]
        by_column = {
            table.layout.columns[one].name: one
            for one, feature in schema.node_sets[name].features.items()
            if one not in times
            and not feature.shape.dim
            and (tf.dtypes.as_dtype(feature.dtype).is_integer or tf.dtypes.as_dtype(feature.dtype).is_floating)
            and table.values_of(one).numbers() is not None
        }
        drifting = find_drifting_columns(
            table.layout, time=table.layout.columns[time].name, bound=bound, columns=list(by_column)
        )
        for one in drifting:
            yield (
                (f"nodes/{name}", by_column[one.column]),
                Preparation(
                    kind="drop",
                    reason=f"{one.share:.0%} of the rows after the time of training are outside of its range there",
                ),
            )


def _numbers(array: pa.Array, layout: TableLayout) -> _Numbers:
    texts = as_texts(array, layout.declared_as)
    assert texts is not None, array.type
    return np.asarray(pc.fill_null(texts.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False), np.float64)


def _share_outside(numbers: _Numbers, is_later: npt.NDArray[np.bool_]) -> float:
    is_known = np.isfinite(numbers)
    before, after = numbers[is_known & ~is_later], numbers[is_known & is_later]
    if min(len(before), len(after)) < _LEAST_ROWS:
        return 0.0
    return float(((after < before.min()) | (after > before.max())).mean())
