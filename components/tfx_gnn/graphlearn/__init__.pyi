from tfx_gnn.graphlearn.attribute_decoder import Attribute as Attribute
from tfx_gnn.graphlearn.attribute_decoder import DecodedEdges as DecodedEdges
from tfx_gnn.graphlearn.attribute_decoder import DecodedNodes as DecodedNodes
from tfx_gnn.graphlearn.attribute_decoder import Decoder as Decoder
from tfx_gnn.graphlearn.attribute_decoder import decoded_schema as decoded_schema
from tfx_gnn.graphlearn.data.batch_graph import BatchGraph as BatchGraph
from tfx_gnn.graphlearn.data.data import Data as Data
from tfx_gnn.graphlearn.data.dataset import Dataset as Dataset
from tfx_gnn.graphlearn.data.ego_graph import EgoGraph as EgoGraph
from tfx_gnn.graphlearn.data.hetero_batch_graph import HeteroBatchGraph as HeteroBatchGraph
from tfx_gnn.graphlearn.data.inducers import EdgeCNInducer as EdgeCNInducer
from tfx_gnn.graphlearn.data.inducers import EdgeInducer as EdgeInducer
from tfx_gnn.graphlearn.data.inducers import HeteroEdgeInducer as HeteroEdgeInducer
from tfx_gnn.graphlearn.data.inducers import SubGraphInducer as SubGraphInducer
from tfx_gnn.graphlearn.data.inducers import SubGraphProcessor as SubGraphProcessor
from tfx_gnn.graphlearn.data.sub_graph import HeteroSubGraph as HeteroSubGraph
from tfx_gnn.graphlearn.data.sub_graph import SubGraph as SubGraph
from tfx_gnn.graphlearn.embedding_losses import sigmoid_cross_entropy_loss as sigmoid_cross_entropy_loss
from tfx_gnn.graphlearn.embedding_losses import triplet_margin_loss as triplet_margin_loss
from tfx_gnn.graphlearn.embedding_losses import triplet_softplus_loss as triplet_softplus_loss
from tfx_gnn.graphlearn.embedding_losses import (
    unsupervised_softmax_cross_entropy_loss as unsupervised_softmax_cross_entropy_loss,
)
from tfx_gnn.graphlearn.feature_spec import DenseSpec as DenseSpec
from tfx_gnn.graphlearn.feature_spec import DynamicMultivalSpec as DynamicMultivalSpec
from tfx_gnn.graphlearn.feature_spec import DynamicSparseSpec as DynamicSparseSpec
from tfx_gnn.graphlearn.feature_spec import EncodingError as EncodingError
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
from tfx_gnn.keras.feature_encoders.embedding_columns import DynamicEmbeddingColumn as DynamicEmbeddingColumn
from tfx_gnn.keras.feature_encoders.embedding_columns import (
    DynamicSparseEmbeddingColumn as DynamicSparseEmbeddingColumn,
)
from tfx_gnn.keras.feature_encoders.embedding_columns import EmbeddingColumn as EmbeddingColumn
from tfx_gnn.keras.feature_encoders.embedding_columns import FusedEmbeddingColumn as FusedEmbeddingColumn
from tfx_gnn.keras.feature_encoders.embedding_columns import SparseEmbeddingColumn as SparseEmbeddingColumn
from tfx_gnn.keras.feature_encoders.feature_column import FeatureColumn as FeatureColumn
from tfx_gnn.keras.feature_encoders.feature_column import FeatureGroup as FeatureGroup
from tfx_gnn.keras.feature_encoders.feature_column import NumericColumn as NumericColumn
from tfx_gnn.keras.feature_encoders.feature_column import PartitionableColumn as PartitionableColumn
from tfx_gnn.keras.feature_encoders.feature_handler import FeatureHandler as FeatureHandler
from tfx_gnn.keras.feature_encoders.feature_handler import FeatureHandlers as FeatureHandlers
