"""Prediction tasks."""

from tfx_gnn.models.tasks.task import LabelSummary, Objective, Task
from tfx_gnn.models.tasks.task_kinds import (
    TASK_KINDS,
    GraphClassification,
    GraphMatching,
    GraphRegression,
    LinkPrediction,
    MultiTask,
    NodeClassification,
    NodeRegression,
)

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
