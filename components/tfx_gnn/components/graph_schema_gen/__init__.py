"""The GraphSchemaGen component: its contract and its executor."""

from tfx_gnn.components.graph_schema_gen.component import GraphSchemaGen

__all__ = ["GraphSchemaGen"]
