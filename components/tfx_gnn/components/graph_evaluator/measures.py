"""How a task is measured: sums over examples that merge by addition, and a measure that computes metrics from them."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from google.protobuf.message import DecodeError

from tfx_gnn.components.graph_evaluator.bootstrap_sample import Answers, BootstrapSample
from tfx_gnn.components.graph_evaluator.column_sample import ColumnSample
from tfx_gnn.components.graph_evaluator.intervals import WeightedMetrics
from tfx_gnn.components.graph_evaluator.paired_bootstrap import PairedTerms, ReplicaSums
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET

Array = npt.NDArray[Any]

SINGLE_TASK = ""
"""Name of the task of a model that has only one."""

_CONTEXT_PREFIX = "context/"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleSums(abc.ABC):
    """Sums over examples of one task.

    Attributes:
        num_examples: examples with a label.
        num_without_label: examples without a label.
    """

    num_examples: int
    num_without_label: int

    @abc.abstractmethod
    def to_json(self) -> list[Any]:
        """Converts the sums to lists of numbers and names."""

    @abc.abstractmethod
    def merged_with(self, other: Any) -> Any:
        """Adds sums of the same class over other examples."""


SliceKey = tuple[str, str, str]
"""Task name, slicing feature and its value; feature and value are "" for all examples."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSums:
    """The sums of a whole evaluation.

    Attributes:
        baselines: by task name, the sums that the baseline is learned from.
        evaluated: by task and slice, the sums over the evaluated split.
        replicas: by task name, the sums in replicas of the evaluated split; empty without a comparison with the
            baseline.
        blessed: the latest blessed model's sums, in the form of `evaluated`; empty without such a model.
        samples: by task name, the answers that intervals are computed from; empty without intervals.
        quantiles: numbers between the slices by quantiles, by the key of a feature.
        columns: samples of the seeds' own columns, "training" and "evaluated"; empty without trees.
        kept: by task name, the answers that are kept; their hashes are of what examples are about.
    """

    baselines: dict[str, ExampleSums]
    evaluated: dict[SliceKey, ExampleSums]
    replicas: dict[str, ReplicaSums] = dataclasses.field(default_factory=dict)
    blessed: dict[SliceKey, ExampleSums] = dataclasses.field(default_factory=dict)
    samples: dict[str, BootstrapSample] = dataclasses.field(default_factory=dict)
    quantiles: dict[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    columns: dict[str, ColumnSample] = dataclasses.field(default_factory=dict)
    kept: dict[str, BootstrapSample] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quality:
    """The model's metrics on some examples, and the baseline's.

    Attributes:
        metrics: metric to value, without metrics that are undefined for these examples.
        baseline: the same metrics of the baseline.
        report: the metrics, their details and the baseline, in the form of `metrics.json`.
    """

    metrics: dict[str, float]
    baseline: dict[str, float]
    report: dict[str, Any]


class Measure(abc.ABC):
    """How one task is measured.

    Attributes:
        kind: the kind of task, as in `metrics.json`.
        main_metrics: one of these must be better than the baseline's.
        main_metric: one of `main_metrics`; empty: the first that is defined.
        baseline_name: the baseline in words.
        needs_baseline_split: whether the baseline is learned from labels.
        compares_examples: whether examples that follow each other are compared, so that `sums` gets whole files.
        label_key: key of the label in a raw tf.Example.
        output_prefix: prefix of the names of the model's outputs.
    """

    label_key: str
    output_prefix: str
    main_metric: str
    kind: ClassVar[str]
    main_metrics: ClassVar[tuple[str, ...]]
    baseline_name: ClassVar[str]
    needs_baseline_split: ClassVar[bool]
    compares_examples: bool = False

    @property
    @abc.abstractmethod
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""

    @property
    def label_name(self) -> str:
        """Feature with the label, for messages."""
        return self.label_key.removeprefix(_CONTEXT_PREFIX).removeprefix(f"nodes/{READOUT_NODE_SET}.")

    def labels_of(self, schema: GraphSchema) -> list[str]:
        """Lists the features of the set that holds the label."""
        is_of_context = self.label_key.startswith(_CONTEXT_PREFIX)
        features = schema.context.features if is_of_context else schema.node_sets[READOUT_NODE_SET].features
        return sorted(features)

    @abc.abstractmethod
    def truth(self, examples: Sequence[Mapping[str, Any]], places: Sequence[str]) -> Array:
        """Reads the labels of raw examples; `places` is for error messages."""

    @abc.abstractmethod
    def sums(self, truth: Array, outputs: Mapping[str, Array], baseline: Any) -> ExampleSums:
        """Compares the model's outputs with labels; `baseline` is the result of `label_sums`, or None."""

    @abc.abstractmethod
    def paired_terms(
        self, truth: Array, outputs: Mapping[str, Array], baseline: Any, hashes: npt.NDArray[np.uint64]
    ) -> PairedTerms:
        """Compares the model with the baseline in the first of `main_metrics`, example by example.

        Arguments are as for `sums`, and hashes of the examples, shape [n].
        """

    @property
    def setting(self) -> tuple[int, ...]:
        """What `weighted_metrics` needs besides values and lengths."""
        return ()

    @abc.abstractmethod
    def answers(self, truth: Array, outputs: Mapping[str, Array]) -> Answers:
        """Takes what `weighted_metrics` needs from labels and outputs, which `sums` has checked."""

    @abc.abstractmethod
    def weighted_metrics(self, values: Mapping[str, Array], lengths: Array) -> WeightedMetrics:
        """Returns a function from weights of rows to the metrics of `quality`; both arguments are of `answers`."""

    @abc.abstractmethod
    def label_sums(self, truth: Array) -> ExampleSums:
        """Sums up labels alone."""

    @abc.abstractmethod
    def sums_from_json(self, plain: Any) -> ExampleSums:
        """Restores what `ExampleSums.to_json` wrote."""

    def main_metric_of(self, quality: Quality) -> str:
        """Returns the metric that must be better than the baseline's."""
        first = next((name for name in self.main_metrics if name in quality.metrics), self.main_metrics[0])
        return self.main_metric or first

    @abc.abstractmethod
    def quality(self, sums: Any, baseline: Any, split: str) -> Quality:
        """Computes metrics from sums over at least one labelled example; `split` is the baseline's."""


def parse_features(record: bytes, place: str) -> Any:
    """Parses a serialized tf.Example, from `place`, to its features by key."""
    try:
        return tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
        raise ValueError(
            f"`examples_dir` must hold serialized tf.Examples; got {len(record)} other bytes in {place}. "
            "Make the examples again."
        ) from error


def feature_values(features: Mapping[str, Any], key: str) -> tuple[str, Sequence[Any]]:
    """Returns the kind and the values of a feature of a tf.Example, both empty if the feature is absent."""
    kind = features[key].WhichOneof("kind") if key in features else None
    return (kind, getattr(features[key], kind).value) if kind else ("", ())


def as_text(value: Any) -> str:
    """Converts an id, a class or another feature value to text."""
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)


def model_output(outputs: Mapping[str, Array], name: str) -> Array:
    """Returns a required output of the model."""
    if name not in outputs:
        raise ValueError(
            f"`model_dir` must hold a model of this task; got no output {name!r} among {sorted(outputs)}. Name the "
            "task that it was trained for."
        )
    return outputs[name]


def check_finite_output(values: Array, name: str) -> None:
    """Refuses outputs with NaN or infinity, for which metrics are undefined."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"`model_dir` must hold a model that returns finite numbers; got NaN or infinity in output {name!r}. "
            "Train it again, with a smaller learning rate for example."
        )
