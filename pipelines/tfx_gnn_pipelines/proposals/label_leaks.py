"""Finds columns of a table that tell the label of their row almost alone, as one that is filled in afterwards does."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.tables.column_values import as_texts
from tfx_gnn.tables.schema_inference import read_all_columns
from tfx_gnn.tables.table_layout import TableLayout

_MOST_ROWS = 200_000
"""Rows that are looked at, the first ones of the table."""
_NUM_BINS = 256
"""Numbers of more different values are taken by quantiles."""
_LEAST_ROWS_OF_VALUE = 4
"""So are numbers whose values have fewer rows on average."""
_LEAST_ROWS_OF_BIN = 16
"""Rows of a quantile, at least."""
_LEAST_SHARE_OF_ERRORS = 0.95
"""A column tells a class if by it alone so large a share of the constant prediction's errors disappears."""
_LEAST_SHARE_OF_VARIANCE = 0.98
"""A column tells a number if by it alone so large a share of the label's variance disappears."""
_LEAST_ERRORS = 20
"""Errors of the constant prediction, below which nothing is told from chance."""

_Codes = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelLeak:
    """What tells the label.

    Attributes:
        place: the set that has it, as in "nodes/orders".
        feature: the feature; "" if the edges of the set tell it by where they lead, or how many there are.
        evidence: what tells it and how well, in words.
    """

    place: str
    feature: str
    evidence: str


def find_label_leaks(layout: TableLayout, *, label: str, is_class: bool, features: Sequence[str]) -> list[LabelLeak]:
    """Finds the features that tell the label of their row almost alone.

    One half of the rows gives the label of each value (its most frequent class, or its mean), numbers by quantiles;
    the other half tells how much of the error of a constant prediction that removes.

    Args:
        layout: the table.
        label: feature with the labels; rows without one do not count.
        is_class: whether the label is a class; otherwise it is a number, and errors are squared.
        features: the features to look at; lists, and those of which each row has a value of its own, tell nothing.

    Returns:
        Those that remove at least 95 % of the errors, or 98 % of the squared ones, in the order of `features`.
    """
    texts = read_first_rows(layout, [label, *features])
    has_label = texts[label].is_valid()
    judge = LabelJudge(texts[label].filter(has_label), is_class=is_class)
    found = {name: judge.evidence(texts[name].filter(has_label)) for name in features if name in texts}
    return [LabelLeak(place=layout.label, feature=name, evidence=of) for name, of in found.items() if of]


class LabelJudge:
    """Judges how well values alone tell the labels of rows."""

    def __init__(self, labels: pa.ChunkedArray, *, is_class: bool) -> None:
        """Takes the labels, large_string [num_rows] without nulls; numbers unless `is_class`."""
        is_fitted = np.arange(len(labels)) % 2 == 0
        self._judge: Callable[[_Codes], str]
        if is_class:
            self._judge = functools.partial(_judge_classes, labels=_codes(labels), is_fitted=is_fitted)
        else:
            numbers = labels.cast(pa.float64()).to_numpy()
            self._judge = functools.partial(_judge_numbers, labels=numbers, is_fitted=is_fitted)

    def evidence(self, texts: pa.ChunkedArray) -> str:
        """Says how well the values, large_string [num_rows], tell the labels; "" if not well enough to be a leak."""
        return self._judge(_codes_of_feature(texts))


def read_first_rows(layout: TableLayout, features: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """Reads features of the first rows as texts; those that cannot be spelled as one, such as lists, are left out."""
    parts: dict[str, list[pa.Array]] = {name: [] for name in features}
    num_rows = 0
    for block in read_all_columns(layout):
        for name in list(parts):
            texts = as_texts(block.columns.column(layout.columns[name].name), f"{layout.declared_as}, column {name!r}")
            if texts is None:
                del parts[name]
            else:
                parts[name].append(texts)
        num_rows += block.columns.num_rows
        if num_rows >= _MOST_ROWS:
            break
    return {name: pa.chunked_array(of_column, pa.large_string()) for name, of_column in parts.items()}


def _codes(texts: pa.ChunkedArray) -> _Codes:
    encoded = texts.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


def _codes_of_feature(texts: pa.ChunkedArray) -> _Codes:
    """Numbers the values of a column, or the quantiles of numbers."""
    codes = _codes(texts)
    num_values = int(codes.max(initial=-1)) + 1
    if num_values <= _NUM_BINS and num_values * _LEAST_ROWS_OF_VALUE <= len(codes):
        return codes
    try:
        numbers = texts.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return codes
    num_bins = max(2, min(_NUM_BINS, len(numbers) // _LEAST_ROWS_OF_BIN))
    bounds = np.unique(np.nanquantile(numbers, np.linspace(0, 1, num_bins + 1)[1:-1]))
    return np.asarray(np.where(np.isnan(numbers), _NUM_BINS, np.searchsorted(bounds, numbers, side="right")), np.int64)


def _judge_classes(codes: _Codes, labels: _Codes, is_fitted: npt.NDArray[np.bool_]) -> str:
    """Says how much better the most frequent class of each value does than that of all; "" if too little."""
    num_classes = int(labels.max(initial=0)) + 1
    pairs, counts = np.unique(codes[is_fitted] * num_classes + labels[is_fitted], return_counts=True)
    order = np.argsort(counts, kind="stable")
    majority = int(np.bincount(labels[is_fitted], minlength=num_classes).argmax())
    predicted = np.full(int(codes.max(initial=0)) + 1, majority)
    # Where a value occurs with several classes, the last one written is the most frequent.
    predicted[pairs[order] // num_classes] = pairs[order] % num_classes
    tested, of_tested = labels[~is_fitted], codes[~is_fitted]
    num_wrong = int((tested != majority).sum())
    num_left = int((predicted[of_tested] != tested).sum())
    if num_wrong < _LEAST_ERRORS or num_left > (1 - _LEAST_SHARE_OF_ERRORS) * num_wrong:
        return ""
    return (
        f"alone it tells the label of {1 - num_left / len(tested):.1%} of {len(tested):,} rows, of which "
        f"{1 - num_wrong / len(tested):.1%} have the most frequent one"
    )


def _judge_numbers(codes: _Codes, labels: npt.NDArray[np.float64], is_fitted: npt.NDArray[np.bool_]) -> str:
    """Says how much of the squared error the mean of each value removes; "" if too little."""
    mean = float(labels[is_fitted].mean()) if is_fitted.any() else 0.0
    num_rows = np.bincount(codes[is_fitted], minlength=int(codes.max(initial=0)) + 1)
    sums = np.bincount(codes[is_fitted], labels[is_fitted], minlength=len(num_rows))
    predicted = np.where(num_rows > 0, sums / np.maximum(num_rows, 1), mean)
    tested, of_tested = labels[~is_fitted], codes[~is_fitted]
    error = float(((tested - mean) ** 2).sum())
    left = float(((tested - predicted[of_tested]) ** 2).sum())
    if len(tested) < _LEAST_ERRORS or left > (1 - _LEAST_SHARE_OF_VARIANCE) * error:
        return ""
    return f"alone it explains {1 - left / error:.1%} of the label's variance over {len(tested):,} rows"
