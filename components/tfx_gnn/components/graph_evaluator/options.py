"""Options of GraphEvaluator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfx_gnn.io.option_groups import check_choices, choice_option
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.models.tasks import Task
from tfx_gnn.records.metric_names import full_metric_name

AUTO = "auto"

_ACCURACY_BOUNDS = ("min_accuracy_over_majority", "min_accuracy", "min_macro_f1")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphEvaluatorOptions:
    """What to measure, and what a model must reach to be blessed.

    A model must always beat the baseline: a classifier the majority class in accuracy, a regressor the mean in RMSE,
    and a link predictor a random order in MRR (or in ROC AUC, if no positive has negatives in its own example), unless
    `main_metric` names another metric. The
    difference must also be larger than chance explains, unless `baseline_confidence` is 0. Where there is a latest
    blessed model, a model must also not be worse than that one in the same metric; an equal model is blessed.

    Attributes:
        label_feature: feature of node set `_readout` with the true class, string or integer. Use it for node
            classification; give `task` for anything else.
        task: what the model was trained for, as in the trainer's options.
        split: split to evaluate.
        baseline_split: split whose most frequent class, or mean, the baseline always predicts. A baseline must not
            see the labels that it is scored on.
        main_metric: the metric in which the baseline must be beaten; empty: as above. "roc_auc", for classifiers of
            two classes and for link predictors, asks whether the model orders examples better than chance, also where
            one class is so rare that the most likely class is nearly always the other one. With several tasks,
            "<task>.<metric>", for one of them.
        min_accuracy_over_majority: a classifier's accuracy must exceed the baseline's by
            more than this; at least 0.
        min_accuracy: accuracy must be at least this, in [0, 1].
        min_macro_f1: macro-F1 must be at least this, in [0, 1].
        baseline_confidence: confidence level of the interval of the model's advantage over the baseline, in
            [0.5, 0.999]; the interval must lie above 0. It comes from a Poisson bootstrap over examples, or over pairs
            for ROC AUC. The intervals of all metrics, also by slice, and of their differences to the latest blessed
            model have the same level. 0: no intervals, so a model may be blessed that is better by chance only.
        bootstrap_replicas: replicas of the bootstrap, in [200, 10000].
        max_examples_without_label: examples of the two splits that may lack a label;
            if more do, the evaluation fails.
        thresholds: bounds on any metrics. For each metric, either a number, which is the minimum or, for an error
            metric, the maximum; or a dict with some of "min", "max" and "gain", the improvement over the baseline that
            it must exceed, such as {"rmse": {"max": 1.3}}. With several tasks, names are "<task>.<metric>".
        change_thresholds: how much better than the latest blessed model a model must at least be, by metric; below 0:
            how much worse it may be, such as {"accuracy": -0.005}. Also for error metrics, above 0 is better. Unless
            the main metric is among them, its bound is 0.
        slices: features by which metrics are also broken down: "context/<feature>",
            "nodes/<set>.<feature>" for the seed's own value (for a link, its source's), "nodes/<set>.#size" or
            "edges/<set>.#size". Values must be strings or integers, or have `slice_edges`. "degree/<edge set>" is the
            number of the seed's edges in its subgraph: 0, 1, 2-3, 4-7 and so on. "nodes/_readout.<label>" is the class.
            "seen_in_training" says whether the seed occurs in a subgraph of `baseline_split`, as a seed or not; for a
            link, whether its ends do.
        slice_edges: numbers between slices, for numeric features and degrees among `slices`, such as
            {"nodes/user.age": [20, 40, 60]} for four slices. Floats need them, or `slice_quantiles`.
        slice_quantiles: numbers of slices of equal size, at most 100, for numeric features and degrees among `slices`,
            such as {"nodes/user.age": 4} for quartiles. The slices are "q1" with the smallest values, "q2" and so on;
            the report has their ranges.
        num_slices: how many of the largest and of the smallest slices of each feature are
            reported, at least 1. Thresholds apply to all slices.
        slice_thresholds: bounds that every slice must meet, in the form of `thresholds`.
        slice_change_thresholds: bounds that every slice must meet, in the form of `change_thresholds`.
        min_slice_examples: labelled examples that a slice must have for thresholds to apply, at least 1.
        max_slice_intervals: widest interval, by metric, on which the bounds on slices decide, such as
            {"accuracy": 0.1}: slices with a wider one have too few examples, and a warning counts them. For
            `slice_change_thresholds`, it is the interval of the change. Needs `baseline_confidence`.
        trees_baseline: "auto": gradient-boosted trees are grown on the seeds' own columns in `baseline_split`, and the
            report says how much better the model, which also sees the graph, is in the evaluated split; of at most
            100,000 examples each, drawn by hash. Trees need intervals, a task about single nodes or edges, and at
            least 100 labelled training examples; otherwise the report says why there are none. "none": no trees.
        trees_thresholds: how much better than trees a model must at least be, by metric, in the form of
            `change_thresholds`. A model that has no trees beside it misses every bound.
        known_links: for link prediction, path of a table with the true links of all splits, with columns "source" and
            "target". Negatives found in this table are excluded from rankings, which are then "filtered", and from
            areas under curves; they are counted. The ids are compared as text, so the model must return ids. A
            pipeline's cache sees only the path: write changed links to a new path.
        known_link_features: further columns of that table, also features of `_readout` in the examples, that
            distinguish links between the same nodes, such as the relation.
    """

    label_feature: str = ""
    task: Task | None = None
    split: str = "test"
    baseline_split: str = "train"
    main_metric: str = ""
    min_accuracy_over_majority: float = 0.0
    min_accuracy: float = 0.0
    min_macro_f1: float = 0.0
    baseline_confidence: float = 0.95
    bootstrap_replicas: int = 1000
    max_examples_without_label: int = 0
    thresholds: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    change_thresholds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    slices: tuple[str, ...] = ()
    slice_edges: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    slice_quantiles: Mapping[str, int] = dataclasses.field(default_factory=dict)
    num_slices: int = 10
    slice_thresholds: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    slice_change_thresholds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    min_slice_examples: int = 1
    max_slice_intervals: Mapping[str, float] = dataclasses.field(default_factory=dict)
    trees_baseline: str = choice_option(AUTO, (AUTO, "none"))
    trees_thresholds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    known_links: str = ""
    known_link_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choices(self)
        if bool(self.label_feature) == (self.task is not None):
            raise ValueError(
                "`label_feature` must not be empty unless `task` is given, and not both; got "
                f"label_feature={self.label_feature!r}, task={self.task!r}. Name a feature of the examples, or give "
                "the task."
            )
        self._check_numbers()
        for name in ("split", "baseline_split"):
            if not getattr(self, name):
                raise ValueError(f"`{name}` must not be empty; got ''. Name a split of the examples.")
        object.__setattr__(self, "known_link_features", tuple(self.known_link_features))
        if self.known_link_features and not self.known_links:
            raise ValueError(
                f"`known_link_features` must be columns of `known_links`; got {self.known_link_features} without a "
                "table. Name it."
            )
        if self.max_slice_intervals and not self.baseline_confidence:
            raise ValueError(
                f"`max_slice_intervals` must be empty without intervals; got {dict(self.max_slice_intervals)!r} with "
                "baseline_confidence=0. Give a confidence, such as 0.95."
            )
        if self.trees_thresholds and (self.trees_baseline != AUTO or not self.baseline_confidence):
            raise ValueError(
                f"`trees_thresholds` must be empty without trees; got {dict(self.trees_thresholds)!r} with "
                f"trees_baseline={self.trees_baseline!r}, baseline_confidence={self.baseline_confidence:g}. Let trees "
                "be 'auto', and give a confidence, such as 0.95."
            )
        bounds = (
            self.thresholds,
            self.trees_thresholds,
            self.slice_thresholds,
            self.change_thresholds,
            self.slice_change_thresholds,
            self.max_slice_intervals,
        )
        if (
            self.slices
            or self.slice_edges
            or self.slice_quantiles
            or self.known_links
            or self.main_metric
            or any(bounds)
            or self._accuracy_bounds
        ):
            self._check_against_measures()

    def _check_numbers(self) -> None:
        for name in _ACCURACY_BOUNDS:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"`{name}` must lie in [0, 1]; got {getattr(self, name)}. Give a fraction.")
        if self.baseline_confidence and not 0.5 <= self.baseline_confidence <= 0.999:
            raise ValueError(
                f"`baseline_confidence` must be 0 or lie in [0.5, 0.999]; got {self.baseline_confidence}. "
                "The usual one is 0.95."
            )
        if not 200 <= self.bootstrap_replicas <= 10_000:
            raise ValueError(
                f"`bootstrap_replicas` must lie in [200, 10000]; got {self.bootstrap_replicas}. The default is 1000."
            )
        for name, least in (("max_examples_without_label", 0), ("num_slices", 1), ("min_slice_examples", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be at least {least}; got {getattr(self, name)}. Give a count.")

    @property
    def _accuracy_bounds(self) -> list[str]:
        return [name for name in _ACCURACY_BOUNDS if getattr(self, name)]

    def _check_against_measures(self) -> None:
        # Measures are slow to import: they bring TensorFlow.
        from tfx_gnn.components.graph_evaluator.classification import ClassificationMeasure
        from tfx_gnn.components.graph_evaluator.ranking import RankingMeasure
        from tfx_gnn.components.graph_evaluator.slices import (
            SEEN_IN_TRAINING,
            check_slice_edges,
            check_slice_keys,
            check_slice_quantiles,
        )
        from tfx_gnn.components.graph_evaluator.task_measures import task_measures
        from tfx_gnn.components.graph_evaluator.thresholds import (
            normalize_change_thresholds,
            normalize_interval_limits,
            normalize_thresholds,
        )

        main_metrics = [
            full_metric_name(task, metric)
            for task, measure in task_measures(self).items()
            for metric in measure.main_metrics
        ]
        if self.main_metric and self.main_metric not in main_metrics:
            raise ValueError(
                f"`main_metric` must be one of {main_metrics} for this task; got {self.main_metric!r}. "
                f"{did_you_mean(self.main_metric, main_metrics, otherwise='Bound other metrics by `thresholds`.')}"
            )
        check_slice_keys(self.slices)
        object.__setattr__(self, "slice_edges", check_slice_edges(self.slice_edges, self.slices))
        quantiles = check_slice_quantiles(self.slice_quantiles, self.slices, self.slice_edges)
        object.__setattr__(self, "slice_quantiles", quantiles)
        measures = task_measures(self)
        if SEEN_IN_TRAINING in self.slices and any(measure.compares_examples for measure in measures.values()):
            raise ValueError(
                f"`slices` must not name {SEEN_IN_TRAINING!r} where each pair has an example of its own; got "
                f"{list(self.slices)}: a true pair and the false ones that it is ranked among would be in different "
                "slices. Leave it out."
            )
        if not any(isinstance(measure, ClassificationMeasure) for measure in measures.values()):
            for name in self._accuracy_bounds:
                raise ValueError(
                    f"`{name}` must be 0 where nothing is classified; got {getattr(self, name)}. Bound the metrics of "
                    "the task by `thresholds`."
                )
        names = [full_metric_name(task, metric) for task, measure in measures.items() for metric in measure.metrics]
        for option in ("thresholds", "slice_thresholds"):
            object.__setattr__(self, option, normalize_thresholds(option, getattr(self, option), names))
        for option in ("change_thresholds", "slice_change_thresholds", "trees_thresholds"):
            object.__setattr__(self, option, normalize_change_thresholds(option, getattr(self, option), names))
        limits = normalize_interval_limits(self.max_slice_intervals, names)
        object.__setattr__(self, "max_slice_intervals", limits)
        if self.known_links and not any(isinstance(measure, RankingMeasure) for measure in measures.values()):
            raise ValueError(
                f"`known_links` must be empty where no links are predicted; got {self.known_links!r}. Leave it out."
            )
