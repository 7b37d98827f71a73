"""Judges whether values tell the labels of rows almost alone, as those that are filled in afterwards do."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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


class LabelJudge:
    """Judges how well values alone tell the labels of rows.

    One half of the rows gives the label of each value (its most frequent class, or its mean), numbers by quantiles;
    the other half tells how much of the error of a constant prediction that removes. Values of which each row has its
    own tell nothing. What removes 95 % of the errors of a class, or 98 % of the squared ones of a number, is a leak.
    """

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
