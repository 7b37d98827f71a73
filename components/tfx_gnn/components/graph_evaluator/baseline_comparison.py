"""Whether a model is better than the baseline beyond chance, in numbers and in words."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tfx_gnn.components.graph_evaluator.measures import Measure, Quality
from tfx_gnn.components.graph_evaluator.paired_bootstrap import ReplicaSums, interval_of
from tfx_gnn.components.graph_evaluator.ranking import RankingSums
from tfx_gnn.records.metric_names import ERRORS, ROC_AUC, shown_metric

_MOST_TIMES = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class BaselineComparison:
    """The main metric's difference to the baseline, on the same examples.

    Attributes:
        metric: name of the main metric.
        gain: how much better the model is; below 0 if it is worse.
        lower: lower end of the interval of `gain`; None if there are too few examples for one.
        upper: its upper end.
        confidence: how often such intervals contain the true difference.
        num_examples: examples that were compared; for areas under curves, those of the rarer class or kind of pairs.
        num_replicas: replicas of the bootstrap.
        is_better: whether the whole interval lies above 0.
        meaning: all of this in a sentence, with advice if the model may not be better.
    """

    metric: str
    gain: float
    lower: float | None
    upper: float | None
    confidence: float
    num_examples: int
    num_replicas: int
    is_better: bool
    meaning: str

    def report(self) -> dict[str, Any]:
        """Returns the contents of `baseline_comparison` in `metrics.json`."""
        return {"method": "poisson_bootstrap", **dataclasses.asdict(self)}


def compare_with_baseline(
    measure: Measure,
    quality: Quality,
    sums: Any,
    replicas: ReplicaSums | None,
    *,
    split: str,
    confidence: float,
    num_replicas: int,
) -> BaselineComparison | None:
    """Compares the main metric with the baseline's; None if no main metric is defined for these examples.

    Args:
        measure: how the task is measured.
        quality: its metrics and the baseline's.
        sums: the sums over all examples.
        replicas: sums over the replicas of the examples; None if no example counts.
        split: name of the split, for the sentence.
        confidence: in (0, 1).
        num_replicas: number of replicas.
    """
    metric = measure.main_metric_of(quality)
    if metric not in quality.metrics:
        return None
    value, of_baseline = quality.metrics[metric], quality.baseline[metric]
    gain = of_baseline - value if metric in ERRORS else value - of_baseline
    if metric == ROC_AUC:
        # Areas need all scores in each replica: too dear to gather, so pairs are resampled, not examples.
        scores, unit = (sums.scores, "pairs") if isinstance(sums, RankingSums) else (sums.odds, "examples")
        gains, num_examples = scores.area_gains(num_replicas), scores.num_of_rarer_kind
    else:
        assert replicas is not None  # as there is a metric
        gains, num_examples, unit = replicas.gains(is_error=metric in ERRORS), replicas.num_examples, "examples"
    interval = interval_of(gains, num_examples, confidence)
    lower, upper = interval or (None, None)
    is_better = gain > 0.0 and lower is not None and lower > 0.0
    return BaselineComparison(
        metric=metric,
        gain=gain,
        lower=lower,
        upper=upper,
        confidence=confidence,
        num_examples=num_examples,
        num_replicas=num_replicas,
        is_better=is_better,
        meaning=_meaning(
            f"{shown_metric(metric)} {value:.4f}",
            f"{measure.baseline_name}'s {of_baseline:.4f}",
            gain=gain,
            interval=interval,
            is_better=is_better,
            compared=f"{num_examples} {unit} of split {split!r}",
            num_examples=num_examples,
            confidence=confidence,
        ),
    )


def _meaning(
    model: str,
    baseline: str,
    *,
    gain: float,
    interval: tuple[float, float] | None,
    is_better: bool,
    compared: str,
    num_examples: int,
    confidence: float,
) -> str:
    if interval is None:
        return (
            f"{model} cannot be compared with {baseline}: {compared} are too few. Evaluate more labelled examples, or "
            "set `baseline_confidence` to 0 to do without the comparison"
        )
    lower, upper = interval
    shown = f"the {100 * confidence:g}% interval of the difference on {compared} is {lower:.4f} to {upper:.4f}"
    if is_better:
        return f"{model} is better than {baseline} beyond chance: {shown}"
    if gain <= 0.0:
        return f"{model} is not better than {baseline}: {shown}"
    times = (gain - lower) ** 2 / gain**2
    needed = f"about {math.ceil(times * num_examples):,}" if 1.0 < times < _MOST_TIMES else "more"
    return (
        f"{model} may be better than {baseline} by chance only: {shown}. The split is too small to tell: evaluate "
        f"{needed} labelled examples, improve the model, or set `baseline_confidence` to 0 to bless it nevertheless"
    )
