"""The measures of every built-in task."""

from __future__ import annotations

from tfx_gnn.components.graph_evaluator.evaluation_report import SINGLE_TASK
from tfx_gnn.components.graph_evaluator.measures import (
    ClassificationMeasure,
    Measure,
    RankingMeasure,
    RegressionMeasure,
)
from tfx_gnn.models.tasks import (
    READOUT_NODE_SET,
    GraphClassification,
    GraphRegression,
    LinkPrediction,
    MultiTask,
    NodeClassification,
    NodeRegression,
    Task,
)


def label_measure(label_feature: str) -> Measure:
    """Measures a classification of nodes of which only the label is known."""
    return ClassificationMeasure(label_key=_readout_key(label_feature))


def measures_of(task: Task) -> dict[str, Measure]:
    """Tells how a task is measured, by name: each task of a MultiTask, or one by the name ""."""
    if isinstance(task, MultiTask):
        return {name: _measure(part, f"{name}/") for name, part in sorted(task.tasks.items())}
    return {SINGLE_TASK: _measure(task, "")}


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
        return RankingMeasure(label_key=key, hits_at=task.hits_at, output_prefix=output_prefix)
    raise TypeError(f"`task` must be a task of this library; got {type(task)}. See `tfx_gnn.models.tasks`.")


def _readout_key(feature: str) -> str:
    return f"nodes/{READOUT_NODE_SET}.{feature}"
