"""The GraphTrainer component: its contract and its executor."""

from tfx_gnn.components.graph_trainer.component import GraphTrainer

__all__ = ["GraphTrainer"]
