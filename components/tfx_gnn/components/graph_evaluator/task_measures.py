"""How each task of a model is measured."""

from __future__ import annotations

import dataclasses

from tfx_gnn.components.graph_evaluator.classification import ClassificationMeasure
from tfx_gnn.components.graph_evaluator.measures import SINGLE_TASK, Measure
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.ranking import RankingMeasure
from tfx_gnn.components.graph_evaluator.regression import RegressionMeasure
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.models.tasks import (
    GraphClassification,
    GraphRegression,
    LinkPrediction,
    MultiTask,
    NodeClassification,
    NodeRegression,
    Task,
)


def task_measures(options: GraphEvaluatorOptions) -> dict[str, Measure]:
    """Returns how each task is measured, by task name, which is "" for a single task."""
    measures: dict[str, Measure]
    if options.task is None:
        measures = {SINGLE_TASK: ClassificationMeasure(label_key=_readout_key(options.label_feature))}
    elif isinstance(options.task, MultiTask):
        measures = {name: _measure(part, f"{name}/") for name, part in sorted(options.task.tasks.items())}
    else:
        measures = {SINGLE_TASK: _measure(options.task, "")}
    task, _, metric = options.main_metric.rpartition(".")
    if metric and task in measures:
        measures[task] = dataclasses.replace(measures[task], main_metric=metric)  # type: ignore[type-var]
    return measures


def _measure(task: Task, output_prefix: str) -> Measure:
    if isinstance(task, NodeClassification):
        return ClassificationMeasure(label_key=_readout_key(task.label_feature), output_prefix=output_prefix)
    if isinstance(task, GraphClassification):
        return ClassificationMeasure(label_key=f"context/{task.label_feature}", output_prefix=output_prefix)
    if isinstance(task, (NodeRegression, GraphRegression)):
        is_of_node = isinstance(task, NodeRegression)
        key = _readout_key(task.label_feature) if is_of_node else f"context/{task.label_feature}"
        return RegressionMeasure(
            label_key=key,
            num_targets=task.num_outputs,
            missing_values=task.missing_values,
            output_prefix=output_prefix,
        )
    if isinstance(task, LinkPrediction):
        key = _readout_key(task.label_feature)
        return RankingMeasure(
            label_key=key,
            hits_at=task.hits_at,
            output_prefix=output_prefix,
            compares_examples=task.scoring == "seal",
        )
    raise TypeError(f"`task` must be a task of this library; got {type(task)}. See `tfx_gnn.models.tasks`.")


def _readout_key(feature: str) -> str:
    return f"nodes/{READOUT_NODE_SET}.{feature}"
