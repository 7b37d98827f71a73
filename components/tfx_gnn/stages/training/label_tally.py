"""Labels of many batches as one summary."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.models.tasks import LabelSummary, Objective


class LabelTally:
    """Adds labels up.

    Args:
        objective: what is predicted, of a single task.
    """

    def __init__(self, objective: Objective) -> None:
        self._num_labels = 0
        self._num_counted = 0
        self._class_counts = np.zeros([objective.num_classes], np.int64)
        self._moments: _Moments | None = None if objective.num_classes else _Moments()

    def add(self, labels: npt.NDArray[Any], counts: npt.NDArray[np.bool_]) -> None:
        """Adds a batch.

        Args:
            labels: as `Objective.split_off_labels` returns them.
            counts: as `Objective.counts` returns them.
        """
        self._num_labels += counts.size
        self._num_counted += int(counts.sum())
        if self._moments is not None:
            self._moments.add(labels.astype(np.float64), counts)
            return
        classes = labels[:, 0] if labels.ndim > 1 else labels
        num_classes = len(self._class_counts)
        known = classes[(classes >= 0) & (classes < num_classes)]
        self._class_counts += np.bincount(known, minlength=num_classes)

    def summary(self) -> LabelSummary:
        """Tells what has been added; see `LabelSummary`."""
        moments = {} if self._moments is None else self._moments.figures()
        return LabelSummary(
            num_labels=self._num_labels,
            num_counted=self._num_counted,
            class_counts=tuple(self._class_counts.tolist()),
            **moments,
        )


class _Moments:
    """Mean, variance and range of each column, merged batch by batch without loss of digits."""

    def __init__(self) -> None:
        self._num: Any = 0.0
        self._mean: Any = 0.0
        self._squares: Any = 0.0
        self._minimum: Any = np.inf
        self._maximum: Any = -np.inf

    def add(self, values: npt.NDArray[np.float64], known: npt.NDArray[np.bool_]) -> None:
        num = known.sum(axis=0)
        mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(num, 1)
        squares = np.where(known, np.square(values - mean), 0.0).sum(axis=0)
        total = np.maximum(self._num + num, 1)
        difference = mean - self._mean
        self._squares = self._squares + squares + np.square(difference) * self._num * num / total
        self._mean = self._mean + difference * num / total
        self._num = self._num + num
        self._minimum = np.minimum(self._minimum, np.where(known, values, np.inf).min(axis=0, initial=np.inf))
        self._maximum = np.maximum(self._maximum, np.where(known, values, -np.inf).max(axis=0, initial=-np.inf))

    def figures(self) -> dict[str, tuple[float, ...]]:
        std = np.sqrt(self._squares / np.maximum(self._num, 1))
        columns = {"mean": self._mean, "std": std, "minimum": self._minimum, "maximum": self._maximum}
        return {name: tuple(np.atleast_1d(values).tolist()) for name, values in columns.items()}
