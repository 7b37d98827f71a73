"""Encodes raw features as initial hidden states: numbers, embeddings, hashed and multi-valued categories.

`FeatureEncoder` encodes all features of a graph. The columns and `FeatureHandler` have the same names and
arguments as in GraphLearn.
"""

from tfx_gnn.keras.feature_encoders.category_values import hash_to_buckets, pad_values, split_values
from tfx_gnn.keras.feature_encoders.embedding_columns import (
    DynamicEmbeddingColumn,
    DynamicSparseEmbeddingColumn,
    EmbeddingColumn,
    FusedEmbeddingColumn,
    SparseEmbeddingColumn,
)
from tfx_gnn.keras.feature_encoders.embedding_tables import DenseEmbedding, EmbeddingTables
from tfx_gnn.keras.feature_encoders.encoder_options import EmbeddingOptions, FeatureEncoderOptions
from tfx_gnn.keras.feature_encoders.feature_column import (
    FeatureColumn,
    FeatureGroup,
    NumericColumn,
    PartitionableColumn,
)
from tfx_gnn.keras.feature_encoders.feature_encoder import FeatureEncoder, LearnedState
from tfx_gnn.keras.feature_encoders.feature_handler import FeatureHandler, FeatureHandlers
from tfx_gnn.keras.feature_encoders.prepare_features import PrepareFeatures

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
