"""How classifications are measured: by metrics from a confusion matrix.

Counts merge by addition, so they can be gathered on many machines. The metrics
equal scikit-learn's on the same predictions.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_evaluator.bootstrap_sample import Answers
from tfx_gnn.components.graph_evaluator.confidence import ConfidenceCounts, as_probabilities
from tfx_gnn.components.graph_evaluator.intervals import WeightedMetrics
from tfx_gnn.components.graph_evaluator.measures import (
    Array,
    ExampleSums,
    Measure,
    Quality,
    as_text,
    feature_values,
    model_output,
)
from tfx_gnn.components.graph_evaluator.paired_bootstrap import PairedTerms
from tfx_gnn.components.graph_evaluator.score_counts import ScoreCounts
from tfx_gnn.components.graph_evaluator.weighted_metrics import weigh_classes
from tfx_gnn.records.metric_names import CALIBRATION_ERROR, ROC_AUC
from tfx_gnn.serving import model_interface

_METRICS = ("accuracy", "macro_f1", "balanced_accuracy")
_TWO_CLASSES = 2
_AREA_OF_CONSTANT = 0.5

UNLABELLED = ""
"""Marks an example without a class."""

ConfusionCounts = Mapping[tuple[str, str], int]
"""Number of examples by (true class, predicted class)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassMetrics:
    """Quality on one class.

    Attributes:
        precision: fraction of correct ones among the predictions of the class, in [0, 1]; 0 if there are none.
        recall: fraction of the class's examples that are predicted correctly, in [0, 1]; 0 if there are none.
        f1: harmonic mean of precision and recall, in [0, 1]; 0 if both are 0.
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
        accuracy: fraction of correct predictions, in [0, 1].
        macro_f1: unweighted mean of the classes' f1, in [0, 1], over all classes that occur as truth
            or as prediction.
        balanced_accuracy: mean recall of the classes that occur as truth, in [0, 1].
        per_class: class name to its metrics, in alphabetical order.
    """

    num_examples: int
    accuracy: float
    macro_f1: float
    balanced_accuracy: float
    per_class: dict[str, ClassMetrics]


def classification_metrics(confusion: ConfusionCounts) -> ClassificationMetrics:
    """Computes metrics from counts above 0, at least one."""
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
        balanced_accuracy=sum(metrics.recall for metrics in per_class.values()) / len(support),
        per_class=per_class,
    )


def always_predicting(class_name: str, support: Mapping[str, int]) -> ConfusionCounts:
    """Counts the outcomes of a classifier that always predicts `class_name`."""
    return {(true_class, class_name): count for true_class, count in support.items() if count}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassCounts(ExampleSums):
    """Confusion counts of a classifier's predictions.

    Attributes:
        confusion: number of examples by (true class, predicted class).
        confidence: the same examples by the model's confidence.
        odds: the same examples by the odds of the last class, where true pairs are those of that class; empty
            unless the model tells two classes apart and returns their probabilities.
    """

    confusion: ConfusionCounts
    confidence: ConfidenceCounts = dataclasses.field(default_factory=ConfidenceCounts)
    odds: ScoreCounts = dataclasses.field(default_factory=ScoreCounts.none)

    @classmethod
    def of(cls, truth: Iterable[str], predicted: Iterable[str]) -> ClassCounts:
        """Counts predictions; examples whose true class is `UNLABELLED` are counted separately."""
        pairs = list(zip(truth, predicted, strict=True))
        labelled = [pair for pair in pairs if pair[0] != UNLABELLED]
        return cls(
            num_examples=len(labelled), num_without_label=len(pairs) - len(labelled), confusion=Counter(labelled)
        )

    @classmethod
    def from_json(cls, plain: Sequence[Any]) -> ClassCounts:
        """Restores what `to_json` wrote."""
        num_without_label, confidence, odds, *triples = plain
        confusion = Counter({(true, predicted): count for true, predicted, count in triples})
        return cls(
            num_examples=confusion.total(),
            num_without_label=num_without_label,
            confusion=confusion,
            confidence=ConfidenceCounts.from_json(confidence),
            odds=ScoreCounts.from_json(odds),
        )

    def to_json(self) -> list[Any]:
        """Converts the counts to lists, in alphabetical order."""
        triples = ([*pair, count] for pair, count in sorted(self.confusion.items()))
        return [self.num_without_label, self.confidence.to_json(), self.odds.to_json(), *triples]

    def merged_with(self, other: ClassCounts) -> ClassCounts:
        """Adds the counts of other examples."""
        return ClassCounts(
            num_examples=self.num_examples + other.num_examples,
            num_without_label=self.num_without_label + other.num_without_label,
            confusion=Counter(self.confusion) + Counter(other.confusion),
            confidence=self.confidence.merged_with(other.confidence),
            odds=self.odds.merged_with(other.odds),
        )

    def roc_auc(self) -> float | None:
        """Computes the area under the ROC curve of two classes; None if there are others, or no example of one."""
        num_classes = len({name for pair in self.confusion for name in pair})
        return self.odds.roc_auc() if num_classes == _TWO_CLASSES else None

    @property
    def support(self) -> dict[str, int]:
        """True class to its number of examples."""
        support: Counter[str] = Counter()
        for (true, _), count in self.confusion.items():
            support[true] += count
        return dict(support)


