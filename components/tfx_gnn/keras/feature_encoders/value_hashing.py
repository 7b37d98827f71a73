"""From texts and large integers to a known number of categories, the same in every process and library."""

from __future__ import annotations

from typing import Union

import tensorflow as tf

Values = Union[tf.Tensor, tf.RaggedTensor]


def hash_to_buckets(values: Values, num_buckets: int) -> Values:
    """Hashes values to categories.

    This is `tf.strings.to_hash_bucket_fast` of texts, and of the decimal texts of integers. It
    depends on nothing but the bytes, so tables, tf.Transform and TensorFlow Serving agree on it. TPUs have
    no strings: there it belongs into the input pipeline.

    Args:
        values: strings or integers, dense or ragged, of any shape.
        num_buckets: number of categories, at least 1.

    Returns:
        int64 of the same shape, in [0, num_buckets).

    Raises:
        TypeError: if the values are neither strings nor integers.

    Example:
        >>> hash_to_buckets(tf.constant(["Hangzhou", "Bern"]), 10).numpy().tolist()
        [4, 1]
    """
    if values.dtype != tf.string:
        if not values.dtype.is_integer:
            raise TypeError(f"`values` must be strings or integers; got {values.dtype.name}. Use floats as they are.")
        values = tf.ragged.map_flat_values(tf.strings.as_string, values)
    hashed: Values = tf.ragged.map_flat_values(tf.strings.to_hash_bucket_fast, values, num_buckets)
    return hashed


def split_values(texts: tf.Tensor, delimiter: str) -> tf.RaggedTensor:
    """Splits each text into its values.

    Nothing is skipped: an empty text, and what stands between two delimiters, is the value "".

    Args:
        texts: strings, shape [num_items].
        delimiter: what parts the values, at least one character.

    Returns:
        Strings, ragged, of shape [num_items, (num_values)], with at least one value each.

    Raises:
        ValueError: if the delimiter is empty.

    Example:
        >>> split_values(tf.constant(["1,5", "", "a,,b"]), ",").to_list()
        [[b'1', b'5'], [b''], [b'a', b'', b'b']]
    """
    if not delimiter:
        raise ValueError("`delimiter` must have a character; got ''. Say what parts the values.")
    parts: tf.RaggedTensor = tf.strings.split(texts, delimiter)
    return parts
