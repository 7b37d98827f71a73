"""Assertions on graphs read from tf.Examples.

They cost a few small ops, whatever the number of sets and features: what is compared is first
put into one tensor. Messages name the key of the feature and the example of the batch. The ops
that find these run every time: a branch taken only on failure was measured to cost more.
"""

from __future__ import annotations

import tensorflow as tf

#: The largest number of items in a batch; far enough from the limits of int64 to add them up.
_MAX_ITEMS = {tf.int32: 2**31 - 1, tf.int64: 2**40}


def assert_counts(counts: tf.Tensor, running_totals: tf.Tensor, keys: list[str], dtype: tf.DType) -> list[tf.Operation]:
    """Asserts that numbers of items are not negative and add up to something that fits.

    Args:
        counts: int64 of shape [num_keys, any].
        running_totals: int64 of shape [num_keys, any], their sums over the examples.
        keys: keys of the features with the counts.
        dtype: tf.int32 or tf.int64, what the totals must fit into.

    Returns:
        What must run before the counts are used; nothing in eager mode.
    """
    limit = _MAX_ITEMS[dtype]
    values = tf.concat([counts, running_totals], axis=1)
    # As unsigned numbers, negative counts are beyond the limit.
    fits = tf.less_equal(tf.bitcast(values, tf.uint64), tf.constant(limit, tf.uint64))
    row_fits = tf.reduce_all(fits, axis=1)
    row = _first_false(row_fits)
    return _assert(
        tf.reduce_all(row_fits),
        f"`serialized` must hold counts in [0, {limit}], also when they are added up; got others in feature",
        tf.gather(keys, row),
    )


def assert_splits(actual: tf.Tensor, expected: tf.Tensor, keys: list[str]) -> list[tf.Operation]:
    """Asserts that features hold the expected number of values in every example.

    Args:
        actual: int64 of shape [num_keys, num_examples + 1], running number of values.
        expected: what it must be.
        keys: keys of the features.

    Returns:
        What must run before the values are used; nothing in eager mode.
    """
    equal = tf.equal(actual, expected)
    row_equal = tf.reduce_all(equal, axis=1)
    row = _first_false(row_equal)
    end = _first_false(tf.gather(equal, row))
    return _assert(
        tf.reduce_all(row_equal),
        "`serialized` must hold as many values of each feature as its `#size` and spec say; got another number in "
        "feature",
        tf.gather(keys, row),
        "of this example of the batch:",
        end - 1,
    )


def assert_indices(indices: tf.Tensor, limits: tf.Tensor, lengths: tf.Tensor, keys: list[str]) -> list[tf.Operation]:
    """Asserts that edges end at nodes of their own example.

    Args:
        indices: int64 of shape [total], the node indices of all ends of edge sets one after
            another, for each end those of all examples.
        limits: int64 of shape [total], number of nodes to choose from.
        lengths: int64 of shape [num_keys, num_examples], how many of `indices` belong to each.
        keys: feature keys of the ends.

    Returns:
        What must run before the indices are used; nothing in eager mode.
    """
    # As unsigned numbers, negative indices are beyond every limit.
    is_wrong = tf.greater_equal(tf.bitcast(indices, tf.uint64), tf.bitcast(limits, tf.uint64))
    wrong = tf.where(is_wrong)
    # None or one position: what follows is empty unless the assertion fails.
    position = wrong[:1, 0]
    row = tf.searchsorted(tf.cumsum(tf.reshape(lengths, [-1])), position, side="right", out_type=tf.int64)
    num_examples = tf.shape(lengths, tf.int64)[1]
    return _assert(
        tf.equal(tf.size(wrong), 0),
        "`serialized` must hold node indices in [0, number of nodes); got",
        tf.gather(indices, position),
        "in feature",
        tf.gather(keys, row // num_examples),
        "of this example of the batch:",
        row % num_examples,
    )


def repeat_values(values: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Repeats each value as often as its length says, faster than `tf.repeat`.

    Args:
        values: int64 of shape [rows].
        lengths: int64 of shape [rows].

    Returns:
        int64 tensor of shape [sum(lengths)].
    """
    first = values + tf.cumsum(lengths, exclusive=True)
    ranges = tf.raw_ops.RaggedRange(
        starts=first, limits=first + lengths, deltas=tf.constant(1, tf.int64), Tsplits=tf.int64
    ).rt_dense_values
    return ranges - tf.range(tf.size(ranges, out_type=tf.int64))


def _first_false(condition: tf.Tensor) -> tf.Tensor:
    """Returns the position of the first False in a vector that is not empty, or 0."""
    return tf.argmin(tf.cast(condition, tf.int8))


def _assert(holds: tf.Tensor, *parts: str | tf.Tensor) -> list[tf.Operation]:
    if not tf.executing_eagerly():
        return [tf.raw_ops.Assert(condition=holds, data=parts)]
    if not holds:
        words = (part if isinstance(part, str) else _plain(part) for part in parts)
        raise tf.errors.InvalidArgumentError(None, None, " ".join(words) + ".")
    return []


def _plain(value: tf.Tensor) -> str:
    scalar = tf.reshape(value, [-1])[0].numpy()
    return f"'{scalar.decode()}'" if isinstance(scalar, bytes) else str(scalar)
