"""Gradient-boosted trees on plain columns: what can be predicted without a graph."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.serving import model_interface

Array = npt.NDArray[Any]

MOST_CLASSES = 100
"""Classes, or numbers per example, beyond which no trees are grown: each takes a tree in every round."""
FEWEST_ROWS = 100
"""Rows below which no trees are grown."""

_ROUNDS, _ROUNDS_WITHOUT_END = 300, 100
"""Rounds at most, and those where no rows are held out to end them earlier."""
_MOST_TREES = 1000
_MOST_GROWN = 30_000_000
"""Rows times trees: seconds."""
_LARGEST_LEARNING_RATE = 0.5
_MOST_CODES = 254
"""Texts of a column that get a code of their own; the trees take one more, for all other texts."""
_HELD_OUT_FROM = 500
"""Rows, for each class, from which a tenth decides when to end."""


class BoostedTrees:
    """Trees grown on numbers and on hashed texts, with answers as an exported model's.

    Attributes:
        num_rows: rows that they were grown on.
    """

    def __init__(self, values: Array, labels: Array, is_text: npt.NDArray[np.bool_]) -> None:
        """Grows trees.

        Args:
            values: float64 array, shape [num_rows, num_columns], in an order without meaning; NaN is a missing value.
                With more than ten classes or targets, the first rows are enough.
            labels: classes as text, an object array, shape [num_rows], or numbers, shape [num_rows, num_targets], of
                which NaN is unknown. `find_reason_against_trees` must have found none.
            is_text: which columns hold hashes of texts, bool [num_columns].
        """
        is_class = labels.dtype == object
        num_classes = len(np.unique(labels.astype(str))) if is_class else labels.shape[1]
        # Two classes take one tree in each round.
        num_models = 1 if is_class and num_classes == 2 else num_classes
        num_rounds = min(_ROUNDS, _MOST_TREES // num_models)
        values, labels = (array[: _MOST_GROWN // (num_rounds * num_models)] for array in (values, labels))
        self._codes = {int(column): _frequent(values[:, column]) for column in np.flatnonzero(is_text)}
        self._is_text, self.num_rows = is_text, len(values)
        coded = self._coded(values)
        self._classes: Array | None = None
        if is_class:
            self._classes, targets = np.unique(labels.astype(str), return_inverse=True)
            # Each class must be both held out and learned.
            holds_out = len(coded) >= _HELD_OUT_FROM * len(self._classes) and np.bincount(targets).min() > 1
            self._trees = [self._grow(coded, targets, num_rounds, holds_out=bool(holds_out))]
        else:
            known = [np.isfinite(of_target) for of_target in labels.T]
            self._trees = [
                self._grow(coded[rows], of_target[rows], num_rounds, holds_out=rows.sum() >= _HELD_OUT_FROM)
                for rows, of_target in zip(known, labels.T, strict=True)
            ]

    def answer(self, values: Array, output_prefix: str) -> dict[str, Array]:
        """Predicts rows, with the names of an exported model's outputs."""
        coded = self._coded(values)
        with _one_thread():
            if self._classes is None:
                predicted = np.stack([trees.predict(coded) for trees in self._trees], axis=1)
                return {output_prefix + model_interface.PREDICTION_OUTPUT: predicted}
            probabilities = self._trees[0].predict_proba(coded)
        outputs: Mapping[str, Array] = {
            model_interface.PROBABILITIES_OUTPUT: probabilities,
            model_interface.LABEL_OUTPUT: self._classes[probabilities.argmax(axis=1)].astype(object),
            model_interface.SCORE_OUTPUT: probabilities.max(axis=1),
        }
        named = {output_prefix + name: array for name, array in outputs.items()}
        return {**named, model_interface.ID_OUTPUT: np.arange(len(values))}

    def _grow(self, coded: Array, targets: Array, num_rounds: int, *, holds_out: bool) -> Any:
        # Slow to import.
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kind = HistGradientBoostingRegressor if self._classes is None else HistGradientBoostingClassifier
        trees = kind(
            max_iter=num_rounds if holds_out else min(num_rounds, _ROUNDS_WITHOUT_END),
            # Few rounds must get as far.
            learning_rate=min(_LARGEST_LEARNING_RATE, max(0.1, 10 / num_rounds)),
            early_stopping=holds_out,
            categorical_features=self._is_text,
            random_state=0,
        )
        with _one_thread():
            return trees.fit(coded, targets)

    def _coded(self, values: Array) -> Array:
        coded = values.copy()
        for column, codes in self._codes.items():
            position = np.minimum(np.searchsorted(codes, values[:, column]), max(len(codes) - 1, 0))
            is_known = codes[position] == values[:, column] if len(codes) else np.zeros(len(values), bool)
            coded[:, column] = np.where(is_known, position, len(codes))
        return coded


def find_reason_against_trees(labels: Array) -> str:
    """Says why no trees can be grown on these labels, in words; empty if they can."""
    is_class = labels.dtype == object
    num_rows = len(labels) if is_class else int(np.isfinite(labels).sum(axis=0).min())
    if num_rows < FEWEST_ROWS:
        return f"trees need {FEWEST_ROWS} labelled training examples; there are {num_rows}"
    num_classes = len(np.unique(labels.astype(str))) if is_class else labels.shape[1]
    if num_classes > MOST_CLASSES:
        return f"trees are grown for at most {MOST_CLASSES} classes or numbers; there are {num_classes}"
    if is_class and num_classes == 1:
        return "the training examples have one class only"
    return ""


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Keeps scikit-learn from waiting for cores that others use, which takes longer than all of its work."""
    from sklearn.utils import _openmp_helpers

    # Its OpenMP is looked up there; for this thread alone.
    openmp = ctypes.CDLL(_openmp_helpers.__file__)
    if not hasattr(openmp, "omp_set_num_threads"):
        yield
        return
    before = openmp.omp_get_max_threads()
    openmp.omp_set_num_threads(1)
    try:
        yield
    finally:
        openmp.omp_set_num_threads(before)


def _frequent(hashes: Array) -> Array:
    """Returns the most frequent hashes, ascending; their positions are codes."""
    found, counts = np.unique(hashes, return_counts=True)
    return np.sort(found[np.argsort(-counts, kind="stable")[:_MOST_CODES]])
