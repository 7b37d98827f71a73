"""Keras layers on graphs, and graphs in Keras' functional API.

Importing this package makes `tf_keras.layers.Input(type_spec=graph_spec)` behave like a graph, and lets functions of
`tfx_gnn` take it as an argument.
"""

from tfx_gnn.keras import feature_encoders, keras_tensors, layers
from tfx_gnn.keras import keras_tensors as graph_operation
from tfx_gnn.keras.conv_gnn_builder import ConvGNNBuilder
from tfx_gnn.keras.layer_arguments import clone_initializer

__all__ = ["ConvGNNBuilder", "clone_initializer", "feature_encoders", "graph_operation", "keras_tensors", "layers"]
