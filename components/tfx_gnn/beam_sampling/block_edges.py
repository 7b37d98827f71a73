"""The edges of a block as an edge table, with features from where they were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.beam_sampling import index_files as files

_Integers = npt.NDArray[np.int64]


class KnownRows:
    """Features of some edges of a set, by their row in the table as written."""

    def __init__(self, table: pa.Table) -> None:
        """Sorts the rows.

        Args:
            table: `#row`, repeated or not, and features.
        """
        self._columns = {name: files.one_array(table, name) for name in table.column_names}
        rows = np.asarray(self._columns.pop(files.ROW).to_numpy(), np.int64)
        self._rows, self._places = np.unique(rows, return_index=True)

    @property
    def names(self) -> frozenset[str]:
        """Names of the features."""
        return frozenset(self._columns)

    def find(self, rows: _Integers) -> tuple[_Integers, npt.NDArray[np.bool_]]:
        """Finds edges.

        Args:
            rows: int64 array, shape [n].

        Returns:
            int64 array, shape [n], where to find each edge's features, and bool array,
            shape [n], whether they are there at all.
        """
        if not len(self._rows):
            return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
        at = np.minimum(np.searchsorted(self._rows, rows), len(self._rows) - 1)
        return self._places[at], self._rows[at] == rows

    def values(self, name: str) -> pa.Array:
        """Gives a feature in the order that `find` speaks of.

        Args:
            name: one of `names`.

        Returns:
            Arrow array.
        """
        return self._columns[name]


def edge_features(rows: _Integers, known: Sequence[KnownRows], types: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
    """Collects the features of edges.

    Args:
        rows: int64 array, shape [n], ascending.
        known: where features are known from. One that none of them knows of an edge is
            one that nobody reads of this edge; it gets any value.
        types: names of the features, and their types.

    Returns:
        Arrow array of shape [n] by name, no nulls.
    """
    found = [of_rows.find(rows) for of_rows in known]
    return {
        name: _collect(
            [
                (of_rows.values(name), places, is_known)
                for of_rows, (places, is_known) in zip(known, found, strict=True)
                if name in of_rows.names
            ],
            len(rows),
            dtype,
        )
        for name, dtype in types.items()
    }


def _collect(
    parts: Sequence[tuple[pa.Array, _Integers, npt.NDArray[np.bool_]]], count: int, dtype: pa.DataType
) -> pa.Array:
    # What nobody reads comes from behind all others.
    values = pa.concat_arrays([*(part for part, _, _ in parts), pa.array([_any_value(dtype)], dtype)])
    places = np.full(count, len(values) - 1)
    start = 0
    for part, at, is_known in parts:
        places = np.where(is_known, start + at, places)
        start += len(part)
    return values.take(pa.array(places))


def _any_value(dtype: pa.DataType) -> Any:
    if pa.types.is_fixed_size_list(dtype):
        return [_any_value(dtype.value_type)] * dtype.list_size
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return []
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return ""
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return b""
    return False if pa.types.is_boolean(dtype) else 0
