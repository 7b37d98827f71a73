"""Quality of a classifier from counts of (true class, predicted class) pairs.

Counts merge by addition, so they can be gathered on many machines; the figures
equal scikit-learn's on the same predictions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

ConfusionCounts = Mapping[tuple[str, str], int]
"""How many examples have a (true class, predicted class)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassMetrics:
    """Quality on one class.

    Attributes:
        precision: right ones among those predicted to be of the class, in [0, 1]; 0 if there are none.
        recall: right ones among those of the class, in [0, 1]; 0 if there are none.
        f1: harmonic mean of both, in [0, 1]; 0 if both are 0.
        support: examples of the class.
    """

    precision: float
    recall: float
    f1: float
    support: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationMetrics:
    """Quality over all classes.

    Attributes:
        num_examples: examples that were counted.
        accuracy: share of right predictions, in [0, 1].
        macro_f1: mean of the classes' f1, in [0, 1]; every class that occurs as truth
            or as prediction counts once.
        per_class: class name to its metrics, in alphabetical order.
    """

    num_examples: int
    accuracy: float
    macro_f1: float
    per_class: dict[str, ClassMetrics]


def classification_metrics(confusion: ConfusionCounts) -> ClassificationMetrics:
    """Computes the quality of predictions.

    Args:
        confusion: (true class, predicted class) to a count above 0; at least one pair.

    Returns:
        The metrics.

    Raises:
        ValueError: if `confusion` is empty.

    Example:
        >>> classification_metrics({("cat", "cat"): 2, ("dog", "cat"): 1}).macro_f1
        0.4
    """
    if not confusion:
        raise ValueError("`confusion` must count at least one example; got none. Evaluate a split that has examples.")
    support: dict[str, int] = {}
    predicted: dict[str, int] = {}
    for (true_class, predicted_class), count in confusion.items():
        support[true_class] = support.get(true_class, 0) + count
        predicted[predicted_class] = predicted.get(predicted_class, 0) + count
    per_class = {
        name: _class_metrics(confusion.get((name, name), 0), predicted.get(name, 0), support.get(name, 0))
        for name in sorted(support.keys() | predicted.keys())
    }
    num_examples = sum(support.values())
    return ClassificationMetrics(
        num_examples=num_examples,
        accuracy=sum(confusion.get((name, name), 0) for name in per_class) / num_examples,
        macro_f1=sum(metrics.f1 for metrics in per_class.values()) / len(per_class),
        per_class=per_class,
    )


def always_predicting(class_name: str, support: Mapping[str, int]) -> ConfusionCounts:
    """Counts what a classifier would do that always says the same.

    Args:
        class_name: what it says.
        support: true class to number of examples.

    Returns:
        (true class, `class_name`) to count.
    """
    return {(true_class, class_name): count for true_class, count in support.items() if count}


def _class_metrics(right: int, predicted: int, support: int) -> ClassMetrics:
    return ClassMetrics(
        precision=right / predicted if predicted else 0.0,
        recall=right / support if support else 0.0,
        f1=2 * right / (predicted + support),
        support=support,
    )
