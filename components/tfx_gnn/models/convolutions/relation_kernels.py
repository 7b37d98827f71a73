"""Weight matrices of many relations, by basis or block-diagonal decomposition."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.keras.graph_layer import GraphLayer


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class RelationKernels(GraphLayer):
    """Multiplies the input from each relation by the relation's matrix, and sums the products.

    As in R-GCN, arXiv:1703.06103, section 2.2: rare relations would overfit separate full matrices, so each
    matrix can be a combination of a few shared ones (equation 3) or be made of small blocks (equation 4).

    Shapes: float [num_nodes, num_chosen, width] in, float [num_nodes, units] out.

    Init args:
        num_relations: number of relations.
        units: width of the result.
        num_bases: number of matrices that all relations share; None: each relation has its own matrix.
        num_blocks: number of blocks on the diagonal of each matrix, which must divide the input and output
            widths. Cannot be combined with `num_bases`.

    Call args:
        gathered: the inputs that each node received along the chosen relations.
        relations: positions of the chosen relations, in the order of `gathered`.

    Raises:
        ValueError: if a number is below 1, both decompositions are given, or `num_blocks` does not divide a width.
    """

    def __init__(
        self,
        num_relations: int,
        units: int,
        *,
        num_bases: int | None = None,
        num_blocks: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        numbers = (num_relations, units, *(number for number in (num_bases, num_blocks) if number is not None))
        if min(numbers) < 1 or len(numbers) > 3:
            raise ValueError(
                "`num_relations`, `units` and one of `num_bases` and `num_blocks` must be at least 1; got "
                f"{num_relations}, {units}, {num_bases} and {num_blocks}. Choose one decomposition or none."
            )
        if num_blocks is not None and units % num_blocks:
            raise _indivisible("`units`", units, num_blocks)
        self._arguments: dict[str, Any] = {
            "num_relations": num_relations,
            "units": units,
            "num_bases": num_bases,
            "num_blocks": num_blocks,
        }

    def build(self, input_shape: Any) -> None:
        """Makes the weights for the width of the states."""
        width = input_shape[-1]
        names = ("num_relations", "units", "num_bases", "num_blocks")
        num_relations, units, num_bases, num_blocks = (self._arguments[name] for name in names)
        shape: tuple[int, ...] = (num_bases or num_relations, width, units)
        if num_blocks is not None:
            if width % num_blocks:
                raise _indivisible("the states' width", width, num_blocks)
            shape = (num_relations, num_blocks, width // num_blocks, units // num_blocks)
        self._kernels = self.add_weight("kernels", shape, initializer=glorot_matrices(shape))
        if num_bases is not None:
            self._coefficients = self.add_weight(
                "coefficients", (num_relations, num_bases), initializer="glorot_uniform"
            )
        super().build(input_shape)

    def call(self, gathered: tf.Tensor, relations: tuple[int, ...]) -> tf.Tensor:
        """Multiplies and sums; see the class for shapes.

        Args:
            gathered: float, shape [num_nodes, num_chosen, width].
            relations: positions of the chosen relations, each in [0, num_relations).
        """
        if self._arguments["num_bases"] is not None:
            coefficients = tf.cast(_chosen(self._coefficients, relations), gathered.dtype)
            by_basis = tf.einsum("nri,rb->nbi", gathered, coefficients)
            return tf.einsum("nbi,bio->no", by_basis, tf.cast(self._kernels, gathered.dtype))
        kernels = tf.cast(_chosen(self._kernels, relations), gathered.dtype)
        if self._arguments["num_blocks"] is not None:
            kernels = block_diagonal(kernels)
        return tf.einsum("nri,rio->no", gathered, kernels)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self._arguments}


def block_diagonal(blocks: tf.Tensor) -> tf.Tensor:
    """Puts blocks, [..., num_blocks, rows, columns], on the diagonal of matrices.

    One product with such a matrix, although mostly zeros, is faster than many products with small blocks. XLA
    also compiles it in bfloat16 for CPUs, where it fails to multiply blocks.

    Example:
        >>> block_diagonal(tf.constant([[[1.0]], [[2.0]]])).numpy().tolist()
        [[1.0, 0.0], [0.0, 2.0]]
    """
    *outer, num_blocks, rows, columns = blocks.shape
    spread = blocks[..., tf.newaxis, :] * tf.eye(num_blocks, dtype=blocks.dtype)[:, tf.newaxis, :, tf.newaxis]
    return tf.reshape(spread, [*outer, num_blocks * rows, num_blocks * columns])


def glorot_matrices(shape: tuple[int, ...]) -> tf_keras.initializers.Initializer:
    """Makes a Glorot initializer for a stack of matrices, which are the last two dimensions of `shape`.

    The one of Keras treats leading dimensions as the receptive field of an image.
    """
    limit = (6.0 / (shape[-2] + shape[-1])) ** 0.5
    return tf_keras.initializers.RandomUniform(-limit, limit)


def _chosen(weights: tf.Variable, rows: tuple[int, ...]) -> tf.Tensor:
    """Takes rows of a weight; the gradient is dense, as TPUs need it, unlike that of `tf.gather`."""
    if rows == tuple(range(weights.shape[0])):
        return tf.convert_to_tensor(weights)
    return tf.stack([weights[row] for row in rows])


def _indivisible(what: str, width: int, num_blocks: int) -> ValueError:
    return ValueError(
        f"`num_blocks` must divide {what}; got {num_blocks} blocks for {width}. Choose a divisor, or `num_bases`."
    )
