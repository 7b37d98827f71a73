"""What the labels of a split are, in a few numbers."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelSummary:
    """Labels of one task in one split.

    Attributes:
        num_labels: labels, known or not: one an example, for links one a candidate pair, and one
            for each target of a regression.
        num_counted: those that loss and metrics count: known, and for the softmax over candidates true pairs alone.
        class_counts: for tasks of classes, examples of each class; for links, false and true pairs.
        mean: for regressions, mean of each target over its known labels, 0 where there is none.
        std: for regressions, standard deviation of each target over its known labels, 0 where there is none.
        minimum: for regressions, the least known label of each target; infinity where there is none.
        maximum: for regressions, the greatest; minus infinity where there is none.
    """

    num_labels: int
    num_counted: int
    class_counts: tuple[int, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    minimum: tuple[float, ...] = ()
    maximum: tuple[float, ...] = ()

    @property
    def num_missing(self) -> int:
        """Labels that do not count."""
        return self.num_labels - self.num_counted
