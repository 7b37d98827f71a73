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
_LEAST_SHARE_OF_ERRORS = 0.95
"""A column tells a class if by it alone so large a share of the constant prediction's errors disappears."""
_LEAST_SHARE_OF_VARIANCE = 0.98
"""A column tells a number if by it alone so large a share of the label's variance disappears."""
_LEAST_ERRORS = 20
"""Errors of the constant prediction, below which nothing is told from chance."""

_Codes = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelLeak:
    """A column that tells the label.

    Attributes:
        column: its name.
        evidence: how well it does, in words.
    """

    column: str
    evidence: str


def find_label_leaks(layout: TableLayout, *, label: str, is_class: bool, columns: Sequence[str]) -> list[LabelLeak]:
    """Finds the columns that tell the label of their row almost alone.

    One half of the rows gives the label of each value (its most frequent class, or its mean), numbers by quantiles;
    the other half tells how much of the error of a constant prediction that removes.

    Args:
        layout: the table.
        label: column of the labels; rows without one do not count.
        is_class: whether the label is a class; otherwise it is a number, and errors are squared.
        columns: the columns to look at; lists, and columns of which each row has a value of its own, tell nothing.

    Returns:
        The columns that remove at least 95 % of the errors, or 98 % of the squared ones, in the order of `columns`.
    """
    texts = _read(layout, [label, *columns])
    has_label = texts[label].is_valid()
    of_rows = texts[label].filter(has_label)
    is_fitted = np.arange(len(of_rows)) % 2 == 0
    judge: Callable[[_Codes], str]
    if is_class:
        judge = functools.partial(_judge_classes, labels=_codes(of_rows), is_fitted=is_fitted)
    else:
        judge = functools.partial(_judge_numbers, labels=of_rows.cast(pa.float64()).to_numpy(), is_fitted=is_fitted)
    leaks = []
    for column in columns:
        if column not in texts:
            continue
        evidence = judge(_codes_of_feature(texts[column].filter(has_label)))
        if evidence:
            leaks.append(LabelLeak(column=column, evidence=evidence))
    return leaks


def _read(layout: TableLayout, columns: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """Reads columns as texts; those that cannot be spelled as one, such as lists, are left out."""
    parts: dict[str, list[pa.Array]] = {name: [] for name in columns}
    num_rows = 0
    for block in read_all_columns(layout):
        for name in list(parts):
            texts = as_texts(block.columns.column(name), f"{layout.declared_as}, column {name!r}")
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
    if not len(codes) or codes.max() < _NUM_BINS:
        return codes
    try:
        numbers = texts.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return codes
    bounds = np.unique(np.nanquantile(numbers, np.linspace(0, 1, _NUM_BINS + 1)[1:-1]))
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
