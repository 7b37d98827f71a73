"""The GraphExampleValidator component: its contract and its executor."""

from tfx_gnn.components.graph_example_validator.component import GraphExampleValidator

__all__ = ["GraphExampleValidator"]
