"""Prediction tasks."""

from tfx_gnn.models.tasks.label_tasks import GraphClassification, GraphRegression, NodeClassification, NodeRegression
from tfx_gnn.models.tasks.pair_tasks import GraphMatching, LinkPrediction
from tfx_gnn.models.tasks.task import LabelSummary, Objective, Task
from tfx_gnn.models.tasks.task_kinds import TASK_KINDS, MultiTask

__all__ = [
    "TASK_KINDS",
    "GraphClassification",
    "GraphMatching",
    "GraphRegression",
    "LabelSummary",
    "LinkPrediction",
    "MultiTask",
    "NodeClassification",
    "NodeRegression",
    "Objective",
    "Task",
]
