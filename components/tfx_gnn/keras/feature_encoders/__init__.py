"""From raw features to the first hidden states: numbers, embeddings, hashed and multi-valued categories."""

from tfx_gnn.keras.feature_encoders.dense_embedding import DenseEmbedding
from tfx_gnn.keras.feature_encoders.embedding_tables import EmbeddingTables
from tfx_gnn.keras.feature_encoders.encoder_options import EmbeddingOptions, FeatureEncoderOptions
from tfx_gnn.keras.feature_encoders.feature_encoder import FeatureEncoder
from tfx_gnn.keras.feature_encoders.prepare_features import PrepareFeatures

__all__ = [
    "DenseEmbedding",
    "EmbeddingOptions",
    "EmbeddingTables",
    "FeatureEncoder",
    "FeatureEncoderOptions",
    "PrepareFeatures",
]
