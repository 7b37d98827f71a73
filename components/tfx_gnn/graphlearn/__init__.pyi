from tfx_gnn.graphlearn.attribute_decoder import Attribute as Attribute
from tfx_gnn.graphlearn.attribute_decoder import Decoder as Decoder
from tfx_gnn.graphlearn.attribute_decoder import EncodingError as EncodingError
from tfx_gnn.graphlearn.attribute_decoder import decoded_schema as decoded_schema
from tfx_gnn.graphlearn.embedding_losses import sigmoid_cross_entropy_loss as sigmoid_cross_entropy_loss
from tfx_gnn.graphlearn.embedding_losses import triplet_margin_loss as triplet_margin_loss
from tfx_gnn.graphlearn.embedding_losses import triplet_softplus_loss as triplet_softplus_loss
from tfx_gnn.graphlearn.embedding_losses import (
    unsupervised_softmax_cross_entropy_loss as unsupervised_softmax_cross_entropy_loss,
)
from tfx_gnn.graphlearn.feature_spec import DenseSpec as DenseSpec
from tfx_gnn.graphlearn.feature_spec import DynamicMultivalSpec as DynamicMultivalSpec
from tfx_gnn.graphlearn.feature_spec import DynamicSparseSpec as DynamicSparseSpec
from tfx_gnn.graphlearn.feature_spec import FeatureSpec as FeatureSpec
from tfx_gnn.graphlearn.feature_spec import MultivalSpec as MultivalSpec
from tfx_gnn.graphlearn.feature_spec import SparseSpec as SparseSpec
from tfx_gnn.graphlearn.graph_source import Graph as Graph
from tfx_gnn.graphlearn.graph_source import Mask as Mask
from tfx_gnn.graphlearn.graph_source import add_reverse_edges as add_reverse_edges
from tfx_gnn.graphlearn.graph_source import mask_nodes as mask_nodes
from tfx_gnn.graphlearn.queries.graph_store import GraphStore as GraphStore
from tfx_gnn.graphlearn.queries.graph_store import NodeFrom as NodeFrom
from tfx_gnn.graphlearn.queries.query import Query as Query
from tfx_gnn.graphlearn.queries.query_step import StrategyError as StrategyError
from tfx_gnn.graphlearn.queries.results import Edges as Edges
from tfx_gnn.graphlearn.queries.results import Nodes as Nodes
from tfx_gnn.graphlearn.queries.results import SparseEdges as SparseEdges
from tfx_gnn.graphlearn.queries.results import SparseNodes as SparseNodes
from tfx_gnn.graphlearn.queries.sampled_subgraphs import SampledSubGraph as SampledSubGraph
from tfx_gnn.graphlearn.queries.sampled_subgraphs import SampledSubGraphs as SampledSubGraphs
from tfx_gnn.graphlearn.queries.steps import EdgeStep as EdgeStep
from tfx_gnn.graphlearn.queries.steps import NodeStep as NodeStep
