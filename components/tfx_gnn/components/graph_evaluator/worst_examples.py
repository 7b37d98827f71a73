"""The examples that a model answers worst: a few to look at, the same in whatever order parts are merged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_evaluator.bootstrap_sample import Array

NUM_WORST = 20
"""Worst examples that are kept."""


class _Ordered(Protocol):
    @property
    def sort_key(self) -> tuple[Any, ...]: ...


_Example = TypeVar("_Example", bound=_Ordered)


def keep_worst(examples: Iterable[_Example]) -> tuple[_Example, ...]:
    """Keeps the first `NUM_WORST` examples by `sort_key`, in this order."""
    return tuple(sorted(examples, key=lambda example: example.sort_key)[:NUM_WORST])


def positions_of_worst(badness: Array) -> npt.NDArray[np.intp]:
    """Finds the `NUM_WORST` largest values and all that equal the least of them, among which other keys decide.

    `badness` has shape [n], without NaN.
    """
    if len(badness) <= NUM_WORST:
        return np.arange(len(badness))
    return np.flatnonzero(badness >= np.partition(badness, -NUM_WORST)[-NUM_WORST])
