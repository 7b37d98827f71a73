"""The anchor times of each split."""

from __future__ import annotations

import dataclasses
import datetime as dt

from tfx_gnn.prediction_tasks.durations import describe_duration, parse_duration
from tfx_gnn.prediction_tasks.task_options import Anchors, parse_time

_MOST_ANCHORS = 100_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorTimes:
    """Anchors of which every window is complete, and those of which it is not.

    Attributes:
        by_split: by split, its anchors, ascending; in UTC without a zone.
        incomplete: anchors that were left out because their windows end after the data.
    """

    by_split: dict[str, tuple[dt.datetime, ...]]
    incomplete: tuple[dt.datetime, ...]


def find_anchor_times(
    anchors: Anchors, *, horizon: int, first: dt.datetime, last: dt.datetime, table_names: str
) -> AnchorTimes:
    """Places anchors so that no window of a split reaches into the next split, or beyond the data.

    Test anchors start at `test_from`, and validation anchors at `validation_from`. Training anchors go back from
    `validation_from - horizon` to the first row.

    Args:
        anchors: where splits begin.
        horizon: the latest end of a window of the target, in seconds after the anchor.
        first: time of the first row.
        last: time of the last row; `anchors.complete_until` wins.
        table_names: the tables that these rows are from, for errors.

    Raises:
        ValueError: if a split has no anchor.
    """
    reach, step = dt.timedelta(seconds=horizon), dt.timedelta(seconds=horizon)
    if anchors.every:
        step = dt.timedelta(seconds=parse_duration(anchors.every, "anchors.every"))
    validation = parse_time(anchors.validation_from, "anchors.validation_from")
    test = parse_time(anchors.test_from, "anchors.test_from")
    start = parse_time(anchors.train_from, "anchors.train_from") if anchors.train_from else first
    end = parse_time(anchors.complete_until, "anchors.complete_until") if anchors.complete_until else last
    rows = f"the rows of {table_names} are from {first} to {last}"
    if validation + reach > test:
        raise ValueError(
            f"`anchors.test_from` must be at least {describe_duration(horizon)} after `anchors.validation_from`, so "
            f"that no label of the validation split depends on the test period; got {test} and {validation}. Move one "
            "of them."
        )
    if test + reach > end:
        raise ValueError(
            f"`anchors.test_from` must leave {describe_duration(horizon)} of data after it, for the labels; got {test} "
            f"where {rows}. Move it to {end - reach} or earlier, or set `anchors.complete_until` if there really were "
            "no more rows until then."
        )
    if validation - reach < start:
        raise ValueError(
            f"`anchors.validation_from` must leave {describe_duration(horizon)} of data before it, for the labels of "
            f"the training split; got {validation} where {rows}, and training starts at {start}. Move it to "
            f"{start + reach} or later."
        )
    if (end - start) / step > _MOST_ANCHORS:
        raise ValueError(
            f"`anchors.every` must leave at most {_MOST_ANCHORS:,} anchors; got "
            f"{describe_duration(int(step.total_seconds()))} where {rows}. Choose a longer time."
        )
    training = []
    at = validation - reach
    while at >= start:
        training.append(at)
        at -= step
    return AnchorTimes(
        by_split={
            "train": tuple(reversed(training)),
            "val": _from(validation, step, test - reach),
            "test": _from(test, step, end - reach),
        },
        incomplete=_from(test, step, end)[len(_from(test, step, end - reach)) :],
    )


def _from(start: dt.datetime, step: dt.timedelta, last: dt.datetime) -> tuple[dt.datetime, ...]:
    return tuple(start + number * step for number in range((last - start) // step + 1))
