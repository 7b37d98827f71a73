"""Answers of a model to the same examples on two ways, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.serving import signature
from tfx_gnn.stages.skew.comparison import FLOAT, INTEGER, STRING, FeatureComparison, FeatureSkew, RecordPlace

ID_OUTPUTS = (signature.ID_OUTPUT, signature.SOURCE_ID_OUTPUT, signature.TARGET_ID_OUTPUT)
"""Outputs that say whom the others are about."""

_Array = npt.NDArray[Any]
_KINDS = {np.dtype(np.float64): FLOAT, np.dtype(np.int64): INTEGER}
_PADDING: dict[str, Any] = {FLOAT: -np.inf, INTEGER: -1, STRING: b""}


class OutputComparison:
    """Adds up how answers differ, batch by batch.

    Attributes:
        only_in_first: names of outputs that only the first way has.
        only_in_second: names of outputs that only the second way has.
        num_other_labels: examples whose most probable class differs.
    """

    def __init__(self) -> None:
        """Begins with nothing compared."""
        self.only_in_first: set[str] = set()
        self.only_in_second: set[str] = set()
        self.num_other_labels = 0
        self._outputs: dict[str, FeatureComparison] = {}

    @property
    def results(self) -> tuple[FeatureSkew, ...]:
        """What was found, by name."""
        return tuple(self._outputs[name].result for name in sorted(self._outputs))

    def compare(self, first: Mapping[str, _Array], second: Mapping[str, _Array], places: Sequence[RecordPlace]) -> None:
        """Compares the answers to some examples; ids are left to others.

        Where the most probable class differs, so do logits, and the name of the class says nothing more.

        Args:
            first: arrays of one way by name, each [num_examples, ...]: float64, int64 or objects.
            second: those of the other way.
            places: where each example is.
        """
        self.only_in_first |= first.keys() - second.keys() - set(ID_OUTPUTS)
        self.only_in_second |= second.keys() - first.keys() - set(ID_OUTPUTS)
        for name in sorted((first.keys() & second.keys()) - set(ID_OUTPUTS)):
            one, other = same_width(first[name], second[name])
            rows = np.arange(len(places))
            prefix, _, short_name = name.rpartition("/")
            logits = f"{prefix}/{signature.LOGITS_OUTPUT}" if prefix else signature.LOGITS_OUTPUT
            if short_name == signature.LABEL_OUTPUT and logits in first and logits in second:
                is_same = first[logits].argmax(axis=1) == second[logits].argmax(axis=1)
                self.num_other_labels += int((~is_same).sum())
                rows = np.flatnonzero(is_same)
            kind = _KINDS.get(one.dtype, STRING)
            comparison = self._outputs.setdefault(name, FeatureComparison(name, kind))

            def place(row: int, rows: npt.NDArray[np.int64] = rows) -> tuple[str, int]:
                return places[int(rows[max(row, 0)])].text(), -1

            if len(rows):
                comparison.add(one[rows], other[rows], place, _scale(other[rows]) if kind == FLOAT else None)


def stacked(answers: Sequence[Mapping[str, _Array]]) -> dict[str, _Array]:
    """Puts the answers to single requests together, as one request for all would have given them.

    Args:
        answers: arrays by name, each [1, ...]; at least one.

    Returns:
        Arrays [number of requests, ...].
    """
    together = {}
    for name in answers[0]:
        arrays = [answer[name] for answer in answers]
        if arrays[0].ndim > 1:
            width = max(array.shape[1] for array in arrays)
            arrays = [_padded(array, width) for array in arrays]
        together[name] = np.concatenate(arrays)
    return together


def same_width(first: _Array, second: _Array) -> tuple[_Array, _Array]:
    """Pads rows as signatures do, so that those of two requests have the same length.

    Args:
        first: array [n, ...].
        second: array [n, ...].

    Returns:
        Both, with the same second dimension if they have one.
    """
    if min(first.ndim, second.ndim) < 2:
        return first, second
    width = max(first.shape[1], second.shape[1])
    return _padded(first, width), _padded(second, width)


def _padded(array: _Array, width: int) -> _Array:
    missing = width - array.shape[1]
    if not missing:
        return array
    padding = np.full([len(array), missing, *array.shape[2:]], _PADDING[_KINDS.get(array.dtype, STRING)], array.dtype)
    return np.concatenate([array, padding], axis=1)


def _scale(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The largest value of each example, at least 1; minus infinity pads rows."""
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    largest = finite.reshape(len(values), -1).max(axis=1, initial=1.0)
    return largest.reshape([len(values)] + [1] * (values.ndim - 1))
