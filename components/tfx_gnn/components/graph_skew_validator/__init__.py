"""The GraphSkewValidator component: its contract and its executor."""

from tfx_gnn.components.graph_skew_validator.component import GraphSkewValidator

__all__ = ["GraphSkewValidator"]
