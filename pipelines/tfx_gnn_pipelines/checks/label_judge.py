"""Judges whether values tell the labels of rows almost alone, as those that are filled in afterwards do."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
_LEAST_AREA = 0.98
"""A number tells which of two classes a row has if it orders them with so large an area under the ROC curve."""
_LEAST_ORDERED = 0.9
"""Share of the rows that must have a number that is judged by these rows alone."""
_LEAST_ERRORS = 20
"""Errors of the constant prediction, below which nothing is told from chance."""
_LEAST_ROWS_OF_WORD = 8
"""Rows of the fitted half that must have a word, for it to speak for a class."""
_LEAST_PURITY = 0.95
"""Share of the rows with a word that must have its most frequent class; of the variance, that must be gone in them."""
_MOST_CHARACTERS = 1 << 25
"""Characters of texts that are looked at for words; of longer columns, rows at equal distances."""
_WORD_BY_ITSELF = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{So}]"
"""Characters of scripts that put no spaces between words, and pictures."""
_BETWEEN_WORDS = r"[^\p{L}\p{M}\p{N}\p{So}]+"

_SEED = 0

_Codes = npt.NDArray[np.int64]


class LabelJudge:
    """Judges how well values alone tell the labels of rows.

    A random half of the rows gives the label of each value (its most frequent class, or its mean), of numbers by
    quantiles; the other half tells how much of the error of a constant prediction that removes. Values of which each
    row has its own tell nothing but that they are there, but of texts single words may. What removes 95 % of the errors
    of a class, or 98 % of the squared ones of a number, is a leak. So is a number that orders the rows of two classes
    with an area under the ROC curve of .98.
    """

    def __init__(self, labels: pa.ChunkedArray, *, is_class: bool) -> None:
        """Takes the labels, large_string [num_rows] without nulls; numbers unless `is_class`."""
        self._is_fitted = np.random.default_rng(_SEED).permutation(len(labels)) % 2 == 0
        self._classes = _codes(labels) if is_class else None
        self._numbers = None if is_class else np.asarray(labels.cast(pa.float64()).to_numpy(), np.float64)

    def evidence(self, texts: pa.ChunkedArray) -> str:
        """Says how well the values, large_string [num_rows], tell the labels; "" if not well enough to be a leak."""
        codes = _codes_of_feature(texts)
        if self._classes is not None:
            found = _judge_classes(codes, self._classes, self._is_fitted)
            if not found and self._classes.max(initial=0) == 1:
                found = _judge_order(texts, self._classes)
            return found or _judge_words(texts, self._classes, self._is_fitted)
        assert self._numbers is not None
        if texts.null_count > (1 - _LEAST_ORDERED) * len(texts):
            found = _judge_numbers(codes, self._numbers, self._is_fitted)
        else:
            # A copy that few rows lack is still one.
            is_known = texts.is_valid().to_numpy()
            found = _judge_numbers(codes[is_known], self._numbers[is_known], self._is_fitted[is_known])
        return found or _judge_words_of_numbers(texts, self._numbers, self._is_fitted)


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
    num_rows = np.bincount(codes[is_fitted], minlength=int(codes.max(initial=0)) + 1)
    is_single = num_rows[codes[is_fitted]] == 1
    # A value that is new is like those that only one row has, such as notes that rows of one class have.
    of_single = np.bincount(labels[is_fitted][is_single], minlength=num_classes)
    predicted = np.full(len(num_rows), int(of_single.argmax()) if is_single.any() else majority)
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


def _judge_words(texts: pa.ChunkedArray, labels: _Codes, is_fitted: npt.NDArray[np.bool_]) -> str:
    """Says how well single words of texts tell the classes, each row by its most telling one; "" if too little."""
    words = _Words.of(texts)
    if words is None:
        return ""
    labels, is_fitted = labels[words.kept], is_fitted[words.kept]
    num_classes = int(labels.max(initial=0)) + 1
    is_counted = is_fitted[words.rows]
    pairs, counts = np.unique(
        words.codes[is_counted] * num_classes + labels[words.rows[is_counted]], return_counts=True
    )
    totals, most = np.zeros(len(words.spelled)), np.zeros(len(words.spelled))
    classes = np.zeros(len(words.spelled), np.int64)
    np.add.at(totals, pairs // num_classes, counts)
    order = np.argsort(counts, kind="stable")
    most[pairs[order] // num_classes], classes[pairs[order] // num_classes] = counts[order], pairs[order] % num_classes
    # How seldom chance would give a word its class so often: a word of many rows and of a rare class says most, one of
    # the most frequent class little, however pure it is.
    shares = np.bincount(labels[is_fitted], minlength=num_classes) / max(int(is_fitted.sum()), 1)
    purity = most / np.maximum(totals, 1)
    surprise = most * np.log(np.maximum(purity, 1e-9) / np.maximum(shares[classes], 1e-9))
    surprise[(totals < _LEAST_ROWS_OF_WORD) | (purity < _LEAST_PURITY)] = 0.0
    telling = words.most_telling(surprise)
    # That a row has no such word may tell its class, too.
    others = np.bincount(labels[is_fitted & (telling < 0)], minlength=num_classes)
    predicted = np.where(telling >= 0, classes[telling], (others if others.any() else shares).argmax())
    num_wrong = int((labels != shares.argmax())[~is_fitted].sum())
    num_left = int((predicted != labels)[~is_fitted].sum())
    if num_wrong < _LEAST_ERRORS or num_left > (1 - _LEAST_SHARE_OF_ERRORS) * num_wrong or not (telling >= 0).any():
        return ""
    word, num_tested = words.spelled[int(surprise.argmax())].as_py(), int((~is_fitted).sum())
    return (
        f"its words, such as {word!r}, tell the label of {1 - num_left / num_tested:.1%} of "
        f"{num_tested:,} rows, of which {1 - num_wrong / num_tested:.1%} have the most frequent one"
    )


def _judge_words_of_numbers(
    texts: pa.ChunkedArray, labels: npt.NDArray[np.float64], is_fitted: npt.NDArray[np.bool_]
) -> str:
    """Says how much of the squared error the mean of the most telling word of each row removes; "" if too little."""
    words = _Words.of(texts)
    if words is None:
        return ""
    labels, is_fitted = labels[words.kept], is_fitted[words.kept]
    num_words = len(words.spelled)
    mean = float(labels[is_fitted].mean()) if is_fitted.any() else 0.0
    variance = float(labels[is_fitted].var()) if is_fitted.any() else 0.0
    is_counted = is_fitted[words.rows]
    codes, of_words = words.codes[is_counted], labels[words.rows[is_counted]] - mean
    totals = np.bincount(codes, minlength=num_words)
    means = np.bincount(codes, of_words, minlength=num_words) / np.maximum(totals, 1)
    left = np.bincount(codes, (of_words - means[codes]) ** 2, minlength=num_words) / np.maximum(totals, 1)
    is_pure = (totals >= _LEAST_ROWS_OF_WORD) & (left <= (1 - _LEAST_PURITY) * variance)
    least_left = 1e-6 * max(variance, 1e-300)
    surprise = np.where(is_pure, totals * np.log(max(variance, least_left) / np.maximum(left, least_left)), 0.0)
    telling = words.most_telling(surprise)
    others = labels[is_fitted & (telling < 0)]
    predicted = np.where(telling >= 0, means[telling] + mean, others.mean() if len(others) else mean)
    error = float(((labels - mean)[~is_fitted] ** 2).sum())
    num_tested, unexplained = int((~is_fitted).sum()), float(((labels - predicted)[~is_fitted] ** 2).sum())
    if num_tested < _LEAST_ERRORS or unexplained > (1 - _LEAST_SHARE_OF_VARIANCE) * error or not (telling >= 0).any():
        return ""
    word = words.spelled[int(surprise.argmax())].as_py()
    return (
        f"its words, such as {word!r}, explain {1 - unexplained / error:.1%} of the label's variance "
        f"over {num_tested:,} rows"
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Words:
    """The words of texts, each once a row.

    Attributes:
        kept: the rows that are looked at.
        num_rows: how many these are.
        rows: int64 [num_words], positions in `kept`.
        codes: int64 [num_words], positions in `spelled`.
        spelled: all different words.
    """

    kept: slice
    num_rows: int
    rows: _Codes
    codes: _Codes
    spelled: pa.Array

    @staticmethod
    def of(texts: pa.ChunkedArray) -> _Words | None:
        """Splits texts into words; None if most of those that are filled have none, as numbers."""
        num_filled = pc.sum(pc.not_equal(texts, "")).as_py() or 0
        num_with_words = pc.sum(pc.match_substring_regex(texts, r"[\p{L}\p{So}]")).as_py() or 0
        if not num_filled or 2 * num_with_words < num_filled:
            return None
        num_characters = pc.sum(pc.binary_length(texts)).as_py() or 0
        kept = slice(None, None, -(-num_characters // _MOST_CHARACTERS))
        lower = pc.utf8_lower(texts.combine_chunks()[kept])
        lists = pc.split_pattern_regex(pc.replace_substring_regex(lower, _WORD_BY_ITSELF, r" \0 "), _BETWEEN_WORDS)
        encoded = pc.list_flatten(lists).dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.int64)
        # What stands before the first word, or after the last one, is none.
        is_word = pc.not_equal(encoded.dictionary, "").to_numpy(zero_copy_only=False)[codes]
        num_words = len(encoded.dictionary)
        pairs = np.unique((pc.list_parent_indices(lists).to_numpy().astype(np.int64) * num_words + codes)[is_word])
        return _Words(
            kept=kept,
            num_rows=len(lower),
            rows=pairs // num_words,
            codes=pairs % num_words,
            spelled=encoded.dictionary,
        )

    def most_telling(self, weights: npt.NDArray[np.float64]) -> _Codes:
        """Returns the word of each row with the largest weight above 0, int64 [num_rows]; -1 if there is none."""
        order = np.argsort(weights[self.codes], kind="stable")
        order = order[weights[self.codes[order]] > 0]
        telling = np.full(self.num_rows, -1)
        telling[self.rows[order]] = self.codes[order]
        return telling


def _judge_order(texts: pa.ChunkedArray, labels: _Codes) -> str:
    """Says how well numbers order the rows of two classes; "" if not well enough, or they are no numbers."""
    try:
        numbers = pc.fill_null(texts.cast(pa.float64()), np.nan).to_numpy()
    except pa.ArrowInvalid:
        return ""
    is_known = ~np.isnan(numbers)
    of_known = labels[is_known]
    num_second = int(of_known.sum())
    num_first = len(of_known) - num_second
    if len(of_known) < _LEAST_ORDERED * len(labels) or min(num_first, num_second) < _LEAST_ERRORS:
        return ""
    _, inverse, counts = np.unique(numbers[is_known], return_inverse=True, return_counts=True)
    # Equal numbers share the mean of their ranks.
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    area = float((ranks[of_known == 1].sum() - num_second * (num_second + 1) / 2) / (num_first * num_second))
    area = max(area, 1 - area)
    if area < _LEAST_AREA:
        return ""
    return f"alone it orders {len(of_known):,} rows by the label with ROC AUC {area:.3f}"


def _judge_numbers(codes: _Codes, labels: npt.NDArray[np.float64], is_fitted: npt.NDArray[np.bool_]) -> str:
    """Says how much of the squared error the mean of each value removes; "" if too little."""
    mean = float(labels[is_fitted].mean()) if is_fitted.any() else 0.0
    num_rows = np.bincount(codes[is_fitted], minlength=int(codes.max(initial=0)) + 1)
    sums = np.bincount(codes[is_fitted], labels[is_fitted], minlength=len(num_rows))
    is_single = num_rows[codes[is_fitted]] == 1
    # As for classes, a value that is new is like those that only one row has.
    of_new = float(labels[is_fitted][is_single].mean()) if is_single.any() else mean
    predicted = np.where(num_rows > 0, sums / np.maximum(num_rows, 1), of_new)
    tested, of_tested = labels[~is_fitted], codes[~is_fitted]
    error = float(((tested - mean) ** 2).sum())
    left = float(((tested - predicted[of_tested]) ** 2).sum())
    if len(tested) < _LEAST_ERRORS or left > (1 - _LEAST_SHARE_OF_VARIANCE) * error:
        return ""
    return f"alone it explains {1 - left / error:.1%} of the label's variance over {len(tested):,} rows"
