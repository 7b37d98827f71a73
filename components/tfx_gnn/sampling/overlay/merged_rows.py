"""Sequences with items inserted into them, without a copy: the positions and columns of a graph with added rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Integers = npt.NDArray[np.int64]


class Insertions:
    """Where items stand that are inserted into a sequence, which may be of any length.

    Attributes:
        places: int64 array, ascending: position in the sequence before which each item is inserted.
        positions: int64 array, ascending: position of each item afterwards.
    """

    def __init__(self, places: _Integers) -> None:
        self.places = places
        self.positions = places + np.arange(len(places))

    def __len__(self) -> int:
        return len(self.places)

    def move(self, positions: _Integers) -> _Integers:
        """Returns where items of the sequence stand afterwards."""
        return positions + np.searchsorted(self.places, positions, side="right")

    def count_before(self, positions: _Integers) -> _Integers:
        """Returns how many inserted items stand before positions afterwards."""
        return np.searchsorted(self.positions, positions).astype(np.int64)

    def split(self, positions: _Integers) -> tuple[npt.NDArray[np.bool_], _Integers]:
        """Returns which positions afterwards have inserted items; and the number of each, or its position before."""
        before = self.count_before(positions)
        if not len(self):
            return np.zeros(len(positions), np.bool_), positions
        is_inserted = self.positions[np.minimum(before, len(self) - 1)] == positions
        return is_inserted, np.where(is_inserted, before, positions - before)


class Pieces:
    """A column that grows at its end: arrays of one type, about as many as the logarithm of their length."""

    def __init__(self, arrays: Sequence[pa.Array]) -> None:
        """Takes at least one array, which may be empty."""
        self._arrays = tuple(arrays)
        self._starts = np.cumsum([0, *map(len, self._arrays)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def type(self) -> pa.DataType:
        """Type of the values."""
        return self._arrays[0].type

    def extended(self, array: pa.Array) -> Pieces:
        """Returns the column with an array after it; this one stays as it is."""
        arrays = [*self._arrays, array]
        # Each value is copied when an array at least as long follows it, so as often as lengths can double.
        while len(arrays) > 1 and len(arrays[-2]) <= len(arrays[-1]):
            arrays[-2:] = [pa.concat_arrays(arrays[-2:])]
        return Pieces(arrays)

    def take(self, positions: _Integers) -> pa.Array:
        """Returns the values at positions, in that order."""
        if len(self._arrays) == 1:
            return self._arrays[0].take(pa.array(positions))
        number = np.searchsorted(self._starts, positions, side="right") - 1
        return take_from(
            [
                lambda where, array=array, start=start: array.take(pa.array(where - start))
                for array, start in zip(self._arrays, self._starts[:-1], strict=True)
            ],
            number,
            positions,
        )


def take_from(sources: Sequence[Any], number: npt.NDArray[Any], positions: _Integers) -> pa.Array:
    """Takes each value from the source with its number: a function of positions that returns an Arrow array."""
    found, places = [], []
    for source, take in enumerate(sources):
        where = np.flatnonzero(number == source)
        if len(where) or source == 0:
            found.append(take(positions[where]))
            places.append(where)
    if len(found) == 1:
        return found[0]
    order = np.empty(len(positions), np.int64)
    order[np.concatenate(places)] = np.arange(len(positions))
    return pa.concat_arrays(found).take(pa.array(order))


class MergedColumn:
    """A column of an index with the values of added rows among its own: what sampling uses of an Arrow array."""

    def __init__(self, column: pa.Array, added: Pieces, insertions: Insertions, order: _Integers) -> None:
        """Takes both columns, where added rows stand, and their numbers in `added` in that order."""
        self._column = column
        self._added = added
        self._insertions = insertions
        self._order = order

    def __len__(self) -> int:
        return len(self._column) + len(self._added)

    @property
    def type(self) -> pa.DataType:
        """Type of the values."""
        return self._column.type

    def take(self, positions: pa.Array) -> pa.Array:
        """Returns the values at positions, in that order."""
        is_added, numbers = self._insertions.split(positions.to_numpy())
        return take_from(
            [
                lambda where: self._column.take(pa.array(where)),
                lambda where: self._added.take(self._order[where]),
            ],
            is_added.astype(np.int8),
            numbers,
        )

    def slice(self, offset: int, length: int) -> pa.Array:
        """Returns the values of a range."""
        return self.take(pa.array(np.arange(offset, offset + length)))


class MergedColumns(Mapping[str, MergedColumn]):
    """Columns of a table with added rows among its own; those of the index are mapped when they are first used."""

    def __init__(
        self,
        columns: Mapping[str, pa.Array],
        added: Mapping[str, Pieces],
        insertions: Insertions,
        order: _Integers,
    ) -> None:
        self._columns = columns
        self._added = added
        self._insertions = insertions
        self._order = order

    def __getitem__(self, name: str) -> MergedColumn:
        return MergedColumn(self._columns[name], self._added[name], self._insertions, self._order)

    def __iter__(self) -> Any:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)
