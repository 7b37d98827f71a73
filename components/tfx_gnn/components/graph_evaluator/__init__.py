"""The GraphEvaluator component: its contract and its executor."""

from tfx_gnn.components.graph_evaluator.component import GraphEvaluator

__all__ = ["GraphEvaluator"]
