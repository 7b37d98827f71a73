"""Joins the values of one key of all examples, and divides them again into exactly what they were."""

from __future__ import annotations

import abc
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]

_MISSING = -1
_SCALARS = (bool, int, float)


def starts_of(counts: Any) -> Counts:
    """Returns where each of consecutive ranges begins, and where the last one ends."""
    starts = np.zeros(len(counts) + 1, np.int64)
    np.asarray(counts).cumsum(out=starts[1:])
    return starts


def _along(axis: int, start: int | None, stop: int | None) -> tuple[slice, ...]:
    """Returns the index of a range in one dimension, and all of those before it."""
    return (*(slice(None),) * axis, slice(start, stop))


class Column(abc.ABC):
    """How the values of one key were joined."""

    @abc.abstractmethod
    def split(self, value: Any) -> list[Any]:
        """Returns the value of each example, in order."""

    @abc.abstractmethod
    def pick(self, value: Any, position: int) -> Any:
        """Returns the value of one example."""

    @property
    def lengths(self) -> Counts | None:
        """The number of rows of each example; None for what is no array."""
        return None


class ArrayColumn(Column):
    """Arrays or numbers that were concatenated or stacked, and may have grown."""

    def __init__(
        self,
        key: str,
        axis: int,
        lengths: Counts,
        *,
        is_stacked: bool = False,
        scalar_type: type | None = None,
        dtype: np.dtype[Any],
        shifts: Array | None = None,
        keeps_missing: bool = False,
    ) -> None:
        self._key = key
        self._axis = axis
        self._lengths = lengths
        self._is_stacked = is_stacked
        self._scalar_type = scalar_type
        self._dtype = dtype
        # By how much the values of each example grew; the examples are along `axis`.
        self._shifts = shifts
        self._keeps_missing = keeps_missing

    @property
    def lengths(self) -> Counts:
        """The number of rows of each example."""
        return self._lengths

    @property
    def axis(self) -> int:
        """The dimension along which examples follow each other."""
        return self._axis

    @property
    def shifts(self) -> Array | None:
        """By how much the values of each example grew, with the examples in dimension `axis`; None if they did not."""
        return self._shifts

    def split(self, value: Any) -> list[Any]:
        """Returns the value of each example, in order."""
        value = self._checked(value)
        if self._shifts is not None:
            value = self._shifted_back(value, np.repeat(self._shifts, self._lengths, axis=self._axis))
        if self._scalar_type is not None:
            return [self._scalar_type(item) for item in value.tolist()]
        if self._is_stacked:
            return [value[position, ...] for position in range(len(self._lengths))]
        bounds = self._starts.tolist()
        if self._axis == 0:
            return [value[start:stop] for start, stop in itertools.pairwise(bounds)]
        return [value[_along(self._axis, start, stop)] for start, stop in itertools.pairwise(bounds)]

    def pick(self, value: Any, position: int) -> Any:
        """Returns the value of one example."""
        value = self._checked(value)
        part = value[_along(self._axis, self._starts[position], self._starts[position + 1])]
        if self._shifts is not None:
            part = self._shifted_back(part, self._shifts[_along(self._axis, position, position + 1)])
        if self._scalar_type is not None:
            return self._scalar_type(part.tolist()[0])
        return part[0, ...] if self._is_stacked else part

    @functools.cached_property
    def _starts(self) -> Counts:
        # Most batches are never taken apart.
        return starts_of(self._lengths)

    def _checked(self, value: Any) -> Array:
        num_rows = int(self._starts[-1])
        if not isinstance(value, np.ndarray) or value.ndim <= self._axis or value.shape[self._axis] != num_rows:
            raise ValueError(
                f"`{self._key}` must have {num_rows} rows in dimension {self._axis}, as it had when the batch was "
                f"made; got {getattr(value, 'shape', value)!r}. Remove it before you take the batch apart."
            )
        return value

    def _shifted_back(self, value: Array, shifts: Array) -> Array:
        back = value - shifts
        if self._keeps_missing:
            back = np.where(value == _MISSING, _MISSING, back)
        return back.astype(self._dtype, copy=False)


class ListColumn(Column):
    """Values that stay a list: strings, lists of numbers, and other objects."""

    def split(self, value: Any) -> list[Any]:
        """Returns the value of each example, in order."""
        return list(value)

    def pick(self, value: Any, position: int) -> Any:
        """Returns the value of one example."""
        return value[position]


