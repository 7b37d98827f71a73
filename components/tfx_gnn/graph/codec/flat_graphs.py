"""Flat values (sizes, ends of edges, features) of a batch of tf.Examples, before shapes are restored."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.codec import example_layout
from tfx_gnn.graph.codec.example_layout import PieceKeys
from tfx_gnn.graph.codec.parsing_checks import assert_indices
from tfx_gnn.graph.graph_constants import Field, FieldSpec
from tfx_gnn.graph.tensor import fields
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec


class SizeTable:
    """Numbers of items by set and example, computed for all sets together.

    Attributes:
        items: int64 of shape [num_sets, num_examples].
        splits: running sums of `items`, int64 of shape [num_sets, num_examples + 1].
        component_splits: for each set, the running number of components, int64 of shape
            [num_examples + 1].
        is_simple: whether each example has exactly one component, according to the specs.
    """

    def __init__(
        self,
        parsed: Sequence[tf.Tensor | tf.RaggedTensor],
        num_components: Sequence[int | None],
        uniform_splits: Callable[[int], tf.Tensor],
    ) -> None:
        """Adds up sizes.

        `parsed` holds, for each set, int64 of shape [num_examples, (num_components)], or [num_examples] if all sets
        have one component. An entry of `num_components` is None if the number of components varies.
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
        """Number of items in the upper 32 bits, number of items of all earlier examples in the lower 32 bits.

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


class EdgeEnds:
    """Node indices at the ends of edges: one vector for all ends of all edge sets.

    A number is added to each index that holds the first node of the example in its lower 32 bits,
    and the number of nodes of the example in its upper 32 bits. So one addition computes both the
    index into all nodes and the limit for the check: an index is in range exactly if, as an
    unsigned number, it is less than the upper bits of the sum.

    Attributes:
        keys: feature key of each end.
        node_rows: row in the size table of the node set of each end.
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
        """Joins the ends; `splits` holds running numbers of edges, shape [num_ends or more, num_examples + 1]."""
        self.keys = list(keys)
        self.node_rows = list(node_rows)
        self._indices = tf.concat(indices, axis=0)
        self._static_counts = [index.shape[0] for index in indices]
        num_ends = len(self.keys)
        self._lengths = splits[:num_ends, 1:] - splits[:num_ends, :-1]
        self.counts = splits[:num_ends, -1]
        extents = tf.reshape(tf.gather(table.extents, self.node_rows), [-1])
        added = repeat_values(extents, tf.reshape(self._lengths, [-1]))
        self._sums = self._indices + added

    def assert_valid(self) -> list[tf.Operation]:
        """Asserts that edges connect nodes of their own example; see `parsing_checks`."""
        limits = tf.bitwise.right_shift(tf.bitcast(self._sums, tf.uint64), tf.constant(32, tf.uint64))
        return assert_indices(self._indices, limits, self._lengths, self.keys)

    def joined(self, dtype: tf.DType, *, merge: bool) -> tf.Tensor:
        """Returns the indices of all ends, one end after another.

        With `merge`, indices are relative to the first node of the whole batch.
        """
        if not merge:
            return tf.cast(tf.identity(self._indices), dtype)
        if dtype == tf.int32:
            # The cast drops the upper 32 bits.
            return tf.cast(self._sums, dtype)
        return tf.bitwise.bitwise_and(self._sums, tf.constant(2**32 - 1, tf.int64))

    def separate(self, dtype: tf.DType, *, merge: bool) -> list[tf.Tensor]:
        """Returns the indices of each end; see `joined`."""
        counts = self.counts if None in self._static_counts else self._static_counts
        parts = tf.split(self.joined(dtype, merge=merge), counts, num=len(self.keys))
        for part, count in zip(parts, self._static_counts, strict=True):
            part.set_shape([count])
        return parts


