"""Divides the rows that have a label into splits; the others are not predicted."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SPLIT_COLUMN = "split"
"""Column of a table with the split of each row."""
UNLABELED = "unlabeled"
"""Split of the rows without a label."""

_SHARES = (0.8, 0.9)
"""Where validation and test begin."""
_LEAST_TRAINED = 0.5
_LEAST_TESTED = 0.05
"""Shares of the rows that training, and each other split, must have where there are few different times."""
_SEED = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelSplits:
    """The split of each row of a table.

    Attributes:
        values: "train", "val", "test" or "unlabeled", large_string [num_rows].
        num_unlabeled: rows without a label.
        bounds: seconds since 1970 at which validation and test begin; None if rows are divided at random.
    """

    values: pa.Array
    num_unlabeled: int
    bounds: tuple[int, int] | None


def split_labeled_rows(is_labeled: npt.NDArray[np.bool_], times: pa.Array | None) -> LabelSplits:
    """Gives the oldest 80 % of the rows with a label to training, and the newest 10 % to the test.

    Args:
        is_labeled: which rows have a label, [num_rows].
        times: the times of all rows, timestamp[s] [num_rows]; rows are divided at random without them, or if a row with
            a label has none, or too many have the same.
    """
    rows = np.flatnonzero(is_labeled)
    bounds = _bounds_of_rows(times, rows) if times is not None else None
    starts = [int(share * len(rows)) for share in _SHARES]
    if bounds is None or times is None:
        place = np.empty(len(rows), np.int64)
        place[np.random.default_rng(_SEED).permutation(len(rows))] = np.arange(len(rows))
    else:
        place, starts = _seconds(times)[rows], list(bounds)
    splits = np.full(len(is_labeled), UNLABELED, object)
    splits[rows] = np.array(["train", "val", "test"], object)[np.searchsorted(starts, place, side="right")]
    return LabelSplits(
        values=pa.array(splits, pa.large_string()), num_unlabeled=len(is_labeled) - len(rows), bounds=bounds
    )


def time_bounds(times: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> tuple[int, int] | None:
    """Finds the times at which validation and test begin: before them lie 80 % and 90 % of the rows.

    Of few different times, such as five years, the last two are validation and test, if training keeps half of the
    rows and each of them has one in twenty.

    Args:
        times: the different times of rows, ascending, [num_times].
        counts: how many rows have each, [num_times].

    Returns:
        The two times; None if the rows cannot be divided so.
    """
    num_rows, num_times = int(counts.sum()), len(times)
    before = np.cumsum(counts) - counts
    validation, test = (int(np.searchsorted(before, share * num_rows)) for share in _SHARES)
    if not 0 < validation < test < num_times:
        validation, test = num_times - 2, num_times - 1
        if (
            validation < 1
            or before[validation] < _LEAST_TRAINED * num_rows
            or counts[validation:].min() < _LEAST_TESTED * num_rows
        ):
            return None
    return int(times[validation]), int(times[test])


def _bounds_of_rows(times: pa.Array, rows: npt.NDArray[np.int64]) -> tuple[int, int] | None:
    of_rows = times.take(pa.array(rows))
    if of_rows.null_count or not len(rows):
        return None
    return time_bounds(*np.unique(_seconds(of_rows), return_counts=True))


def _seconds(times: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(times.cast(pa.int64()).fill_null(0).to_numpy(), np.int64)