class MappingColumn(Column):
    """Dicts whose values were joined by name."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns

    def split(self, value: Any) -> list[Any]:
        """Returns the value of each example, in order."""
        parts = [column.split(value[name]) for name, column in self._columns.items()]
        return [dict(zip(self._columns, row, strict=True)) for row in zip(*parts, strict=True)]

    def pick(self, value: Any, position: int) -> Any:
        """Returns the value of one example."""
        return {name: column.pick(value[name], position) for name, column in self._columns.items()}


class SequenceColumn(Column):
    """Lists or tuples of arrays, which were joined by position."""

    def __init__(self, columns: Sequence[Column], sequence_type: type) -> None:
        self._columns = columns
        self._type = sequence_type

    def split(self, value: Any) -> list[Any]:
        """Returns the value of each example, in order."""
        parts = [column.split(item) for column, item in zip(self._columns, value, strict=True)]
        return [self._type(row) for row in zip(*parts, strict=True)]

    def pick(self, value: Any, position: int) -> Any:
        """Returns the value of one example."""
        return self._type(column.pick(item, position) for column, item in zip(self._columns, value, strict=True))


class TotalColumn(Column):
    """Numbers of nodes, of which a batch has the sum."""

    def __init__(self, counts: Sequence[int]) -> None:
        self._counts = list(counts)

    @property
    def lengths(self) -> Counts:
        """The number of rows of each example."""
        return np.array(self._counts, np.int64)

    def split(self, value: Any) -> list[Any]:
        """Returns the value of each example, in order."""
        return list(self._counts)

    def pick(self, value: Any, position: int) -> Any:
        """Returns the value of one example."""
        return self._counts[position]


class OffsetsColumn(Column):
    """Offsets of inner graphs, in batches of batches: each starts with 0; joined, they share bounds."""

    def __init__(self, num_inner: Counts) -> None:
        self._starts = starts_of(num_inner)

    def split(self, value: Any) -> list[Any]:
        """Returns the value of each example, in order."""
        return [self.pick(value, position) for position in range(len(self._starts) - 1)]

    def pick(self, value: Any, position: int) -> Any:
        """Returns the value of one example."""
        part = value[self._starts[position] : self._starts[position + 1] + 1]
        return part - part[0]


def join_offsets(values: Sequence[Array]) -> tuple[Array, OffsetsColumn]:
    """Joins offsets: [0, 3, 5] and [0, 2] to [0, 3, 5, 7]."""
    sizes = [np.diff(value) for value in values]
    return starts_of(np.concatenate(sizes)), OffsetsColumn(np.array([len(size) for size in sizes]))


def join_arrays(
    key: str,
    values: Sequence[Any],
    *,
    axis: int | None,
    counts: Array | None = None,
    keeps_missing: bool = False,
    are_indices: bool = False,
) -> tuple[Array, ArrayColumn]:
    """Concatenates or stacks arrays or numbers.

    With `counts`, values are indices: those of example i grow by the sum of counts[:i], and must be below counts[i].
    `counts` has shape [num_examples], or that of a value with the examples in dimension `axis`. If all are 0, values do
    not grow; they are still refused if they are known to be indices.
    """
    joined, column_axis, lengths, is_stacked, scalar_type = _join(key, values, axis)
    dtype = joined.dtype
    shifts = None
    if counts is not None and ((are_indices and joined.size) or counts.any()):
        if dtype.kind not in "iu":
            raise ValueError(
                f"`{key}` must hold integers, because it grows from graph to graph; got {dtype}. Cast it to int64, or "
                "give it FieldRule() to leave its values as they are."
            )
        joined, shifts = _grow(key, joined, column_axis, lengths=lengths, counts=counts, keeps_missing=keeps_missing)
    column = ArrayColumn(
        key,
        column_axis,
        lengths,
        is_stacked=is_stacked,
        scalar_type=scalar_type,
        dtype=dtype,
        shifts=shifts,
        keeps_missing=keeps_missing,
    )
    return joined, column


def _join(key: str, values: Sequence[Any], axis: int | None) -> tuple[Array, int, Counts, bool, type | None]:
    first = values[0]
    if isinstance(first, _SCALARS):
        return _numbers(key, values), 0, np.ones(len(values), np.int64), False, type(first)
    _check_arrays(key, values)
    if axis is None or first.ndim == 0:
        _check_equal_shapes(key, values, None)
        return np.stack(values), 0, np.ones(len(values), np.int64), True, None
    if not -first.ndim <= axis < first.ndim:
        raise ValueError(
            f"`{key}` must have the dimension that its rule concatenates; got axis {axis} for shape {first.shape}. "
            "Give a FieldRule with another axis, or None to stack values."
        )
    axis = axis % int(first.ndim)
    try:
        joined = np.concatenate(values, axis=axis)
    except ValueError:
        _check_equal_shapes(key, values, axis)
        raise
    return (
        joined,
        axis,
        np.array([*map(len, values)] if axis == 0 else [value.shape[axis] for value in values]),
        False,
        None,
    )


def _numbers(key: str, values: Sequence[Any]) -> Array:
    types = {type(value) for value in values}
    if len(types) > 1:
        names = sorted(kind.__name__ for kind in types)
        raise ValueError(f"`{key}` must have values of one type in all examples; got {names}. Convert some of them.")
    array = np.array(values)
    if array.dtype.kind not in "bif":
        raise ValueError(f"`{key}` must fit into 64 bits; got {max(values, key=abs)}. Store it as a string.")
    return array


def _check_arrays(key: str, values: Sequence[Any]) -> None:
    """Refuses values other than arrays of one dtype."""
    try:
        dtypes = {value.dtype for value in values}
    except AttributeError:
        names = sorted({type(value).__name__ for value in values})
        raise ValueError(
            f"`{key}` must have values of one type in all examples; got {names}. Convert some of them."
        ) from None
    # Strings have a dtype for each length.
    if len(dtypes) > 1 and {dtype.kind for dtype in dtypes} not in ({"U"}, {"S"}):
        raise ValueError(
            f"`{key}` must have one dtype in all examples; got {sorted(map(str, dtypes))}. Cast some of them."
        )


def _check_equal_shapes(key: str, values: Sequence[Array], axis: int | None) -> None:
    first = values[0]
    for position, value in enumerate(values):
        same = value.ndim == first.ndim and all(
            size == other or dimension == axis
            for dimension, (size, other) in enumerate(zip(value.shape, first.shape, strict=True))
        )
        if not same:
            where = "" if axis is None else f" but for dimension {axis}"
            raise ValueError(
                f"`{key}` must have the same shape in all examples{where}; got {first.shape} in example 0 and "
                f"{value.shape} in example {position}."
            )


def _grow(
    key: str, joined: Array, axis: int, *, lengths: Counts, counts: Array, keeps_missing: bool
) -> tuple[Array, Array]:
    if counts.ndim == 1:
        counts = counts.reshape([-1 if dimension == axis else 1 for dimension in range(joined.ndim)])
    # One repetition for both costs less than two.
    both = np.empty((2, *counts.shape), np.int64)
    both[1] = counts
    both[0][_along(axis, 0, 1)] = 0
    counts[_along(axis, None, -1)].cumsum(axis=axis, out=both[0][_along(axis, 1, None)])
    shifts = both[0]
    both = both.repeat(lengths, axis=axis + 1)
    values = joined.astype(np.int64, copy=False)
    if joined.dtype == np.uint64 and joined.size and joined.max() > np.iinfo(np.int64).max:
        raise ValueError(f"`{key}` must hold indices that fit into 64 bits; got {joined.max()}.")
    # As unsigned numbers, negative ones are large, too.
    is_outside = values.view(np.uint64) >= both[1].view(np.uint64)
    if keeps_missing:
        is_missing = values == _MISSING
        is_outside &= ~is_missing
        grown = np.where(is_missing, _MISSING, values + both[0])
    else:
        grown = values + both[0]
    if is_outside.any():
        place = tuple(index[0] for index in np.nonzero(is_outside))
        limit = np.broadcast_to(both[1], values.shape)[place]
        example = int(np.searchsorted(np.cumsum(lengths), place[axis], side="right"))
        raise ValueError(
            f"`{key}` must hold indices in [0, {limit}) in example {example}, which has as many of what they count; "
            f"got {values[place]}. It would refer to another graph of the batch."
        )
    # Narrow integers are widened to 64 bits, because they could wrap.
    if joined.dtype == np.int32 and (not counts.size or int(counts.sum(axis=axis).max()) <= np.iinfo(np.int32).max):
        grown = grown.astype(np.int32)
    return grown, shifts
