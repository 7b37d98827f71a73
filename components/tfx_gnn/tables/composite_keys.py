"""Finds keys of several columns, to which another table refers by columns of the same names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.database import ForeignKey, joined_key
from tfx_gnn.tables.key_columns import LEAST_BY_VALUES, KeyColumn

_MOST_COLUMNS = 4
_MOST_SHARED_NAMES = 8

ReadTexts = Callable[[str, Sequence[str]], Mapping[str, pa.Array]]
"""Reads columns of a table, row by row, as texts."""


def find_composite_key(
    table: str, columns: Mapping[str, KeyColumn], others: Mapping[str, Mapping[str, KeyColumn]], read_texts: ReadTexts
) -> tuple[ForeignKey, ...]:
    """Finds two to four columns that tell the rows of a table apart, and to which other tables refer by name.

    Args:
        table: name of the table.
        columns: its columns by name.
        others: the columns of the other tables that hold nodes.
        read_texts: reads columns of a table.

    Returns:
        What refers to the key, whose columns are those of each; none if there is no such key.
    """
    found: list[ForeignKey] = []
    for other, theirs in others.items():
        shared = [
            name
            for name, column in columns.items()
            if column.has_key_values and name in theirs and theirs[name].has_key_values
        ][:_MOST_SHARED_NAMES]
        if found:
            shared = [name for name in found[0].columns if name in shared]
        best = max(
            _references(table, columns, other, shared, read_texts),
            key=lambda key: (key.num_known, -len(key.columns)),
            default=None,
        )
        if best is not None and (not found or best.columns == found[0].columns):
            found.append(best)
    return tuple(found)


def _references(
    table: str, columns: Mapping[str, KeyColumn], other: str, shared: Sequence[str], read_texts: ReadTexts
) -> Iterator[ForeignKey]:
    """Yields the keys of the fewest columns that there are."""
    num_rows = max((column.values.num_rows for column in columns.values()), default=0)
    tried = [
        names
        for size in range(2, _MOST_COLUMNS + 1)
        for names in itertools.combinations(shared, size)
        if math.prod(columns[name].values.num_distinct for name in names) >= num_rows > 0
    ]
    if not tried:
        return
    here, there = read_texts(table, shared), read_texts(other, shared)
    fewest = _MOST_COLUMNS
    for names in tried:
        if len(names) > fewest:
            return
        keys = joined_key([here[name] for name in names])
        if keys.null_count or len(pc.unique(keys)) < len(keys):
            continue
        refer = joined_key([there[name] for name in names])
        num_known = int(pc.sum(pc.is_in(refer.drop_null(), value_set=keys)).as_py() or 0)
        if num_known < LEAST_BY_VALUES * max(len(refer) - refer.null_count, 1):
            continue
        fewest = len(names)
        yield ForeignKey(
            table=other,
            columns=names,
            node_set=table,
            num_rows=len(refer),
            num_null=refer.null_count,
            num_known=num_known,
            reason="columns of the same names, which tell its rows apart",
        )
