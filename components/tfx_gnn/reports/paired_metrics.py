"""What paired tests say of two runs' metrics, for the page and the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfx_gnn.records.metric_names import ERRORS

CONFIDENCE = 0.95
"""How often the intervals of differences contain the true one."""

GAIN, LOSS, UNCLEAR = "gain", "loss", "no clear difference"
"""What a paired test says of a metric."""

MCNEMAR, EXACT_MCNEMAR, BOOTSTRAP = "McNemar", "exact McNemar", "bootstrap"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairedMetric:
    """The difference of a metric between two runs on common examples.

    Attributes:
        metric: its name.
        difference: the other run's value minus the first run's.
        lower: lower end of the interval of the difference; None if there is none.
        upper: its upper end.
        p_value: how often examples would differ so much by chance, were there no difference, in [0, 1].
        test: "exact McNemar", "McNemar" or "bootstrap".
        verdict: `GAIN` or `LOSS` if the interval leaves 0 out and the p value is below 0.05, else `UNCLEAR`.
    """

    metric: str
    difference: float
    lower: float | None
    upper: float | None
    p_value: float
    test: str

    verdict: str = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", self._verdict())

    @property
    def interval_words(self) -> str:
        """The interval, as in "[-0.0100, +0.0720]"; empty if there is none."""
        if self.lower is None or self.upper is None:
            return ""
        return f"[{as_signed(self.lower)}, {as_signed(self.upper)}]"

    def _verdict(self) -> str:
        if self.lower is None or self.upper is None or self.p_value >= 1.0 - CONFIDENCE:
            return UNCLEAR
        if self.lower <= 0.0 <= self.upper:
            return UNCLEAR
        return GAIN if (self.lower > 0.0) != (self.metric in ERRORS) else LOSS


def as_signed(difference: float) -> str:
    """Formats a difference of a metric, as in "+0.0312"."""
    # Not "-0.0000".
    return f"{round(difference, 4) + 0.0:+.4f}"


def p_value_words(p_value: float) -> str:
    """Formats a p value, as in "p = 0.031" or "p < 0.001"."""
    return f"p = {p_value:.2g}" if p_value >= 0.001 else "p < 0.001"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairedTask:
    """Two runs' answers to a task, compared example by example.

    Attributes:
        reason: why nothing was tested, in words; empty if something was.
        first: the first run's examples: kept, and evaluated.
        other: those of the other run.
        num_common: examples that both runs kept, with equal labels.
        num_other_labels: further common examples, whose labels differ between the runs.
        num_replicas: replicas of the bootstrap.
        metrics: what the tests say of each metric that both runs have.
    """

    reason: str = ""
    first: tuple[int, int] = (0, 0)
    other: tuple[int, int] = (0, 0)
    num_common: int = 0
    num_other_labels: int = 0
    num_replicas: int = 0
    metrics: tuple[PairedMetric, ...] = ()


PairedRuns = Mapping[str, PairedTask]
"""By task, how a run differs from the first."""
