"""One field of all graphs in a batch of tf.Examples, before it is given its shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import example_layout, fields
from tfx_gnn.graph.graph_constants import Field, FieldSpec


@dataclasses.dataclass
class FlatField:
    """One field of all examples, items of earlier examples first.

    Attributes:
        values: stored values, shape [total_values].
        spec: spec of the field in one graph.
        partitions: for each dimension from 1 up to the last ragged one, the row splits over all
            examples, or the row length if it is uniform.
        num_rows: for each dimension from 0, its total number of rows, where it is needed.
        fill: returns the values with those that examples lack filled in, if any may be; it relies
            on their numbers, so it is called when they are checked.
    """

    values: tf.Tensor
    spec: FieldSpec
    partitions: list[tf.Tensor | int] = dataclasses.field(default_factory=list)
    num_rows: list[tf.Tensor] = dataclasses.field(default_factory=list)
    fill: Callable[[], tf.Tensor] | None = None

    @property
    def is_vector(self) -> bool:
        """Whether the values are the items as they are."""
        return self.spec.shape.rank == 1

    def items(self, row_splits_dtype: tf.DType, total: int | None) -> Field:
        """Returns the field with the items of all examples in dimension 0.

        Args:
            row_splits_dtype: for the ragged dimensions.
            total: static number of items, if known.
        """
        ragged_rank = len(self.partitions)
        inner = self.spec.shape[ragged_rank + 1 :].as_list()
        values: Any = example_layout.from_stored(self.values, self.spec.dtype)
        if inner:
            outer = self.num_rows[-1] if 0 in inner else -1
            values = tf.reshape(values, [outer, *inner])
        for level in reversed(range(ragged_rank)):
            partition = self.partitions[level]
            if isinstance(partition, int):
                values = tf.RaggedTensor.from_uniform_row_length(
                    values,
                    tf.constant(partition, row_splits_dtype),
                    nrows=tf.cast(self.num_rows[level], row_splits_dtype),
                    validate=False,
                )
            else:
                splits = tf.cast(partition, row_splits_dtype)
                values = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        return values if total is None else fields.with_item_count(values, total)
