"""What the graph adds: a model compared with trees that see the seeds' own columns alone, on the same examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfx_gnn.components.graph_evaluator.boosted_trees import BoostedTrees, find_reason_against_trees
from tfx_gnn.components.graph_evaluator.bootstrap_sample import BootstrapSample
from tfx_gnn.components.graph_evaluator.change_report import improvement
from tfx_gnn.components.graph_evaluator.classification import UNLABELLED, ClassificationMeasure
from tfx_gnn.components.graph_evaluator.column_sample import EVALUATED, TRAINING
from tfx_gnn.components.graph_evaluator.intervals import MeasuredMetrics, bootstrap_intervals
from tfx_gnn.components.graph_evaluator.measures import EvaluationSums, Measure
from tfx_gnn.components.graph_evaluator.options import AUTO, GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.regression import RegressionMeasure
from tfx_gnn.components.graph_evaluator.seed_columns import SeedColumns, find_seed_columns
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.records.metric_names import ERRORS, ROC_AUC, shown_metric

_ALL = ("", "")
_MOST_RESAMPLED = 20_000
"""Rows that intervals are computed from; more make them hardly more exact, but as much slower."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreesPlan:
    """Which tasks are compared with trees.

    Attributes:
        columns: what trees see; None if there is nothing.
        reasons: by task, why it has no trees, in words; empty where it can have some.
        has_edges: whether examples have edges between nodes, which trees do not see.
    """

    columns: SeedColumns | None
    reasons: Mapping[str, str]
    has_edges: bool

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks that can have trees."""
        return tuple(task for task, reason in self.reasons.items() if not reason)


def plan_trees(
    measures: Mapping[str, Measure], schema: GraphSchema | None, options: GraphEvaluatorOptions
) -> TreesPlan | None:
    """Finds out which tasks can be compared with trees; None if that is not asked for.

    Args:
        measures: how each task is measured.
        schema: graph schema of the examples, if they have one.
        options: whether trees are asked for, and with intervals.
    """
    if options.trees_baseline != AUTO:
        return None
    columns = find_seed_columns(schema) if schema is not None else None

    def reason(measure: Measure) -> str:
        if not isinstance(measure, (ClassificationMeasure, RegressionMeasure)):
            return "trees see the columns of one seed, and the task is about pairs"
        if not measure.label_key.startswith(f"{const.NODES}/"):
            return "trees see the columns of one seed, and the task is about graphs"
        if columns is None:
            return "the examples have no graph schema that says what their one seed is"
        if not columns.names:
            return f"{columns.set_name!r} has no columns of its own"
        return "" if options.baseline_confidence else "trees are compared by intervals, and `baseline_confidence` is 0"

    edge_sets = schema.edge_sets.values() if schema is not None else ()
    return TreesPlan(
        columns=columns,
        reasons={task: reason(measure) for task, measure in measures.items()},
        has_edges=any(edge_set.target != READOUT_NODE_SET for edge_set in edge_sets),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreesComparison:
    """A model beside gradient-boosted trees.

    Attributes:
        reason: why there are no trees, in words; all else is then empty.
        columns: what the trees see.
        left_out: columns that they do not, because values differ in number.
        num_training_rows: rows that the trees were grown on.
        num_examples: evaluated examples that both answered.
        model: the model's metrics on these.
        trees: those of the trees.
        intervals: intervals of the model's value minus that of the trees, by metric.
        metric: metric of the sentence.
        gain: how much better the model is in it; below 0 if it is worse.
        lower: lower end of the interval of `gain`; None if there is none.
        upper: its upper end.
        confidence: how often such intervals contain the true difference.
        meaning: all of this in a sentence.
    """

    reason: str = ""
    columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    num_training_rows: int = 0
    num_examples: int = 0
    model: Mapping[str, float] = dataclasses.field(default_factory=dict)
    trees: Mapping[str, float] = dataclasses.field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    metric: str = ""
    gain: float = 0.0
    lower: float | None = None
    upper: float | None = None
    confidence: float = 0.0
    meaning: str = ""

    @property
    def beats_trees(self) -> bool:
        """Whether the model is better than trees beyond chance."""
        return self.gain > 0.0 and self.lower is not None and self.lower > 0.0

    def report(self) -> dict[str, Any]:
        """Returns the contents of `trees_baseline` in `metrics.json`."""
        if self.reason:
            return {"reason": self.reason}
        plain = dataclasses.asdict(self)
        del plain["reason"]
        plain["intervals"] = {name: {"lower": lower, "upper": upper} for name, (lower, upper) in self.intervals.items()}
        return {**plain, "beats_trees": self.beats_trees}


def compare_with_trees(
    plan: TreesPlan, task: str, measure: Measure, sums: EvaluationSums, options: GraphEvaluatorOptions
) -> TreesComparison:
    """Grows trees on the sampled training rows, and compares the model with them on the sampled evaluated ones."""
    columns, sample = plan.columns, sums.samples.get(task)
    if plan.reasons[task] or columns is None:
        return TreesComparison(reason=plan.reasons[task])
    training, evaluated = sums.columns[TRAINING], sums.columns[EVALUATED]
    truth = training.labels[task]
    is_labelled = truth != UNLABELLED if truth.dtype == object else np.isfinite(truth).any(axis=1)
    rows = training.rows(np.flatnonzero(is_labelled))
    reason = find_reason_against_trees(rows.labels[task])
    if not reason and (sample is None or not len(sample.hashes)):
        reason = "no example has a label"
    if reason or sample is None:
        return TreesComparison(reason=reason)
    trees = BoostedTrees(rows.values, rows.labels[task], columns.is_text)
    # Both samples have all rows below their limits.
    limit = min(sample.limit, evaluated.limit)
    compared = sample.rows(np.arange(sum(one < limit for one in sample.hashes.tolist())))
    asked = evaluated.rows(np.searchsorted(evaluated.hashes, compared.hashes))
    answers = measure.answers(asked.labels[task], trees.answer(asked.values, measure.output_prefix))
    compared = dataclasses.replace(compared, limit=limit, blessed=answers.values)
    measured = MeasuredMetrics(
        model=_metrics(measure, compared.model, compared.lengths),
        blessed=_metrics(measure, compared.blessed, compared.lengths),
    )
    metric = ROC_AUC if ROC_AUC in measured.model.keys() & measured.blessed.keys() else measure.main_metrics[0]
    intervals = bootstrap_intervals(
        _resampled(compared),
        {_ALL: measured},
        measure.weighted_metrics,
        num_replicas=options.bootstrap_replicas,
        confidence=options.baseline_confidence,
    )
    changes = intervals[_ALL].changes if _ALL in intervals else {}
    ends = changes.get(metric)
    gains = sorted(improvement(metric, end, 0.0) for end in ends) if ends is not None else []
    lower, upper = gains or (None, None)
    of_model, of_trees = measured.model[metric], measured.blessed[metric]
    gain = improvement(metric, of_model, of_trees)
    return TreesComparison(
        columns=columns.names,
        left_out=columns.left_out,
        num_training_rows=trees.num_rows,
        num_examples=len(compared.hashes),
        model=measured.model,
        trees=measured.blessed,
        intervals=changes,
        metric=metric,
        gain=gain,
        lower=lower,
        upper=upper,
        confidence=options.baseline_confidence,
        meaning=_meaning(columns.set_name, metric, (of_trees, of_model, gain), gains),
    )


def _resampled(compared: BootstrapSample) -> BootstrapSample:
    """Takes as many rows as are resampled, of which `share` says how many of the compared ones they are."""
    rows, limit = np.arange(len(compared.hashes)), compared.limit
    if len(rows) > _MOST_RESAMPLED:
        limit, rows = int(compared.hashes[_MOST_RESAMPLED]), rows[:_MOST_RESAMPLED]
    return dataclasses.replace(compared.rows(rows), limit=(limit << 64) // compared.limit)


def _meaning(set_name: str, metric: str, values: tuple[float, float, float], ends: Sequence[float]) -> str:
    form = ".4g" if metric in ERRORS else ".3f"
    of_trees, of_model, gain = values
    shown = ", ".join(f"{end:+{form}}" for end in ends)
    interval = f" [{shown}]" if shown else " (too few examples for an interval)"
    return (
        f"trees on {set_name!r} alone reach {shown_metric(metric)} {of_trees:{form}}; the network "
        f"{of_model:{form}}: a gain of {gain:+{form}}{interval}"
    )


def _metrics(measure: Measure, values: Mapping[str, Any], lengths: Any) -> dict[str, float]:
    found = measure.weighted_metrics(values, lengths)(np.ones([len(lengths), 1]))
    return {name: float(value) for name, (value,) in found.items() if np.isfinite(value)}
