"""The GraphTuner component: its contract and its executor."""

from tfx_gnn.components.graph_tuner.component import GraphTuner

__all__ = ["GraphTuner"]
