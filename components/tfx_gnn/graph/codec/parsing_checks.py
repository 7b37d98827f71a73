"""Assertions on parsed graphs, and on the node indices of their edge sets.

Each function returns the operations that must run before the values are used; in eager mode, they
have already run and the result is empty. The assertions cost a few operations, independent of the
number of sets and features, because the values to compare are first put into one tensor. In a
function, all operations of an assertion run every time, and even a branch for the failure case
costs more than the check itself. So messages there only name the feature; in eager mode, they
also name the example of the batch.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

_Array = Any


def assert_counts(counts: tf.Tensor, running_totals: tf.Tensor, limits: _Array, keys: list[str]) -> list[tf.Operation]:
    """Asserts that numbers of items, shape [num_keys, any], are not negative and add up to at most `limits`."""
    # As unsigned numbers, negative counts exceed the limit.
    values = tf.bitcast(tf.concat([counts, running_totals], axis=1), tf.uint64)
    row_fits = tf.reduce_all(tf.less_equal(values, limits.astype(np.uint64)[:, np.newaxis]), axis=1)
    start = "`serialized` must hold counts that are not negative and whose sum is at most"
    if not tf.executing_eagerly():
        wrong = [tf.where(row_fits, "", keys)]
        return _assert(tf.reduce_all(row_fits), [start, _distinct(limits), "; got others in feature", *wrong])
    if not tf.reduce_all(row_fits):
        row = np.argmin(row_fits.numpy())
        _fail(f"{start} {limits[row]}; got others in feature '{keys[row]}'")
    return []


def assert_splits(actual: tf.Tensor, expected: tf.Tensor, keys: list[str], size_keys: list[str]) -> list[tf.Operation]:
    """Asserts that features hold the expected running number of values, int64 of shape [num_keys, num_examples + 1].

    `size_keys` names the sizes that each feature is compared with; "" if there are none.
    """
    equal = tf.equal(actual, expected)
    start = "`serialized` must hold as many values of each feature as its `#size` and spec say; got another number in "
    if not tf.executing_eagerly():
        row_equal = tf.reduce_all(equal, axis=1)
        pairs = [
            f"'{key}' ('{size_key}')" if size_key else f"'{key}'" for key, size_key in zip(keys, size_keys, strict=True)
        ]
        return _assert(tf.reduce_all(row_equal), [f"{start}feature", tf.where(row_equal, "", pairs)])
    if not tf.reduce_all(equal):
        row, end = np.argwhere(~equal.numpy())[0]
        _fail(f"{start}feature '{keys[row]}' of example {end - 1} of the batch")
    return []


def assert_indices(indices: tf.Tensor, limits: tf.Tensor, lengths: tf.Tensor, keys: list[str]) -> list[tf.Operation]:
    """Asserts that edges connect nodes of their own example: `indices` are less than `limits`, both of shape [total].

    `lengths`, int64 of shape [num_keys, num_examples], holds the number of indices of each end and example.
    """
    # As unsigned numbers, negative indices exceed every limit.
    fits = tf.less(tf.bitcast(indices, tf.uint64), limits)
    start = "`serialized` must hold node indices in [0, number of nodes); got "
    if not tf.executing_eagerly():
        return _assert(tf.reduce_all(fits), [f"{start}others in one of the features", " ".join(keys)])
    if not tf.reduce_all(fits):
        position = np.argmin(fits.numpy())
        row = np.searchsorted(np.cumsum(lengths), position, side="right")
        end, example = divmod(row, lengths.shape[1])
        _fail(f"{start}{indices[position].numpy()} in feature '{keys[end]}' of example {example} of the batch")
    return []


def assert_in_range(stored: list[tuple[tf.Tensor, tf.DType, str]]) -> list[tf.Operation]:
    """Asserts that values fit the dtypes of their features: a cast would wrap integers and make floats infinite.

    Takes values as stored, int64 or float32, each with the dtype and key of its feature.
    """
    if not stored:
        return []
    wrong = [_out_of_range(values, dtype) for values, dtype, _ in stored]
    told = [f"'{key}' ({dtype.name})" for _, dtype, key in stored]
    start = "`serialized` must hold values that fit the dtypes of the features; got"
    if not tf.executing_eagerly():
        fits = ~tf.stack([tf.reduce_any(one) for one in wrong])
        return _assert(tf.reduce_all(fits), [f"{start} others in feature", tf.where(fits, "", told)])
    for (values, _, _), is_wrong, name in zip(stored, wrong, told, strict=True):
        if tf.reduce_any(is_wrong):
            _fail(f"{start} {values[is_wrong].numpy().flat[0]} in feature {name}")
    return []


def _out_of_range(values: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    cast = tf.cast(values, dtype)
    if dtype.is_integer:
        return tf.not_equal(tf.cast(cast, values.dtype), values)
    return tf.math.is_finite(values) & ~tf.math.is_finite(cast)


def _assert(holds: tf.Tensor, data: list[Any]) -> list[tf.Operation]:
    # -1 prints all elements.
    return [tf.raw_ops.Assert(condition=holds, data=data, summarize=-1)]


def _fail(message: str) -> NoReturn:
    raise tf.errors.InvalidArgumentError(None, None, f"{message}.")


def _distinct(values: _Array) -> str:
    return " or ".join(str(value) for value in sorted(set(values.tolist())))
