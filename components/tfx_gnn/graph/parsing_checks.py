"""Assertions on graphs read from tf.Examples.

They cost a handful of ops for a graph with any number of sets and features: what is compared
is first put into one tensor. Only when a check fails is the culprit looked for.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

#: Sums of sizes stay far from the limits of int64.
_MAX_COUNT = {tf.int32: 2**31 - 1, tf.int64: 2**48}


class CountChecks:
    """Collects comparisons of counts in files, to make one assertion of them."""

    def __init__(self) -> None:
        self._splits: list[tuple[tf.Tensor, tf.Tensor, str]] = []
        self._counts: dict[tf.DType, list[tuple[tf.Tensor, str]]] = {}

    def add_splits(self, actual: tf.Tensor, expected: tf.Tensor, key: str) -> None:
        """Demands that a feature holds the expected number of values in every example.

        Args:
            actual: int64 of shape [num_examples + 1], running number of values.
            expected: what it must be.
            key: key of the feature.
        """
        self._splits.append((actual, expected, key))

    def add_counts(self, counts: tf.Tensor, key: str, dtype: tf.DType) -> None:
        """Demands that counts are not negative and fit into `dtype`.

        Args:
            counts: int64 of shape [any].
            key: key of the feature with the counts.
            dtype: tf.int32 or tf.int64.
        """
        self._counts.setdefault(dtype, []).append((counts, key))

    def assertions(self) -> list[tf.Operation]:
        """Returns what must run before the values are used; in eager mode it has run."""
        conditions = [self._counts_hold(dtype) for dtype in self._counts]
        if self._splits:
            actual = tf.stack([actual for actual, _, _ in self._splits])
            expected = tf.stack([expected for _, expected, _ in self._splits])
            conditions.append(tf.reduce_all(tf.equal(actual, expected)))
        if not conditions:
            return []
        holds = conditions[0] if len(conditions) == 1 else tf.reduce_all(tf.stack(conditions))
        return [_run_unless(holds, self._explain)]

    def _counts_hold(self, dtype: tf.DType) -> tf.Tensor:
        counts = [counts for counts, _ in self._counts[dtype]]
        return _all_within(tf.concat(counts, axis=0), _MAX_COUNT[dtype])

    def _explain(self) -> None:
        """Fails with the key and the example of the first comparison that does not hold."""
        for dtype, entries in self._counts.items():
            limit = _MAX_COUNT[dtype]
            for counts, key in entries:
                _assert(
                    _all_within(counts, limit),
                    f"`serialized` must hold counts in [0, {limit}]; got {{}} in feature '{key}'.",
                    counts,
                )
        for actual, expected, key in self._splits:
            num_values, num_expected = actual[1:] - actual[:-1], expected[1:] - expected[:-1]
            differs = tf.not_equal(num_values, num_expected)
            example = tf.argmax(tf.cast(differs, tf.int32))
            _assert(
                tf.logical_not(tf.reduce_any(differs)),
                "`serialized` must hold as many values of each feature as its `#size` and spec "
                f"say; got {{}} values in feature '{key}' of example {{}} of the batch, expected "
                "{}.",
                num_values[example],
                example,
                num_expected[example],
            )


def check_indices(
    indices: tf.Tensor,
    num_nodes: tf.Tensor,
    lengths: tf.Tensor,
    keys: list[str],
    num_examples: tf.Tensor,
) -> tf.Operation:
    """Asserts that edges end at nodes of their own example.

    Args:
        indices: int64 of shape [total], the node indices of all ends one after another, for
            each end those of all examples.
        num_nodes: int64 of shape [num_ends * num_examples], number of nodes to choose from.
        lengths: int64 of the same shape, how many of `indices` belong to each.
        keys: feature keys of the ends.
        num_examples: scalar int64.

    Returns:
        What must run before the indices are used.
    """
    limits = repeat_values(num_nodes, lengths)
    # As unsigned numbers, negative indices are beyond every limit.
    fits = tf.less(tf.bitcast(indices, tf.uint64), tf.bitcast(limits, tf.uint64))

    def explain() -> None:
        position = tf.argmin(tf.cast(fits, tf.int32))
        row = tf.searchsorted(tf.cumsum(lengths), position[tf.newaxis], side="right")[0]
        row = tf.cast(row, tf.int64)
        _assert(
            tf.reduce_all(fits),
            "`serialized` must hold node indices in [0, number of nodes); got {} in feature {} of "
            "example {} of the batch, whose number of nodes is {}.",
            indices[position],
            tf.constant(keys)[row // num_examples],
            row % num_examples,
            limits[position],
        )

    return _run_unless(tf.reduce_all(fits), explain)


def repeat_values(values: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Repeats each value as often as its length says, faster than `tf.repeat`.

    Args:
        values: int64 of shape [rows].
        lengths: int64 of shape [rows].

    Returns:
        int64 tensor of shape [sum(lengths)].
    """
    starts = tf.cumsum(lengths, exclusive=True)
    first = values + starts
    ranges = tf.raw_ops.RaggedRange(
        starts=first, limits=first + lengths, deltas=tf.constant(1, tf.int64), Tsplits=tf.int64
    ).rt_dense_values
    return ranges - tf.range(tf.size(ranges, out_type=tf.int64))


def _all_within(counts: tf.Tensor, limit: int) -> tf.Tensor:
    unsigned = tf.bitcast(counts, tf.uint64)
    return tf.reduce_all(tf.less_equal(unsigned, tf.constant(limit, tf.uint64)))


def _run_unless(holds: tf.Tensor, explain: Callable[[], None]) -> tf.Operation:
    """Runs a function that fails, unless the condition holds."""

    def fail() -> tf.Tensor:
        explain()
        return tf.zeros([])

    return tf.cond(holds, lambda: tf.zeros([]), fail)


def _assert(condition: tf.Tensor, template: str, *values: tf.Tensor) -> None:
    """Fails with a message, at once in eager mode, unless the condition holds."""
    message = tf.strings.format(template, values, summarize=8)
    if not tf.executing_eagerly():
        tf.debugging.Assert(condition, [message])
    elif not condition:
        raise tf.errors.InvalidArgumentError(None, None, message.numpy().decode())
