"""How one kind of task is measured: labels in raw examples, sums over served answers, and a baseline."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_evaluator.classification_metrics import (
    UNLABELLED,
    ClassCounts,
    always_predicting,
    classification_metrics,
    most_frequent_class,
)
from tfx_gnn.components.graph_evaluator.example_sums import ExampleSums
from tfx_gnn.components.graph_evaluator.ranking_metrics import HITS_AT, RankingSums, ranking_metrics
from tfx_gnn.components.graph_evaluator.regression_metrics import RegressionSums
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.models.tasks import READOUT_NODE_SET
from tfx_gnn.serving import model_interface

Array = npt.NDArray[Any]

_CONTEXT_PREFIX = "context/"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quality:
    """What a model is worth on some examples.

    Attributes:
        metrics: metric to value; those that are not defined for these examples are missing.
        baseline: the same of the baseline.
        report: the metrics, their details and the baseline as a part of `metrics.json`.
    """

    metrics: dict[str, float]
    baseline: dict[str, float]
    report: dict[str, Any]


class Measure(abc.ABC):
    """How one task is measured.

    Attributes:
        kind: the sort of task, as `metrics.json` names it.
        main_metrics: of these, the first that is defined must be better than the baseline's.
        baseline_name: the baseline in words.
        needs_baseline_split: whether the baseline is learned from labels.
        label_key: key of the label in a raw tf.Example.
    """

    label_key: str
    kind: ClassVar[str]
    main_metrics: ClassVar[tuple[str, ...]]
    baseline_name: ClassVar[str]
    needs_baseline_split: ClassVar[bool]

    @property
    @abc.abstractmethod
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""

    @property
    def label_name(self) -> str:
        """Feature with the label, for messages."""
        return self.label_key.removeprefix(_CONTEXT_PREFIX).removeprefix(f"nodes/{READOUT_NODE_SET}.")

    def labels_of(self, schema: GraphSchema) -> list[str]:
        """Names the features of examples among which the label is to be found."""
        is_of_context = self.label_key.startswith(_CONTEXT_PREFIX)
        features = schema.context.features if is_of_context else schema.node_sets[READOUT_NODE_SET].features
        return sorted(features)

    @abc.abstractmethod
    def truth(self, examples: Sequence[Mapping[str, Any]], places: Sequence[str]) -> Array:
        """Reads the labels of raw examples; `places` are for messages."""

    @abc.abstractmethod
    def sums(self, truth: Array, outputs: Mapping[str, Array], baseline: Any) -> ExampleSums:
        """Compares the model's outputs with labels; `baseline` is what `label_sums` gave, or None."""

    @abc.abstractmethod
    def label_sums(self, truth: Array) -> ExampleSums:
        """Sums up labels alone."""

    @abc.abstractmethod
    def sums_from_json(self, plain: Any) -> ExampleSums:
        """Reads what `ExampleSums.to_json` wrote."""

    @abc.abstractmethod
    def quality(self, sums: Any, baseline: Any, split: str) -> Quality:
        """Computes metrics of sums over at least one labelled example; `split` is the baseline's."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationMeasure(Measure):
    """One class an example; the baseline always says the most frequent class of a split.

    Attributes:
        label_key: key of the true class in a raw tf.Example, one string or integer.
        output_prefix: begins the names of this task's outputs.
    """

    label_key: str
    output_prefix: str = ""

    kind: ClassVar[str] = "classification"
    main_metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    baseline_name: ClassVar[str] = "the majority class"
    needs_baseline_split: ClassVar[bool] = True

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return ("accuracy", "macro_f1", "balanced_accuracy")

    def truth(self, examples: Sequence[Mapping[str, Any]], places: Sequence[str]) -> Array:
        """Reads the classes as text, as the served label writes them; objects, shape [n]."""
        classes = np.full([len(examples)], UNLABELLED, object)
        for position, (features, place) in enumerate(zip(examples, places, strict=True)):
            kind, values = _values(features, self.label_key)
            if len(values) > 1 or kind == "float_list":
                raise ValueError(
                    f"`label_feature` must be one string or integer an example; got {list(values[:3])!r} in "
                    f"{self.label_key!r} of {place}. Name the label feature of a classification with one readout an "
                    "example."
                )
            if values:
                classes[position] = _as_text(values[0])
        return classes

    def sums(self, truth: Array, outputs: Mapping[str, Array], baseline: Any) -> ClassCounts:
        """Counts pairs of true and predicted class."""
        labels = _output(outputs, self.output_prefix + model_interface.LABEL_OUTPUT).tolist()
        return ClassCounts.of(truth.tolist(), map(_as_text, labels))

    def label_sums(self, truth: Array) -> ClassCounts:
        """Counts classes."""
        return ClassCounts.of(truth.tolist(), [UNLABELLED] * len(truth))

    def sums_from_json(self, plain: Any) -> ClassCounts:
        """Reads counts."""
        return ClassCounts.from_json(plain)

    def quality(self, sums: ClassCounts, baseline: ClassCounts, split: str) -> Quality:
        """Computes accuracy, F1 and the like, in all and for each class."""
        majority_class = most_frequent_class(baseline.support)
        found = classification_metrics(sums.confusion)
        majority = classification_metrics(always_predicting(majority_class, sums.support))
        values, of_majority = ({name: getattr(m, name) for name in self.metrics} for m in (found, majority))
        report = {
            **values,
            "majority_baseline": {"class": majority_class, "class_from_split": split, **of_majority},
            "per_class": {name: dataclasses.asdict(item) for name, item in found.per_class.items()},
            "confusion": [
                {"true": true, "predicted": predicted, "count": count}
                for (true, predicted), count in sorted(sums.confusion.items())
            ],
        }
        return Quality(metrics=values, baseline=of_majority, report=report)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegressionMeasure(Measure):
    """Numbers for each example; the baseline always says their mean in a split.

    Attributes:
        label_key: key of the true values in a raw tf.Example, `num_targets` numbers.
        num_targets: numbers an example.
        missing_values: numbers that stand for one that is not known.
        output_prefix: begins the names of this task's outputs.
    """

    label_key: str
    num_targets: int = 1
    missing_values: tuple[float, ...] = ()
    output_prefix: str = ""

    kind: ClassVar[str] = "regression"
    main_metrics: ClassVar[tuple[str, ...]] = ("rmse",)
    baseline_name: ClassVar[str] = "the mean label"
    needs_baseline_split: ClassVar[bool] = True

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return ("rmse", "mae", "r2")

    def truth(self, examples: Sequence[Mapping[str, Any]], places: Sequence[str]) -> Array:
        """Reads the true values, float64 [n, num_targets]; NaN where there are none."""
        truth = np.full([len(examples), self.num_targets], np.nan)
        for position, (features, place) in enumerate(zip(examples, places, strict=True)):
            kind, values = _values(features, self.label_key)
            if len(values) not in (0, self.num_targets) or kind == "bytes_list":
                raise ValueError(
                    f"`task` must name a label of {self.num_targets} number(s) an example; got "
                    f"{list(values[:3])!r} in {self.label_key!r} of {place}. Name the label feature of a regression, "
                    "and write NaN for single values that are not known."
                )
            if values:
                truth[position] = values
        # Examples hold float32, in which -999.9 is another number.
        truth[np.isin(truth, np.asarray(self.missing_values, np.float32))] = np.nan
        return truth

    def sums(self, truth: Array, outputs: Mapping[str, Array], baseline: Any) -> RegressionSums:
        """Sums up errors, and those of the mean of `baseline`."""
        name = self.output_prefix + model_interface.PREDICTION_OUTPUT
        predicted = np.asarray(_output(outputs, name), np.float64).reshape(truth.shape)
        _check_finite(predicted, name)
        return RegressionSums.of(truth, predicted, _means(baseline, self.num_targets))

    def label_sums(self, truth: Array) -> RegressionSums:
        """Averages labels."""
        return RegressionSums.of(truth, np.zeros_like(truth), [0.0] * truth.shape[1])

    def sums_from_json(self, plain: Any) -> RegressionSums:
        """Reads sums."""
        return RegressionSums.from_json(plain)

    def quality(self, sums: RegressionSums, baseline: RegressionSums, split: str) -> Quality:
        """Computes RMSE, MAE and R2, means over targets."""
        values, of_mean = sums.metrics(), sums.baseline_metrics()
        mean_baseline = {"mean": _means(baseline, self.num_targets), "mean_from_split": split, **of_mean}
        report: dict[str, Any] = {**values, "mean_baseline": mean_baseline}
        if self.num_targets > 1:
            report["per_target"] = sums.metrics_by_target()
        return Quality(metrics=values, baseline=of_mean, report=report)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankingMeasure(Measure):
    """True and false pairs for each example, in the order of their scores; the baseline is a random order.

    Attributes:
        label_key: key of the labels in raw examples; 1 is a true pair, 0 a false one, others do not count.
        hits_at: ranks up to which a true pair counts as a hit.
        output_prefix: begins the names of this task's outputs.
    """

    label_key: str
    hits_at: tuple[int, ...] = HITS_AT
    output_prefix: str = ""

    kind: ClassVar[str] = "link_prediction"
    main_metrics: ClassVar[tuple[str, ...]] = ("mrr", "roc_auc")
    baseline_name: ClassVar[str] = "a random order"
    needs_baseline_split: ClassVar[bool] = False

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return ranking_metrics(self.hits_at)

    def truth(self, examples: Sequence[Mapping[str, Any]], places: Sequence[str]) -> Array:
        """Reads the labels of all pairs, float64 [n, largest number of pairs], padded by NaN."""
        rows = []
        for features, place in zip(examples, places, strict=True):
            kind, values = _values(features, self.label_key)
            if kind == "bytes_list":
                raise ValueError(
                    f"`task` must name a label that is 1 for true pairs and 0 for false ones; got text in "
                    f"{self.label_key!r} of {place}. Name the label feature that the sampling plan makes."
                )
            rows.append(values)
        truth = np.full([len(rows), max(map(len, rows), default=0)], np.nan)
        for position, values in enumerate(rows):
            truth[position, : len(values)] = values
        return truth

    def sums(self, truth: Array, outputs: Mapping[str, Array], baseline: Any) -> RankingSums:
        """Ranks the true pairs."""
        name = self.output_prefix + model_interface.SCORES_OUTPUT
        counts = _output(outputs, self.output_prefix + model_interface.NUM_CANDIDATES_OUTPUT)
        scores = np.asarray(_output(outputs, name))
        is_labelled = ~np.isnan(truth)
        width = min(truth.shape[1], scores.shape[1])
        is_answered = np.arange(truth.shape[1]) < np.asarray(counts)[:, np.newaxis]
        if is_labelled[:, width:].any() or (is_labelled & ~is_answered).any():
            raise ValueError(
                f"`model_dir` must hold a model that scores every pair of an example; got fewer than labels in "
                f"output {name!r}. Name the label feature of the pairs that the model was trained on."
            )
        scores, truth = scores[:, :width], truth[:, :width]
        _check_finite(scores[~np.isnan(truth)], name)
        return RankingSums.of(scores, truth, self.hits_at)

    def label_sums(self, truth: Array) -> RankingSums:
        """Nothing is learned from labels."""
        return RankingSums.of(np.zeros_like(truth), truth, self.hits_at)

    def sums_from_json(self, plain: Any) -> RankingSums:
        """Reads sums."""
        return RankingSums.from_json(plain)

    def quality(self, sums: RankingSums, baseline: Any, split: str) -> Quality:
        """Computes mean ranks, hits and areas under curves."""
        values, by_chance = sums.metrics(), sums.metrics_by_chance()
        counts = {"num_ranked": sums.num_ranked, "num_true_pairs": int(sums.scores.positives.sum())}
        counts["num_unranked"] = counts["num_true_pairs"] - sums.num_ranked
        counts["num_false_pairs"] = int(sums.scores.negatives.sum())
        counts["num_left_out"] = sums.num_left_out
        report = {**values, **counts, "random_baseline": by_chance}
        return Quality(metrics=values, baseline=by_chance, report=report)


def _values(features: Mapping[str, Any], key: str) -> tuple[str, Sequence[Any]]:
    kind = features[key].WhichOneof("kind") if key in features else None
    return (kind, getattr(features[key], kind).value) if kind else ("", ())


def _as_text(value: Any) -> str:
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)


def _means(baseline: RegressionSums | None, num_targets: int) -> list[float]:
    return [0.0] * num_targets if baseline is None else baseline.means.tolist()


def _output(outputs: Mapping[str, Array], name: str) -> Array:
    if name not in outputs:
        raise ValueError(
            f"`model_dir` must hold a model of this task; got no output {name!r} among {sorted(outputs)}. Name the "
            "task that it was trained for."
        )
    return outputs[name]


def _check_finite(values: Array, name: str) -> None:
    if not np.isfinite(values).all():
        raise ValueError(
            f"`model_dir` must hold a model that answers finite numbers; got NaN or infinity in output {name!r}. "
            "Train it again, with a smaller learning rate for example."
        )
