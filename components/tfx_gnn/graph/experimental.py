"""Names that TF-GNN keeps under `experimental`."""

from tfx_gnn.graph.first_node_readout import context_readout_into_feature
from tfx_gnn.graph.segment_shuffle import segment_random_index_shuffle

__all__ = ["context_readout_into_feature", "segment_random_index_shuffle"]
