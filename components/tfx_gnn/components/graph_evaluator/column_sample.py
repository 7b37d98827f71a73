"""A bounded sample of rows of columns and labels, to train on and to compare on.

It is drawn as the sample of answers in `bootstrap_sample` is: of the same examples, both have the same rows.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

TRAINING, EVALUATED = "training", "evaluated"
"""Names of the two samples of an evaluation."""

MOST_ROWS = 100_000
"""Rows of a sample."""
MOST_VALUES = 10_000_000
"""Rows times columns of a sample: 80 MB."""

_NO_LIMIT = 1 << 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnSample:
    """Rows with the smallest hashes: a sample without bias, whatever the order of examples and number of workers.

    Attributes:
        limit: hashes of all rows are below it, and no row below it is missing; 2**64 if all rows are here.
        hashes: uint64 array, shape [num_rows], ascending.
        values: float64 array, shape [num_rows, num_columns].
        labels: by task, labels as of `Measure.truth`, shape [num_rows, ...].
    """

    limit: int
    hashes: npt.NDArray[np.uint64]
    values: npt.NDArray[np.float64]
    labels: Mapping[str, Array]

    @classmethod
    def of(
        cls, hashes: npt.NDArray[np.uint64], values: npt.NDArray[np.float64], labels: Mapping[str, Array]
    ) -> ColumnSample:
        """Takes rows in any order."""
        whole = cls(limit=_NO_LIMIT, hashes=hashes, values=values, labels=labels)
        return whole._sorted_and_cut()

    @classmethod
    def merged(cls, samples: Iterable[ColumnSample]) -> ColumnSample:
        """Joins samples of different examples."""
        samples = list(samples)
        first = samples[0]
        if len(samples) == 1:
            return first
        joined = cls(
            limit=min(one.limit for one in samples),
            hashes=np.concatenate([one.hashes for one in samples]),
            values=np.concatenate([one.values for one in samples]),
            labels={task: np.concatenate([one.labels[task] for one in samples]) for task in first.labels},
        )
        return joined._sorted_and_cut()

    @classmethod
    def from_json(cls, plain: Sequence[Any]) -> ColumnSample:
        """Restores what `to_json` wrote."""
        limit, hashes, num_columns, values, labels = plain
        return cls(
            limit=limit,
            hashes=np.asarray(hashes, np.uint64),
            values=np.frombuffer(base64.b64decode(values), "<f8").reshape([len(hashes), num_columns]),
            labels={
                task: np.asarray(of_task, object if is_text else np.float64)
                for task, (is_text, of_task) in labels.items()
            },
        )

    def to_json(self) -> list[Any]:
        """Converts the sample to lists; values are bytes, which take less room."""
        values = base64.b64encode(self.values.astype("<f8").tobytes()).decode()
        labels = {task: [of_task.dtype == object, of_task.tolist()] for task, of_task in self.labels.items()}
        return [self.limit, self.hashes.tolist(), self.values.shape[1], values, labels]

    def rows(self, rows: npt.NDArray[Any]) -> ColumnSample:
        """Takes some of the rows."""
        labels = {task: of_task[rows] for task, of_task in self.labels.items()}
        return dataclasses.replace(self, hashes=self.hashes[rows], values=self.values[rows], labels=labels)

    def _sorted_and_cut(self) -> ColumnSample:
        order = np.argsort(self.hashes, kind="stable")
        most = min(MOST_ROWS, MOST_VALUES // max(1, self.values.shape[1]))
        limit = self.limit
        if len(order) > most:
            limit = min(limit, int(self.hashes[order[most]]))
        if limit < _NO_LIMIT:
            order = order[self.hashes[order] < np.uint64(limit)]
        return dataclasses.replace(self.rows(order), limit=limit)
