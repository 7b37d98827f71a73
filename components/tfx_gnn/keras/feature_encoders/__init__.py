"""Encodes raw features as initial hidden states: numbers, embeddings, hashed and multi-valued categories.

`FeatureEncoder` encodes all features of a graph. The columns and `FeatureHandler` have the names and
arguments of GraphLearn's.
"""

from tfx_gnn.keras.feature_encoders.category_values import hash_to_buckets, pad_values, split_values
from tfx_gnn.keras.feature_encoders.dense_embedding import DenseEmbedding
from tfx_gnn.keras.feature_encoders.embedding_column import DynamicEmbeddingColumn, EmbeddingColumn
from tfx_gnn.keras.feature_encoders.embedding_tables import EmbeddingTables
from tfx_gnn.keras.feature_encoders.encoder_options import EmbeddingOptions, FeatureEncoderOptions
from tfx_gnn.keras.feature_encoders.feature_column import FeatureColumn, PartitionableColumn
from tfx_gnn.keras.feature_encoders.feature_encoder import FeatureEncoder
from tfx_gnn.keras.feature_encoders.feature_group import FeatureGroup, FeatureHandlers
from tfx_gnn.keras.feature_encoders.feature_handler import FeatureHandler
from tfx_gnn.keras.feature_encoders.fused_embedding_column import FusedEmbeddingColumn
from tfx_gnn.keras.feature_encoders.learned_state import LearnedState
from tfx_gnn.keras.feature_encoders.numeric_column import NumericColumn
from tfx_gnn.keras.feature_encoders.prepare_features import PrepareFeatures
from tfx_gnn.keras.feature_encoders.sparse_embedding_column import DynamicSparseEmbeddingColumn, SparseEmbeddingColumn

__all__ = [
    "DenseEmbedding",
    "DynamicEmbeddingColumn",
    "DynamicSparseEmbeddingColumn",
    "EmbeddingColumn",
    "EmbeddingOptions",
    "EmbeddingTables",
    "FeatureColumn",
    "FeatureEncoder",
    "FeatureEncoderOptions",
    "FeatureGroup",
    "FeatureHandler",
    "FeatureHandlers",
    "FusedEmbeddingColumn",
    "LearnedState",
    "NumericColumn",
    "PartitionableColumn",
    "PrepareFeatures",
    "SparseEmbeddingColumn",
    "hash_to_buckets",
    "pad_values",
    "split_values",
]
