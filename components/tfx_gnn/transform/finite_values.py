"""Counts NaN and infinite values of features while examples are transformed."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.graph.reserved_names import ID_NAME
from tfx_gnn.records.example_batches import describe_item_id
from tfx_gnn.records.examples_folder import RecordFile, place_of
from tfx_gnn.records.graph_layout import SetLayout

_LOG = logging.getLogger(__name__)

_MOST = 5
"""Largest number of features that an error describes."""


@dataclasses.dataclass(frozen=True, kw_only=True, order=True)
class NumberPlace:
    """The place of a number; places sort by number, then by file and record.

    Attributes:
        value: a finite number; 0 for one that is not finite.
        split: name of the split.
        shard: position of the file in the split.
        record: position of the record in the file.
        text: number, record, file and item, for messages.
    """

    value: float = 0.0
    split: str
    shard: int
    record: int
    text: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumberCounts:
    """Counts of the numbers of one feature.

    Attributes:
        num_values: numbers, counted in every example that has them.
        num_nan: NaNs among them.
        num_infinite: positive infinities.
        num_negative_infinite: negative infinities.
        first: place of the first non-finite number; empty if all are finite.
        lowest: place of the lowest finite number; empty if there is none.
    """

    num_values: int = 0
    num_nan: int = 0
    num_infinite: int = 0
    num_negative_infinite: int = 0
    first: tuple[NumberPlace, ...] = ()
    lowest: tuple[NumberPlace, ...] = ()

    @property
    def num_nonfinite(self) -> int:
        """Number of NaN and infinite values."""
        return self.num_nan + self.num_infinite + self.num_negative_infinite

    def merge(self, other: NumberCounts) -> NumberCounts:
        """Adds the counts of the same feature in other examples."""
        return NumberCounts(
            num_values=self.num_values + other.num_values,
            num_nan=self.num_nan + other.num_nan,
            num_infinite=self.num_infinite + other.num_infinite,
            num_negative_infinite=self.num_negative_infinite + other.num_negative_infinite,
            first=tuple(sorted(self.first + other.first)[:1]),
            lowest=tuple(sorted(self.lowest + other.lowest)[:1]),
        )

    def words(self) -> str:
        """Describes the counts, with the place of the first non-finite value."""
        kinds = {"NaN": self.num_nan, "inf": self.num_infinite, "-inf": self.num_negative_infinite}
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
        return f"{counts} of {self.num_values} values, first {self.first[0].text}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchPlaces:
    """Where the items of one set in a batch of examples come from.

    Attributes:
        file: their file.
        first_record: position of the first example in it.
        records: the serialized examples.
        one_set: the set.
        item_splits: int64 [num_examples + 1]: where each example's items begin.
    """

    file: RecordFile
    first_record: int
    records: Sequence[bytes]
    one_set: SetLayout
    item_splits: npt.NDArray[np.int64]

    def count(
        self, flat_values: npt.NDArray[Any], row_splits: Sequence[npt.NDArray[np.int64]], *, finds_lowest: bool
    ) -> NumberCounts:
        """Counts the numbers of a feature.

        `flat_values` has shape [num_rows, ...]; `row_splits` partition the rows, outermost first, and are empty for a
        dense feature. `finds_lowest` also finds the place of the lowest number.
        """
        numbers = flat_values.reshape(-1)
        is_finite = np.isfinite(numbers)
        first: tuple[NumberPlace, ...] = ()
        if not is_finite.all():
            first = (self._place(int(np.argmin(is_finite)), flat_values, row_splits),)
        lowest: tuple[NumberPlace, ...] = ()
        if finds_lowest and is_finite.any():
            position = int(np.argmin(np.where(is_finite, numbers, np.inf)))
            place = self._place(position, flat_values, row_splits)
            lowest = (dataclasses.replace(place, value=float(numbers[position])),)
        return NumberCounts(
            num_values=len(numbers),
            num_nan=int(np.isnan(numbers).sum()),
            num_infinite=int(np.isposinf(numbers).sum()),
            num_negative_infinite=int(np.isneginf(numbers).sum()),
            first=first,
            lowest=lowest,
        )

    def _place(
        self, position: int, flat_values: npt.NDArray[Any], row_splits: Sequence[npt.NDArray[np.int64]]
    ) -> NumberPlace:
        item = position // int(np.prod(flat_values.shape[1:], dtype=np.int64))
        # side="right" skips empty rows, which begin where the row with the value does.
        for splits in reversed(row_splits):
            item = int(np.searchsorted(splits, item, "right")) - 1
        example = int(np.searchsorted(self.item_splits, item, "right")) - 1
        record = self.first_record + example
        text = f"{flat_values.reshape(-1)[position]} in {place_of(self.file, record)}"
        number = item - int(self.item_splits[example])
        item_id = describe_item_id(self.records[example], self.one_set.key_of(ID_NAME), number)
        if item_id:
            text += f", item {item_id}"
        return NumberPlace(split=self.file.split, shard=self.file.shard, record=record, text=text)


def merge_counts(parts: Sequence[Mapping[str, NumberCounts]]) -> dict[str, NumberCounts]:
    """Adds up the counts of disjoint examples by tf.Example key."""
    merged: dict[str, NumberCounts] = {}
    for part in parts:
        for key, counts in part.items():
            merged[key] = merged.get(key, NumberCounts()).merge(counts)
    return merged


def check_finite(
    transformed: Mapping[str, NumberCounts],
    raw: Mapping[str, NumberCounts],
    *,
    allowed: Collection[str],
    made_of: Callable[[str], Collection[str]],
    is_declared: bool = False,
) -> None:
    """Refuses transformed features with NaN or infinite values, and logs those that are allowed.

    `made_of` returns the raw keys that a transformed feature depends on, so that the message can name the cause.
    `is_declared` tells that the option `features` declares them, without a preprocessing function.
    """
    nonfinite = {key: counts for key, counts in sorted(transformed.items()) if counts.num_nonfinite}
    for key in set(nonfinite) & set(allowed):
        _LOG.warning("Feature %r has values that are not finite: %s.", key, nonfinite[key].words())
    wrong = {key: counts for key, counts in nonfinite.items() if key not in allowed}
    if not wrong:
        return
    described = [_described(key, counts, raw, made_of) for key, counts in list(wrong.items())[:_MOST]]
    described += [f"and {len(wrong) - _MOST} features more"] if len(wrong) > _MOST else []
    option, advice = (
        "preprocessing_fn",
        ("Clip what is out of the domain, as tf.math.log1p(tf.maximum(x, 0.0)) does, or replace NaN with tf.where"),
    )
    if is_declared:
        option, advice = "features", "Choose another preparation or `drop` for it, or correct the tables"
    raise ValueError(
        f"`{option}` must give finite numbers; got {'; '.join(described)}. {advice}; or name the feature in "
        "`nonfinite_features` (--nonfinite-feature), if the model handles such values."
    )


def _described(
    key: str,
    counts: NumberCounts,
    raw: Mapping[str, NumberCounts],
    made_of: Callable[[str], Collection[str]],
) -> str:
    words = f"{key!r} with {counts.words()}"
    if counts.num_nonfinite == counts.num_values > 1:
        words += ", so a statistic of it, such as a mean, may itself be NaN"
    sources = {source: raw[source] for source in sorted(set(made_of(key)) & set(raw))}
    # Name non-finite sources, which explain it; else sources with values that have no logarithm; else all sources.
    suspects = [f"{source!r} with {known.words()}" for source, known in sources.items() if known.num_nonfinite]
    for highest in (0.0, np.inf):
        suspects = suspects or [
            f"{source!r}, whose lowest value is {known.lowest[0].text}"
            for source, known in sources.items()
            if known.lowest and known.lowest[0].value <= highest
        ]
    return f"{words}, made of {' and '.join(suspects)}" if suspects else words
