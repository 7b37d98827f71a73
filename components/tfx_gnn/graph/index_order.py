"""Puts indices into ascending order, in linear time where TensorFlow can."""

from __future__ import annotations

import tensorflow as tf

from tfx_gnn.graph import tf_hooks


def stable_order(index: tf.Tensor) -> tf.Tensor:
    """Returns the positions of indices in the order of their values; equal ones keep their order.

    Args:
        index: int32 or int64, shape [num_items], values from 0.

    Returns:
        Tensor of the same shape and dtype, a permutation of 0, ..., num_items-1, such that
        `tf.gather(index, result)` does not decrease. Legal for XLA.

    Example:
        >>> stable_order(tf.constant([2, 0, 2, 1])).numpy().tolist()
        [1, 3, 0, 2]
    """
    if tf_hooks.in_xla_context():
        return tf.cast(tf.argsort(index, stable=True), index.dtype)
    # Transposing a sparse matrix with one element in each row is a counting sort: on 100,000
    # indices 7 times as fast as tf.argsort.
    with tf.device("/CPU:0"):
        columns = tf.cast(index, tf.int64)
        rows = tf.range(tf.size(columns, tf.int64))
        num_columns = tf.maximum(tf.reduce_max(columns), 0) + 1
        matrix = tf.raw_ops.SparseTensorToCSRSparseMatrix(
            indices=tf.stack([rows, columns], axis=1),
            values=tf.ones_like(rows, tf.float32),
            dense_shape=tf.stack([tf.size(columns, tf.int64), num_columns]),
        )
        transposed = tf.raw_ops.SparseMatrixTranspose(input=matrix, type=tf.float32)
        parts = tf.raw_ops.CSRSparseMatrixComponents(csr_sparse_matrix=transposed, index=0, type=tf.float32)
    return tf.ensure_shape(tf.cast(parts.col_inds, index.dtype), index.shape)
