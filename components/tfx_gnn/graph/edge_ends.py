"""The node indices of all edge sets in a batch of tf.Examples, handled in one go."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfx_gnn.graph import parsing_checks
from tfx_gnn.graph.size_table import SizeTable


class EdgeEnds:
    """Node indices at the ends of edges: one vector for all ends of all edge sets.

    The vector is added up with a number for each of its elements whose lower 32 bits are the
    first node of the example, and whose upper ones are its number of nodes. So one addition makes
    the index into all nodes and tells the limit that the original one must stay below: it does
    exactly if, as an unsigned number, it is smaller than the upper bits of the sum.

    Attributes:
        keys: for each end the key of its feature.
        node_rows: for each end the row of its node set in the size table.
        counts: number of edges of each end, int64 of shape [num_ends].
    """

    def __init__(
        self,
        indices: Sequence[tf.Tensor],
        splits: tf.Tensor,
        keys: Sequence[str],
        node_rows: Sequence[int],
        table: SizeTable,
    ) -> None:
        """Joins the ends.

        Args:
            indices: for each end the node indices of all examples, int64 of shape [edges].
            splits: for each end, in the first rows, the running number of edges, int64 of shape
                [num_ends or more, num_examples + 1].
            keys: for each end the key of its feature.
            node_rows: for each end the row of its node set in `table`.
            table: sizes of all sets.
        """
        self.keys = list(keys)
        self.node_rows = list(node_rows)
        self._indices = tf.concat(indices, axis=0)
        self._static_counts = [index.shape[0] for index in indices]
        num_ends = len(self.keys)
        self._lengths = splits[:num_ends, 1:] - splits[:num_ends, :-1]
        self.counts = splits[:num_ends, -1]
        extents = tf.reshape(tf.gather(table.extents, self.node_rows), [-1])
        added = parsing_checks.repeat_values(extents, tf.reshape(self._lengths, [-1]))
        self._sums = self._indices + added

    def assert_valid(self) -> list[tf.Operation]:
        """Asserts that edges end at nodes of their own example; see `parsing_checks`."""
        limits = tf.bitwise.right_shift(tf.bitcast(self._sums, tf.uint64), tf.constant(32, tf.uint64))
        return parsing_checks.assert_indices(self._indices, limits, self._lengths, self.keys)

    def joined(self, dtype: tf.DType, *, merge: bool) -> tf.Tensor:
        """Returns the indices of all ends, one end after another.

        Args:
            dtype: tf.int32 or tf.int64.
            merge: whether to count from the first node of all examples.

        Returns:
            Tensor of shape [total].
        """
        if not merge:
            return tf.cast(tf.identity(self._indices), dtype)
        if dtype == tf.int32:
            return tf.cast(self._sums, dtype)
        return tf.bitwise.bitwise_and(self._sums, tf.constant(2**32 - 1, tf.int64))

    def separate(self, dtype: tf.DType, *, merge: bool) -> list[tf.Tensor]:
        """Returns the indices of each end.

        Args:
            dtype: tf.int32 or tf.int64.
            merge: whether to count from the first node of all examples.

        Returns:
            List of tensors of shape [edges].
        """
        counts = self.counts if None in self._static_counts else self._static_counts
        parts = tf.split(self.joined(dtype, merge=merge), counts, num=len(self.keys))
        for part, count in zip(parts, self._static_counts, strict=True):
            part.set_shape([count])
        return parts
