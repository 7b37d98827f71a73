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
    bounds = _time_bounds(times, rows) if times is not None else None
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


def _time_bounds(times: pa.Array, rows: npt.NDArray[np.int64]) -> tuple[int, int] | None:
    of_rows = times.take(pa.array(rows))
    if of_rows.null_count or not len(rows):
        return None
    ordered = np.sort(_seconds(of_rows))
    validation, test = (int(ordered[int(share * len(ordered))]) for share in _SHARES)
    return (validation, test) if ordered[0] < validation < test else None


def _seconds(times: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(times.cast(pa.int64()).fill_null(0).to_numpy(), np.int64)
