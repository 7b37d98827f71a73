"""Layers that score pairs of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.embedding_tables import DenseEmbedding
from tfx_gnn.keras.weight_index import FIXED


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class StateProjection(tf_keras.layers.Layer):
    """A linear map of states to vectors of the same width, without bias.

    States after ReLU are never negative, so their inner products are not negative either. A projection for each end
    makes negative scores possible, and lets source and target have different roles in a link.

    Shapes: float [n, units] in and out.
    """

    def build(self, input_shape: Any) -> None:
        """Makes the kernel."""
        units = int(tf.TensorShape(input_shape)[-1])
        self._kernel = self.add_weight("kernel", (units, units), initializer="glorot_uniform")
        super().build(input_shape)

    def call(self, states: tf.Tensor) -> tf.Tensor:
        """Maps states; see the class for shapes."""
        return tf.linalg.matmul(states, self._kernel)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class DotScore(tf_keras.layers.Layer):
    """Scores a pair of nodes by the inner product of their states.

    Shapes: (source, target), each float [n, units]; out [n].

    Args:
        use_bias: whether one trained bias, which reflects how rare links are, is added to all scores. Rankings do not
            need it.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Example:
        >>> source, target = tf.constant([[1.0, 2.0], [0.0, 1.0]]), tf.constant([[3.0, 4.0], [5.0, -6.0]])
        >>> DotScore()((source, target)).numpy().tolist()
        [11.0, -6.0]
        >>> score = DotScore(use_bias=True)
        >>> score((source, target)).shape.as_list(), len(score.trainable_weights)
        ([2], 1)
    """

    def __init__(self, *, use_bias: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._use_bias = use_bias

    def build(self, input_shape: Any) -> None:
        """Makes the bias."""
        self._bias = self.add_weight("bias", (), initializer="zeros") if self._use_bias else 0.0
        super().build(input_shape)

    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Scores pairs; see the class for shapes."""
        source, target = inputs
        _check_alike(source, target)
        return tf.reduce_sum(source * target, axis=-1) + self._bias

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "use_bias": self._use_bias}


class _CombinedScore(tf_keras.layers.Layer):
    """Scores a pair by a network over an elementwise combination of its states."""

    def __init__(self, hidden_units: Sequence[int] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._hidden_units = tuple(hidden_units)
        policy = self.dtype_policy
        self._hidden = [tf_keras.layers.Dense(units, activation="relu", dtype=policy) for units in self._hidden_units]
        self._score = tf_keras.layers.Dense(1, dtype=policy)

    def _combined(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError

    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Scores pairs; see the class for shapes."""
        source, target = inputs
        _check_alike(source, target)
        value = self._combined(source, target)
        for layer in self._hidden:
            value = layer(value)
        return tf.squeeze(self._score(value), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "hidden_units": self._hidden_units}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class HadamardScore(_CombinedScore):
    """Scores a pair of nodes by a network over the elementwise product of their states.

    Shapes: (source, target), each float [n, units]; out [n].

    Args:
        hidden_units: widths of the ReLU layers between product and score; if empty, the score is a weighted sum plus
            a bias.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Example:
        >>> source, target = tf.ones([2, 4]), tf.ones([2, 4])
        >>> score = HadamardScore([8])
        >>> score((source, target)).shape.as_list()
        [2]
        >>> [weight.shape.as_list() for weight in score.trainable_weights]
        [[4, 8], [8], [8, 1], [1]]
    """

    def _combined(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        return source * target


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class DifferenceScore(_CombinedScore):
    """Scores a pair by a network over the elementwise absolute difference of its states, 0 for equal ones.

    Shapes: (source, target), each float [n, units]; out [n].

    Args:
        hidden_units: as for `HadamardScore`.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Example:
        >>> score = DifferenceScore()
        >>> score((tf.ones([2, 4]), tf.ones([2, 4]))).numpy().tolist()
        [0.0, 0.0]
    """

    def _combined(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        return tf.abs(source - target)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class SubgraphScore(tf_keras.layers.Layer):
    """Scores a pair by a network over one vector, that of the subgraph around it.

    Shapes: float [n, units]; out [n].

    Args:
        hidden_units: widths of the ReLU layers between vector and score; if empty, the score is a weighted sum plus a
            bias.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Example:
        >>> score = SubgraphScore([8])
        >>> score(tf.ones([2, 4])).shape.as_list()
        [2]
    """

    def __init__(self, hidden_units: Sequence[int] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._hidden_units = tuple(hidden_units)
        policy = self.dtype_policy
        self._hidden = [tf_keras.layers.Dense(units, activation="relu", dtype=policy) for units in self._hidden_units]
        self._score = tf_keras.layers.Dense(1, dtype=policy)

    def call(self, vectors: tf.Tensor) -> tf.Tensor:
        """Scores vectors; see the class for shapes."""
        for layer in self._hidden:
            vectors = layer(vectors)
        return tf.squeeze(self._score(vectors), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "hidden_units": self._hidden_units}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class DistMultScore(tf_keras.layers.Layer):
    """Scores a pair by the inner product of its states, weighted by a trained vector of the relation.

    This is DistMult, arXiv:1412.6575.

    Shapes: (source, target), each float [n, units]; with several relations also the relation numbers, integers [n]
    in [0, num_relations). Out [n].

    Args:
        num_relations: number of relations, at least 1.
        use_bias: as for `DotScore`; one bias for all relations.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Example:
        >>> source, target, relation = tf.ones([2, 4]), tf.ones([2, 4]), tf.constant([0, 2])
        >>> score = DistMultScore(num_relations=3)
        >>> score((source, target, relation)).shape.as_list()
        [2]
        >>> [weight.shape.as_list() for weight in score.trainable_weights]
        [[3, 4]]
    """

    def __init__(self, num_relations: int = 1, *, use_bias: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._use_bias = use_bias
        if num_relations < 1:
            raise ValueError(f"`num_relations` must be at least 1; got {num_relations}. Count the relations.")
        self._num_relations = num_relations

    def build(self, input_shape: Any) -> None:
        """Makes the vectors of the relations."""
        units = int(tf.TensorShape(input_shape[0])[-1])
        # Around 1, the score starts as the plain inner product. Around 0, a product of three factors hardly learns.
        initializer = tf_keras.initializers.RandomUniform(0.5, 1.5)
        self._relations = DenseEmbedding(
            self._num_relations,
            units,
            embeddings_initializer=initializer,
            vocabulary=FIXED,
            dtype=self.dtype_policy,
            name="relations",
        )
        self._bias = self.add_weight("bias", (), initializer="zeros") if self._use_bias else 0.0
        super().build(input_shape)

    def call(self, inputs: Sequence[tf.Tensor], training: bool | None = None) -> tf.Tensor:  # noqa: FBT001 - Keras' form.
        """Scores pairs; see the class for shapes."""
        source, target, *relation = inputs
        _check_alike(source, target)
        vectors = self._relations(relation[0] if relation else tf.zeros([1], tf.int64), training=training)
        return tf.reduce_sum(source * vectors * target, axis=-1) + self._bias

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "num_relations": self._num_relations, "use_bias": self._use_bias}


def _check_alike(source: tf.Tensor, target: tf.Tensor) -> None:
    if not source.shape.is_compatible_with(target.shape):
        raise ValueError(
            f"`source` and `target` must have states of one width; got shapes {source.shape} and {target.shape}. "
            "Let the network end with as many units for both node sets."
        )
