"""The answers of one or two models to examples, as far as they are kept to be resampled.

Sums over replicas are enough for means. Areas under curves and averages over classes need the examples themselves in
every replica, and slices would need sums of their own: so a bounded number of examples is kept, those with the smallest
hashes. Which these are depends neither on the order of examples nor on the number of workers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MOST_ROWS = 100_000
"""Rows that are kept; a row with more than `_VALUES_PER_ROW` values counts as several."""

_VALUES_PER_ROW = 4
_NO_LIMIT = 1 << 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answers:
    """Labels and a model's answers by row, which is an example, or a group of examples that are compared.

    Attributes:
        examples: int64 array, shape [num_rows]: position of the row's first example.
        lengths: int64 array of the same shape: values of each row; 0 for a row that does not count.
        values: arrays of shape [sum of lengths], by name.
    """

    examples: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    values: Mapping[str, Array]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BootstrapSample:
    """Rows with the smallest hashes, in the order of these.

    Attributes:
        limit: hashes of all rows are below it, and no row below it is missing; 2**64 if all rows are here.
        hashes: uint64 array, shape [num_rows].
        slices: text arrays of the same shape, by the key of a slicing.
        lengths: int64 array of the same shape: values of each row, at least 1.
        model: the model's `Answers.values`.
        blessed: the latest blessed model's; empty without one.
    """

    limit: int
    hashes: npt.NDArray[np.uint64]
    slices: Mapping[str, Array]
    lengths: npt.NDArray[np.int64]
    model: Mapping[str, Array]
    blessed: Mapping[str, Array]

    @classmethod
    def of(
        cls, hashes: npt.NDArray[np.uint64], slices: Mapping[str, Array], model: Answers, blessed: Answers | None
    ) -> BootstrapSample:
        """Takes the rows that count; `hashes` and `slices` are of examples, shape [num_examples]."""
        if blessed is not None and not np.array_equal(model.lengths, blessed.lengths):
            raise ValueError(
                "`blessed` must count the same examples and pairs; got other counts. Compare models of the same task."
            )
        counts = model.lengths > 0
        examples = model.examples[counts]
        whole = cls(
            limit=_NO_LIMIT,
            hashes=hashes[examples],
            slices={key: values[examples] for key, values in slices.items()},
            lengths=model.lengths[counts],
            model=model.values,
            blessed=blessed.values if blessed is not None else {},
        )
        return whole._sorted_and_cut()

    @classmethod
    def merged(cls, samples: Sequence[BootstrapSample]) -> BootstrapSample:
        """Joins samples of different examples."""
        samples = list(samples)
        first = samples[0]
        if len(samples) == 1:
            return first
        joined = cls(
            limit=min(one.limit for one in samples),
            hashes=np.concatenate([one.hashes for one in samples]),
            slices={key: np.concatenate([one.slices[key] for one in samples]) for key in first.slices},
            lengths=np.concatenate([one.lengths for one in samples]),
            model={name: np.concatenate([one.model[name] for one in samples]) for name in first.model},
            blessed={name: np.concatenate([one.blessed[name] for one in samples]) for name in first.blessed},
        )
        return joined._sorted_and_cut()

    @classmethod
    def from_json(cls, plain: Sequence[Any]) -> BootstrapSample:
        """Restores what `to_json` wrote."""
        limit, hashes, slices, lengths, *values = plain
        model, blessed = ({name: np.asarray(array) for name, array in one.items()} for one in values)
        return cls(
            limit=limit,
            hashes=np.asarray(hashes, np.uint64),
            slices={key: np.asarray(array, object) for key, array in slices.items()},
            lengths=np.asarray(lengths, np.int64),
            model=model,
            blessed=blessed,
        )

    def to_json(self) -> list[Any]:
        """Converts the sample to lists."""
        named = ({name: array.tolist() for name, array in one.items()} for one in (self.model, self.blessed))
        slices = {key: array.tolist() for key, array in self.slices.items()}
        return [self.limit, self.hashes.tolist(), slices, self.lengths.tolist(), *named]

    @property
    def share(self) -> float:
        """Share of all rows that the sample has, from how much of the range of hashes it covers."""
        return self.limit / _NO_LIMIT

    def rows(self, rows: npt.NDArray[np.intp]) -> BootstrapSample:
        """Takes some of the rows, by their positions."""
        starts = np.cumsum(self.lengths) - self.lengths
        lengths = self.lengths[rows]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        values = np.repeat(starts[rows], lengths) + within
        return BootstrapSample(
            limit=self.limit,
            hashes=self.hashes[rows],
            slices={key: array[rows] for key, array in self.slices.items()},
            lengths=lengths,
            model={name: array[values] for name, array in self.model.items()},
            blessed={name: array[values] for name, array in self.blessed.items()},
        )

    def _sorted_and_cut(self) -> BootstrapSample:
        order = np.argsort(self.hashes, kind="stable")
        cost = np.cumsum(-(-self.lengths[order] // _VALUES_PER_ROW))
        limit = self.limit
        num_within = int(np.searchsorted(cost, MOST_ROWS, side="right"))
        if num_within < len(order):
            limit = min(limit, int(self.hashes[order[num_within]]))
        if limit < _NO_LIMIT:
            order = order[self.hashes[order] < np.uint64(limit)]
        return dataclasses.replace(self.rows(order), limit=limit)