def most_frequent_class(support: Mapping[str, int]) -> str:
    """Finds the majority class; ties go to the first in alphabetical order."""
    return min(support, key=lambda name: (-support[name], name))


def _class_metrics(right: int, predicted: int, support: int) -> ClassMetrics:
    return ClassMetrics(
        precision=right / predicted if predicted else 0.0,
        recall=right / support if support else 0.0,
        f1=2 * right / (predicted + support),
        support=support,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationMeasure(Measure):
    """One class per example; the baseline always predicts the most frequent class of a split.

    Attributes:
        label_key: key of the true class in a raw tf.Example, one string or integer.
        output_prefix: prefix of the names of this task's outputs.
        main_metric: one of `main_metrics`; empty: the first that is defined.
    """

    label_key: str
    output_prefix: str = ""
    main_metric: str = ""

    kind: ClassVar[str] = "classification"
    main_metrics: ClassVar[tuple[str, ...]] = ("accuracy", ROC_AUC)
    baseline_name: ClassVar[str] = "the majority class"
    needs_baseline_split: ClassVar[bool] = True

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return (*_METRICS, CALIBRATION_ERROR, ROC_AUC)

    def truth(self, examples: Sequence[Mapping[str, Any]], places: Sequence[str]) -> Array:
        """Reads the classes as text in the form of the served label; an object array, shape [n]."""
        classes = np.full([len(examples)], UNLABELLED, object)
        for position, (features, place) in enumerate(zip(examples, places, strict=True)):
            kind, values = feature_values(features, self.label_key)
            if len(values) > 1 or kind == "float_list":
                raise ValueError(
                    f"`label_feature` must be one string or integer per example; got {list(values[:3])!r} in "
                    f"{self.label_key!r} of {place}. Name the label feature of a classification with one readout per "
                    "example."
                )
            if values:
                classes[position] = as_text(values[0])
        return classes

    def sums(self, truth: Array, outputs: Mapping[str, Array], baseline: Any) -> ClassCounts:
        """Counts pairs of true and predicted class."""
        labels = model_output(outputs, self.output_prefix + model_interface.LABEL_OUTPUT).tolist()
        true, predicted = truth.tolist(), [as_text(label) for label in labels]
        counts = dataclasses.replace(
            ClassCounts.of(true, predicted), odds=self._odds(truth, outputs, np.array(predicted, object))
        )
        scores = outputs.get(self.output_prefix + model_interface.SCORE_OUTPUT)
        ids = outputs.get(model_interface.ID_OUTPUT)
        if scores is None or ids is None:
            # Models of other tools may return labels alone.
            return counts
        texts = [as_text(one) for one in ids.tolist()]
        confidence = ConfidenceCounts.of(texts, true, predicted, scores, unlabelled=UNLABELLED)
        return dataclasses.replace(counts, confidence=confidence)

    def paired_terms(
        self, truth: Array, outputs: Mapping[str, Array], baseline: Any, hashes: npt.NDArray[np.uint64]
    ) -> PairedTerms:
        """Says which examples the model has right, and which ones the majority class."""
        labels = model_output(outputs, self.output_prefix + model_interface.LABEL_OUTPUT).tolist()
        predicted = np.array([as_text(label) for label in labels], object)
        # Without any label in the baseline's split, the evaluation is refused later.
        majority = most_frequent_class(baseline.support) if baseline and baseline.support else UNLABELLED
        terms = np.stack([truth != UNLABELLED, predicted == truth, truth == majority], axis=1)
        return PairedTerms(hashes=hashes, terms=terms.astype(np.float64)[:, :, np.newaxis])

    def answers(self, truth: Array, outputs: Mapping[str, Array]) -> Answers:
        """Takes the labelled examples' classes and probabilities."""
        is_labelled = truth != UNLABELLED
        labels = model_output(outputs, self.output_prefix + model_interface.LABEL_OUTPUT).tolist()
        predicted = np.array([as_text(label) for label in labels], object)
        values = {"truth": truth[is_labelled], "predicted": predicted[is_labelled]}
        scores = outputs.get(self.output_prefix + model_interface.SCORE_OUTPUT)
        if scores is not None and model_interface.ID_OUTPUT in outputs:
            values["probability"] = as_probabilities(scores)[is_labelled]
        log_odds = self._log_odds(outputs)
        if log_odds is not None:
            values["log_odds"] = log_odds[is_labelled]
        return Answers(examples=np.arange(len(truth)), lengths=is_labelled.astype(np.int64), values=values)

    def _log_odds(self, outputs: Mapping[str, Array]) -> Array | None:
        """Returns those of the last of two classes; None if there are others, or no probabilities."""
        probabilities = outputs.get(self.output_prefix + model_interface.PROBABILITIES_OUTPUT)
        if probabilities is None or probabilities.shape[1:] != (_TWO_CLASSES,):
            return None
        # Unlike a probability near 1, these have as many digits at both ends.
        first, last = np.log(np.maximum(probabilities.T, np.finfo(np.float32).tiny))
        return np.asarray(last - first)

    def _odds(self, truth: Array, outputs: Mapping[str, Array], predicted: Array) -> ScoreCounts:
        log_odds, is_labelled = self._log_odds(outputs), truth != UNLABELLED
        if log_odds is None:
            return ScoreCounts.none()
        # The class that is predicted is the last one where the odds are above 1.
        is_last = (truth == predicted) == (log_odds > 0.0)
        return ScoreCounts.of(log_odds[is_labelled], is_last[is_labelled])

    def weighted_metrics(self, values: Mapping[str, Array], lengths: Array) -> WeightedMetrics:
        """Computes metrics from weighted confusion counts."""
        return weigh_classes(values)

    def label_sums(self, truth: Array) -> ClassCounts:
        """Counts classes."""
        return ClassCounts.of(truth.tolist(), [UNLABELLED] * len(truth))

    def sums_from_json(self, plain: Any) -> ClassCounts:
        """Reads counts."""
        return ClassCounts.from_json(plain)

    def quality(self, sums: ClassCounts, baseline: ClassCounts, split: str) -> Quality:
        """Computes accuracy, F1 and related metrics, overall and per class."""
        majority_class = most_frequent_class(baseline.support)
        found = classification_metrics(sums.confusion)
        majority = classification_metrics(always_predicting(majority_class, sums.support))
        values, of_majority = ({name: getattr(m, name) for name in _METRICS} for m in (found, majority))
        area = sums.roc_auc()
        if area is not None:
            values[ROC_AUC], of_majority[ROC_AUC] = area, _AREA_OF_CONSTANT
        # The baseline has no confidence.
        calibration_error = sums.confidence.calibration_error()
        if calibration_error is not None:
            values[CALIBRATION_ERROR] = calibration_error
        report: dict[str, Any] = {
            **values,
            "majority_baseline": {"class": majority_class, "class_from_split": split, **of_majority},
            "per_class": {name: dataclasses.asdict(item) for name, item in found.per_class.items()},
            "confusion": [
                {"true": true, "predicted": predicted, "count": count}
                for (true, predicted), count in sorted(sums.confusion.items())
            ],
            **sums.confidence.report(),
        }
        return Quality(metrics=values, baseline=of_majority, report=report)