def repeat_values(values: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Repeats each value, int64 of shape [rows], `lengths` times; faster than `tf.repeat`."""
    # Each row counts down from `value - start of the row`; adding the position, which counts up, leaves the value.
    first = values - tf.cumsum(lengths, exclusive=True)
    descending = tf.raw_ops.RaggedRange(
        starts=first, limits=first - lengths, deltas=tf.constant(-1, tf.int64), Tsplits=tf.int64
    ).rt_dense_values
    return descending + tf.range(tf.size(descending, out_type=tf.int64))


@dataclasses.dataclass
class FlatField:
    """One field of all examples, with the items of earlier examples first.

    Attributes:
        values: stored values, shape [total_values].
        spec: spec of the field in one graph.
        partitions: for each dimension from 1 up to the last ragged one, the row splits over all
            examples, or the row length if it is uniform.
        num_rows: for each dimension from 0, its total number of rows, if needed.
        fill: returns the values with defaults inserted for examples that lack them; None if there
            is no default. It relies on the numbers of values, so it is called after their check.
    """

    values: tf.Tensor
    spec: FieldSpec
    partitions: list[tf.Tensor | int] = dataclasses.field(default_factory=list)
    num_rows: list[tf.Tensor] = dataclasses.field(default_factory=list)
    fill: Callable[[], tf.Tensor] | None = None

    @property
    def is_vector(self) -> bool:
        """Whether each item is a single value, so that the values need no reshaping."""
        return self.spec.shape.rank == 1

    def items(self, row_splits_dtype: tf.DType, total: int | None) -> Field:
        """Returns the field with the items of all examples in dimension 0; `total` is their number if it is static."""
        ragged_rank = len(self.partitions)
        inner = self.spec.shape[ragged_rank + 1 :].as_list()
        values: Any = example_layout.from_stored(self.values, self.spec.dtype)
        if inner:
            # A reshape cannot infer a dimension beside a dimension of 0.
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


@dataclasses.dataclass
class FlatSet:
    """One piece of the graphs of all examples.

    Attributes:
        layout: where the piece is stored.
        spec: spec of the piece in one graph.
        component_splits: running number of components, int64 of shape [num_examples + 1].
        table: sizes of all sets.
        row: row of this set in the table; None for a context.
        sizes: sizes of all components of all examples, of the index dtype; None for a context.
        features: feature names to fields.
        indices: tags of the ends of edges to node indices, of the index dtype.
    """

    layout: PieceKeys
    spec: Any
    component_splits: tf.Tensor
    table: SizeTable
    row: int | None = None
    sizes: tf.Tensor | None = None
    features: dict[str, FlatField] = dataclasses.field(default_factory=dict)
    indices: dict[int, tf.Tensor] = dataclasses.field(default_factory=dict)

    @property
    def item_splits(self) -> tf.Tensor:
        """Running number of items, int64 of shape [num_examples + 1]."""
        return self.component_splits if self.row is None else self.table.item_splits[self.row]


@dataclasses.dataclass
class FlatGraphs:
    """The graphs of all examples.

    Attributes:
        static_num_examples: number of examples if it is static, else None.
        sets: the context, then node sets, then edge sets.
        table: sizes of all sets except the context.
        ends: node indices of all edge sets; None if there are none.
    """

    static_num_examples: int | None
    sets: list[FlatSet]
    table: SizeTable
    ends: EdgeEnds | None


def finish_flat(spec: GraphTensorSpec, flat: FlatGraphs, *, merge_indices: bool) -> None:
    """Adds sizes and node indices to the sets and completes features; called under dependencies on the checks.

    With `merge_indices`, node indices are relative to the first node of the whole batch.
    """
    dtype = spec.indices_dtype
    for flat_set, sizes in zip(flat.sets[1:], flat.table.flat_sizes(dtype), strict=True):
        flat_set.sizes = sizes
    finish_features(flat, keep_vectors=merge_indices)
    if flat.ends is not None:
        separated = iter(flat.ends.separate(dtype, merge=merge_indices))
        for flat_set in flat.sets:
            for tag in flat_set.layout.index_keys:
                flat_set.indices[tag] = next(separated)


def finish_features(flat: FlatGraphs, *, keep_vectors: bool) -> None:
    """Inserts default values and makes values wait for the checks; called under dependencies on the checks.

    With `keep_vectors`, plain vectors need not wait, because no later operation on them can fail.
    """
    for flat_set in flat.sets:
        for field in flat_set.features.values():
            field.num_rows = [tf.identity(num_rows) for num_rows in field.num_rows]
            if field.fill is not None:
                field.values = field.fill()
            elif not (keep_vectors and field.is_vector):
                field.values = tf.identity(field.values)
