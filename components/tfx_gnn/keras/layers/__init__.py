"""Layers that work on graphs, with TF-GNN's names."""

from tfx_gnn.keras.layers.broadcast_pool import Broadcast, Pool
from tfx_gnn.keras.layers.convolution_base import AnyToAnyConvolutionBase
from tfx_gnn.keras.layers.empty_feature import MakeEmptyFeature
from tfx_gnn.keras.layers.graph_update import GraphUpdate
from tfx_gnn.keras.layers.item_dropout import ItemDropout
from tfx_gnn.keras.layers.layer_normalization import LayerNormalization
from tfx_gnn.keras.layers.map_features import MapFeatures
from tfx_gnn.keras.layers.next_state import NextStateFromConcat, ResidualNextState, SingleInputNextState
from tfx_gnn.keras.layers.padding import PadToTotalSizes
from tfx_gnn.keras.layers.parse_example import ParseExample, ParseSingleExample
from tfx_gnn.keras.layers.readout import Readout, ReadoutFirstNode
from tfx_gnn.keras.layers.self_loops import AddSelfLoops
from tfx_gnn.keras.layers.set_updates import ContextUpdate, EdgeSetUpdate, NodeSetUpdate
from tfx_gnn.keras.layers.simple_conv import SimpleConv
from tfx_gnn.keras.layers.sort_edges import SortEdges
from tfx_gnn.keras.layers.structured_readout import (
    AddReadoutFromFirstNode,
    ReadoutNamed,
    ReadoutNamedIntoFeature,
    StructuredReadout,
    StructuredReadoutIntoFeature,
)

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
