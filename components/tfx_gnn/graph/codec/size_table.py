"""The sizes of all node sets and edge sets in a batch of tf.Examples."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


class SizeTable:
    """Numbers of items by set and example, each computed for all sets at once.

    Attributes:
        items: int64 of shape [num_sets, num_examples].
        splits: running sums of `items`, int64 of shape [num_sets, num_examples + 1].
        component_splits: for each set, the running number of components, int64 of shape
            [num_examples + 1].
        is_simple: whether each example has exactly one component, as the specs say.
    """

    def __init__(
        self,
        parsed: Sequence[tf.Tensor | tf.RaggedTensor],
        num_components: Sequence[int | None],
        uniform_splits: Callable[[int], tf.Tensor],
    ) -> None:
        """Adds up sizes.

        `parsed` holds, for each set, int64 of shape [num_examples, (num_components)], or [num_examples] if all sets
        have one component. `num_components` is None for a set where it varies.
        """
        self._parsed = list(parsed)
        self._stacked: tf.Tensor | None = None
        self.is_simple = bool(parsed) and set(num_components) == {1}
        self.items: Any
        self.splits: Any
        if not parsed:
            self.items = self.splits = tf.zeros([0, 1], tf.int64)
        elif None not in num_components and len(set(num_components)) == 1:
            self._stacked = tf.stack(self._parsed)
            self.items = self._stacked if self.is_simple else tf.reduce_sum(self._stacked, axis=2)
        else:
            self.items = tf.stack([tf.reduce_sum(sizes, axis=1) for sizes in self._parsed])
        if parsed:
            self.splits = tf.cumsum(tf.pad(self.items, [[0, 0], [0, 1]]), axis=1, exclusive=True)
        shared = {count: uniform_splits(count) for count in set(num_components) if count is not None}
        self.component_splits: list[Any] = [
            sizes.row_splits if count is None else shared[count]
            for sizes, count in zip(self._parsed, num_components, strict=True)
        ]

    @functools.cached_property
    def num_examples(self) -> Any:
        """Number of examples: an int if it is static, else an int64 scalar."""
        static = self.items.shape[1]
        return tf.shape(self.items, tf.int64)[1] if static is None else static

    @functools.cached_property
    def item_splits(self) -> list[tf.Tensor]:
        """The rows of `splits`."""
        return tf.unstack(self.splits, num=len(self._parsed)) if self._parsed else []

    @functools.cached_property
    def extents(self) -> tf.Tensor:
        """Numbers of items in the upper 32 bits, those of earlier examples in the lower ones.

        int64 of shape [num_sets, num_examples]; not negative, even if sizes are wrong.
        """
        return tf.bitwise.bitwise_and(self.splits[:, :-1] + self.items * 2**32, tf.int64.max)

    def counts(self, row: int) -> tf.Tensor:
        """Returns the sizes of a set, int64 of shape [1, any]."""
        return _flat(self._parsed[row])[tf.newaxis]

    def flat_sizes(self, dtype: tf.DType) -> list[tf.Tensor]:
        """Returns, for each set, the sizes of all components of all examples."""
        if self._stacked is None:
            return [tf.cast(tf.identity(_flat(sizes)), dtype) for sizes in self._parsed]
        table = tf.cast(tf.identity(self._stacked), dtype)
        if not self.is_simple:
            table = tf.reshape(table, [len(self._parsed), -1])
        rows = tf.unstack(table, num=len(self._parsed))
        for row in rows:
            row.set_shape([self._stacked.shape[1:].num_elements()])
        return rows


def _flat(sizes: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
    return sizes.flat_values if isinstance(sizes, tf.RaggedTensor) else tf.reshape(sizes, [-1])
