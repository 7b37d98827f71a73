"""Messages of the graph schema, with TF-GNN's names, fields and numbers."""

from tfx_gnn.graph.proto.graph_schema_pb2 import (
    BigQuery,
    Context,
    EdgeSet,
    Feature,
    GraphSchema,
    GraphType,
    Metadata,
    NodeSet,
    OriginInfo,
    SetType,
)

__all__ = [
    "BigQuery",
    "Context",
    "EdgeSet",
    "Feature",
    "GraphSchema",
    "GraphType",
    "Metadata",
    "NodeSet",
    "OriginInfo",
    "SetType",
]
