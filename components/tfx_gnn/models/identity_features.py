"""Hides identity features of seeds, or drops some while training, so that a model cannot memorize nodes."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class HideSeedFeature(tf_keras.layers.Layer):
    """Overwrites a feature of the seed nodes, such as their position in a vocabulary of identities.

    A model that sees the identity of the node to classify learns the
    training labels by memorizing nodes. Neighbours keep their identities.

    Shapes: a scalar graph in, the same graph out.

    Args:
        feature_name: integer feature of the seeds' node set, shape [num_nodes].
        value: value that the seeds get instead.
        key: readout key; the seeds are the sources of edge set `_readout/<key>`.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features={"name": tf.constant([7, 8, 9])})
        >>> graph = tfx_gnn.add_readout_from_first_node(graph, "seed", node_set_name="nodes")
        >>> hidden = HideSeedFeature("name", value=-1)(graph)
        >>> hidden.node_sets["nodes"]["name"].numpy().tolist()
        [-1, 8, 9]
    """

    def __init__(self, feature_name: str, value: int, *, key: str = "seed", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._feature_name = feature_name
        self._value = value
        self._key = key

    def call(self, graph: GraphTensor) -> GraphTensor:
        """Overwrites the feature; see the class."""
        readout = graph.edge_sets[f"{READOUT_NODE_SET}/{self._key}"].adjacency
        name = readout.source_name
        features = graph.node_sets[name].get_features_dict()
        feature = features[self._feature_name]
        num_nodes = feature.shape[0] if feature.shape[0] is not None else tf.size(feature)
        is_seed = tf.math.unsorted_segment_sum(tf.ones_like(readout.source), readout.source, num_nodes) > 0
        features[self._feature_name] = tf.where(is_seed, tf.constant(self._value, feature.dtype), feature)
        return graph.replace_features(node_sets={name: features})

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "feature_name": self._feature_name,
            "value": self._value,
            "key": self._key,
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ForgetIdentity(tf_keras.layers.Layer):
    """Replaces random identities by an "unknown" identity while training.

    A model that is trained with unknown identities learns what they mean, and
    relies less on the known ones.

    Shapes: integer [...] in and out; values change only in training.

    Args:
        rate: fraction of values to replace, in [0, 1).
        unknown: the value that replaces them.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Example:
        >>> forget = ForgetIdentity(0.5, unknown=-1)
        >>> forget(tf.constant([7, 8, 9]), training=False).numpy().tolist()
        [7, 8, 9]
        >>> forgotten = forget(tf.range(1000), training=True) == -1
        >>> 300 < int(tf.math.count_nonzero(forgotten)) < 700
        True
    """

    def __init__(self, rate: float, unknown: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rate = rate
        self._unknown = unknown
        # Dropout handles random seeds and the training phase as Keras does.
        self._dropout = tf_keras.layers.Dropout(rate)

    def call(self, identities: tf.Tensor, training: bool | None = None) -> tf.Tensor:  # noqa: FBT001 - Keras' form.
        """Replaces values; see the class."""
        kept = self._dropout(tf.ones_like(identities, tf.float32), training=training) > 0.0
        return tf.where(kept, identities, tf.constant(self._unknown, identities.dtype))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "rate": self._rate, "unknown": self._unknown}
