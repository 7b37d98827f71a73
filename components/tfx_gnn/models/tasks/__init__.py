"""Prediction tasks."""

from tfx_gnn.models.tasks.classification import GraphClassification, NodeClassification
from tfx_gnn.models.tasks.link_prediction import LinkPrediction
from tfx_gnn.models.tasks.multi_task import MultiTask
from tfx_gnn.models.tasks.objective import Objective
from tfx_gnn.models.tasks.regression import GraphRegression, NodeRegression
from tfx_gnn.models.tasks.task import READOUT_NODE_SET, LabelSummary, Task
from tfx_gnn.models.tasks.task_kinds import TASK_KINDS

__all__ = [
    "READOUT_NODE_SET",
    "TASK_KINDS",
    "GraphClassification",
    "GraphRegression",
    "LabelSummary",
    "LinkPrediction",
    "MultiTask",
    "NodeClassification",
    "NodeRegression",
    "Objective",
    "Task",
]
