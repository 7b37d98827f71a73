"""Layers that work on graphs, with TF-GNN's names."""

from tfx_gnn.keras.layers.broadcast_pool import Broadcast, Pool
from tfx_gnn.keras.layers.convolution_base import AnyToAnyConvolutionBase
from tfx_gnn.keras.layers.edge_layers import AddSelfLoops, SortEdges
from tfx_gnn.keras.layers.graph_update import ContextUpdate, EdgeSetUpdate, GraphUpdate, NodeSetUpdate
from tfx_gnn.keras.layers.item_dropout import ItemDropout
from tfx_gnn.keras.layers.layer_normalization import LayerNormalization
from tfx_gnn.keras.layers.map_features import MakeEmptyFeature, MapFeatures
from tfx_gnn.keras.layers.next_state import NextStateFromConcat, ResidualNextState, SingleInputNextState
from tfx_gnn.keras.layers.padding import PadToTotalSizes
from tfx_gnn.keras.layers.parse_example import ParseExample, ParseSingleExample
from tfx_gnn.keras.layers.readout import (
    AddReadoutFromFirstNode,
    Readout,
    ReadoutFirstNode,
    ReadoutNamed,
    ReadoutNamedIntoFeature,
    StructuredReadout,
    StructuredReadoutIntoFeature,
)
from tfx_gnn.keras.layers.simple_conv import SimpleConv

__all__ = [
    "AddReadoutFromFirstNode",
    "AddSelfLoops",
    "AnyToAnyConvolutionBase",
    "Broadcast",
    "ContextUpdate",
    "EdgeSetUpdate",
    "GraphUpdate",
    "ItemDropout",
    "LayerNormalization",
    "MakeEmptyFeature",
    "MapFeatures",
    "NextStateFromConcat",
    "NodeSetUpdate",
    "PadToTotalSizes",
    "ParseExample",
    "ParseSingleExample",
    "Pool",
    "Readout",
    "ReadoutFirstNode",
    "ReadoutNamed",
    "ReadoutNamedIntoFeature",
    "ResidualNextState",
    "SimpleConv",
    "SingleInputNextState",
    "SortEdges",
    "StructuredReadout",
    "StructuredReadoutIntoFeature",
]
