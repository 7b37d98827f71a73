"""The embedding table under the name by which models have always imported it."""

from tfx_gnn.keras.feature_encoders.dense_embedding import DenseEmbedding

__all__ = ["DenseEmbedding"]
