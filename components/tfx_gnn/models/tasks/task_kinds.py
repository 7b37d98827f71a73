"""All tasks by the names that JSON has for them."""

from __future__ import annotations

from tfx_gnn.io.option_kinds import register_kinds
from tfx_gnn.models.tasks.classification import GraphClassification, NodeClassification
from tfx_gnn.models.tasks.link_prediction import LinkPrediction
from tfx_gnn.models.tasks.multi_task import MultiTask
from tfx_gnn.models.tasks.regression import GraphRegression, NodeRegression
from tfx_gnn.models.tasks.task import Task

TASK_KINDS: dict[str, type[Task]] = {
    "graph_classification": GraphClassification,
    "graph_regression": GraphRegression,
    "link_prediction": LinkPrediction,
    "multi_task": MultiTask,
    "node_classification": NodeClassification,
    "node_regression": NodeRegression,
}
"""Every task by the name that JSON and the command line have for it."""

register_kinds(Task, TASK_KINDS, default="node_classification")
