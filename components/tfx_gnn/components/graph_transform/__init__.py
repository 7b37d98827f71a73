"""The GraphTransform component: its contract and its executor."""

from tfx_gnn.components.graph_transform.component import GraphTransform

__all__ = ["GraphTransform"]
