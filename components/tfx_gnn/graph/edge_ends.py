"""The node indices of all edge sets in a batch of tf.Examples, handled in one go."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfx_gnn.graph import parsing_checks
from tfx_gnn.graph.size_table import SizeTable


class EdgeEnds:
    """Node indices at the ends of edges: one vector for all ends of all edge sets."""

    def __init__(
        self,
        indices: Sequence[tf.Tensor],
        splits: Sequence[tf.Tensor],
        keys: Sequence[str],
        node_rows: Sequence[int],
        table: SizeTable,
    ) -> None:
        """Joins the ends.

        Args:
            indices: for each end the node indices of all examples, int64 of shape [edges].
            splits: for each end the running number of edges, int64 of shape [num_examples + 1].
            keys: for each end the key of its feature.
            node_rows: for each end the row of its node set in `table`.
            table: sizes of all sets.
        """
        self._indices = tf.concat(indices, axis=0)
        self._static_counts = [index.shape[0] for index in indices]
        self._splits = tf.stack(splits)
        self._lengths = self._splits[:, 1:] - self._splits[:, :-1]
        self._flat_lengths = tf.reshape(self._lengths, [-1])
        self._keys = list(keys)
        self._node_rows = list(node_rows)
        self._table = table

    def assert_valid(self) -> list[tf.Operation]:
        """Asserts that edges end at nodes of their own example.

        Returns:
            What must run before the indices are used; nothing in eager mode.
        """
        num_nodes = tf.reshape(tf.gather(self._table.items, self._node_rows), [-1])
        limits = parsing_checks.repeat_values(num_nodes, self._flat_lengths)
        return parsing_checks.assert_indices(self._indices, limits, self._lengths, self._keys)

    def separate(self, dtype: tf.DType, *, merge: bool) -> list[tf.Tensor]:
        """Returns the indices of each end.

        Args:
            dtype: tf.int32 or tf.int64.
            merge: whether to count from the first node of all examples.

        Returns:
            List of tensors of shape [edges].
        """
        indices = tf.identity(self._indices)
        if merge:
            offsets = tf.reshape(tf.gather(self._table.splits[:, :-1], self._node_rows), [-1])
            indices += parsing_checks.repeat_values(offsets, self._flat_lengths)
        counts = self._splits[:, -1] if None in self._static_counts else self._static_counts
        parts = tf.split(tf.cast(indices, dtype), counts, num=len(self._keys))
        for part, count in zip(parts, self._static_counts, strict=True):
            part.set_shape([count])
        return parts
