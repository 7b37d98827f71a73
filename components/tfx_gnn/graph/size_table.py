"""The sizes of all node sets and edge sets in a batch of tf.Examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import parsing_checks


class SizeTable:
    """Numbers of items by set and example, each computed for all sets at once.

    Attributes:
        items: int64 of shape [num_sets, num_examples].
        splits: running sums of `items`, int64 of shape [num_sets, num_examples + 1].
        item_splits: the rows of `splits`.
        component_splits: for each set, the running number of components, int64 of shape
            [num_examples + 1].
    """

    def __init__(
        self,
        parsed: Sequence[tf.Tensor | tf.RaggedTensor],
        num_components: Sequence[int | None],
        uniform_splits: Callable[[int], tf.Tensor],
    ) -> None:
        """Adds up sizes.

        Args:
            parsed: for each set its sizes, int64 of shape [num_examples, (num_components)].
            num_components: for each set the number of components, None if it varies.
            uniform_splits: returns the splits of examples with a given number of components.
        """
        self._parsed = list(parsed)
        self._stacked: tf.Tensor | None = None
        if not parsed:
            self.items = self.splits = tf.zeros([0, 1], tf.int64)
        elif None not in num_components and len(set(num_components)) == 1:
            self._stacked = tf.stack(self._parsed)
            if num_components[0] == 1:
                self.items = tf.squeeze(self._stacked, axis=2)
            else:
                self.items = tf.reduce_sum(self._stacked, axis=2)
        else:
            self.items = tf.stack([tf.reduce_sum(sizes, axis=1) for sizes in self._parsed])
        if parsed:
            self.splits = tf.pad(tf.cumsum(self.items, axis=1), [[0, 0], [1, 0]])
        self.item_splits: list[tf.Tensor] = tf.unstack(self.splits, num=len(self._parsed)) if parsed else []
        shared = {count: uniform_splits(count) for count in set(num_components) if count is not None}
        self.component_splits: list[Any] = [
            sizes.row_splits if count is None else shared[count]
            for sizes, count in zip(self._parsed, num_components, strict=True)
        ]

    def assert_valid(self, size_keys: list[str], dtype: tf.DType) -> list[tf.Operation]:
        """Asserts that sizes are not negative and that their sums fit into a dtype.

        Args:
            size_keys: for each set, the key of its sizes.
            dtype: tf.int32 or tf.int64.

        Returns:
            What must run before the sizes are used; nothing in eager mode.
        """
        if self._stacked is not None:
            counts = tf.reshape(self._stacked, [len(size_keys), -1])
            return parsing_checks.assert_counts(counts, self.splits, size_keys, dtype)
        assertions: list[tf.Operation] = []
        for key, sizes, splits in zip(size_keys, self._parsed, self.item_splits, strict=True):
            assertions += parsing_checks.assert_counts(_flat(sizes)[tf.newaxis], splits[tf.newaxis], [key], dtype)
        return assertions

    def flat_sizes(self, dtype: tf.DType) -> list[tf.Tensor]:
        """Returns, for each set, the sizes of all components of all examples.

        Args:
            dtype: tf.int32 or tf.int64.

        Returns:
            List of tensors of shape [total number of components].
        """
        if self._stacked is not None:
            table = tf.reshape(tf.cast(tf.identity(self._stacked), dtype), [len(self._parsed), -1])
            total = self._stacked.shape[1:].num_elements()
            return tf.unstack(tf.ensure_shape(table, [None, total]), num=len(self._parsed))
        return [tf.cast(tf.identity(_flat(sizes)), dtype) for sizes in self._parsed]


def _flat(sizes: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
    return sizes.flat_values if isinstance(sizes, tf.RaggedTensor) else tf.reshape(sizes, [-1])
