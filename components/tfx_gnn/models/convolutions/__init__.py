"""Graph convolutions as Keras layers, for `NodeSetUpdate` and for whole networks."""

from tfx_gnn.models.convolutions.gat_v2_conv import GATv2Conv
from tfx_gnn.models.convolutions.gcn_conv import GCNConv
from tfx_gnn.models.convolutions.gin_conv import GINConv
from tfx_gnn.models.convolutions.hgt_update import HGTGraphUpdate
from tfx_gnn.models.convolutions.mpnn_conv import EdgeMLP, MPNNConv
from tfx_gnn.models.convolutions.rgcn_conv import RGCNConv, RGCNGraphUpdate
from tfx_gnn.models.convolutions.sage_conv import SAGEConv

__all__ = [
    "EdgeMLP",
    "GATv2Conv",
    "GCNConv",
    "GINConv",
    "HGTGraphUpdate",
    "MPNNConv",
    "RGCNConv",
    "RGCNGraphUpdate",
    "SAGEConv",
]
