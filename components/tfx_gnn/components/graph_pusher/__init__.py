"""The GraphPusher component: its contract and its executor."""

from tfx_gnn.components.graph_pusher.component import GraphPusher

__all__ = ["GraphPusher"]
