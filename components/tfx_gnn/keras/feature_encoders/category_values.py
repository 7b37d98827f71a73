"""Maps categories to rows of an embedding table, and combines several categories of an item.

A category is an index, a value of a vocabulary of tf.Transform, or hashed: into the same row in every process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Union

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.keras.feature_encoders.encoder_options import COMBINERS, Combiner

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


class TransformOutput(Protocol):
    """What is asked of a `tft.TFTransformOutput`.

    If it also has `transformed_domains()`, the ranges of indices there come first: they count
    `num_oov_buckets`, and need no name of a vocabulary.
    """

    def vocabulary_size_by_name(self, vocab_filename: str) -> int:
        """Returns the number of values of a vocabulary.

        Args:
            vocab_filename: its name.
        """
        ...


def category_count(tft_output: TransformOutput | None, name: str, vocabulary: str = "") -> int:
    """Tells how many categories a feature has.

    Args:
        tft_output: what tf.Transform learned; None: nothing.
        name: full name of the feature, such as "nodes/paper.venue".
        vocabulary: name of its vocabulary; "": the indices that tf.Transform says the feature holds, else
            the vocabulary of the name of the feature, such as "venue".

    Returns:
        The number; 0 if tf.Transform does not know it.

    Raises:
        ValueError: if `vocabulary` is given, but there is none of this name.
    """
    if tft_output is None:
        return 0
    if vocabulary:
        try:
            return int(tft_output.vocabulary_size_by_name(vocabulary))
        except (LookupError, ValueError) as error:
            raise ValueError(
                f"`vocabulary` must name one that `preprocessing_fn` makes; got {vocabulary!r} for {name!r}. Give "
                "the same `vocab_filename` there."
            ) from error
    domain: Any = _domains(tft_output).get(name)
    if getattr(domain, "is_categorical", False):
        return int(domain.max) + 1
    try:
        return int(tft_output.vocabulary_size_by_name(feature_name(name)))
    except (LookupError, ValueError):
        return 0


def feature_name(name: str) -> const.FieldName:
    """Takes the name of a feature out of its full name.

    Args:
        name: such as "nodes/paper.venue" or "context/year".

    Returns:
        The name in its set.

    Example:
        >>> feature_name("edges/cites.kind"), feature_name("context/year")
        ('kind', 'year')
    """
    return name.removeprefix("context/") if name.startswith("context/") else name.partition(".")[2]


def _domains(tft_output: TransformOutput) -> Mapping[str, Any]:
    known = getattr(tft_output, "transformed_domains", None)
    return {} if known is None else known()


NO_VALUE = -(2**31)
"""Stands where an item has fewer values than the width of a dense feature of several values."""


def table_rows(values: tf.Tensor, num_rows: int) -> tf.Tensor:
    """Finds the row of each category; invalid ones get the last row.

    A lookup of a row that is not there fails on CPUs and gives zeros or anything on accelerators.
    After this there is none: -1, with which tf.Transform marks what its vocabulary lacks, numbers
    beyond the table, and padding all have a row.

    Args:
        values: integers of any shape.
        num_rows: rows of the table, at least 1.

    Returns:
        int32 of the same shape, in [0, num_rows).

    Example:
        >>> table_rows(tf.constant([0, 2, 3, -1], tf.int64), 3).numpy().tolist()
        [0, 2, 2, 2]
    """
    values = _wide(values)
    last = tf.constant(num_rows - 1, values.dtype)
    is_row = tf.logical_and(values >= 0, values <= last)
    return tf.cast(tf.where(is_row, values, last), tf.int32)


def pad_values(values: tf.RaggedTensor, max_values: int) -> tf.Tensor:
    """Makes ragged categories dense, for accelerators that want static shapes.

    Args:
        values: integers, ragged, of shape [num_items, (num_values)].
        max_values: width of the result, at least 1.

    Returns:
        Integers of shape [num_items, max_values], with NO_VALUE behind the values of an item.

    Raises:
        tf.errors.InvalidArgumentError: at run time, if an item has more values.

    Example:
        >>> pad_values(tf.ragged.constant([[4], [], [7, 8]]), 2).numpy().tolist()
        [[4, -2147483648], [-2147483648, -2147483648], [7, 8]]
    """
    most = tf.reduce_max(tf.concat([values.row_lengths(), tf.zeros([1], values.row_splits.dtype)], axis=0))
    fits = tf.debugging.Assert(
        most <= max_values,
        ["`max_values` must be at least the number of values of an item; got", max_values, "and an item of", most],
    )
    with tf.control_dependencies([fits]):
        padded = values.to_tensor(default_value=tf.constant(NO_VALUE, values.dtype), shape=[None, max_values])
    return tf.ensure_shape(padded, [values.shape[0], max_values])


def combine_embeddings(embeddings: tf.Tensor, values: Values, combiner: Combiner) -> tf.Tensor:
    """Makes one vector of the embeddings of all values of an item.

    Args:
        embeddings: floats of shape [total_values, units], of all values in their order: those of a dense
            feature, row by row, or the flat values of a ragged one.
        values: integers of shape [num_items] with one value each, [num_items, k] where NO_VALUE is none, or
            ragged [num_items, (num_values)].
        combiner: "mean" or "sum"; that of no values is zeros.

    Returns:
        Floats of shape [num_items, units].

    Raises:
        ValueError: if there is no such combiner, or the values have another shape.

    Example:
        >>> vectors = tf.constant([[1., 2.], [3., 4.], [9., 9.]])
        >>> combine_embeddings(vectors, tf.ragged.constant([[5, 6], [], [7]]), "mean").numpy().tolist()
        [[2.0, 3.0], [0.0, 0.0], [9.0, 9.0]]
    """
    if combiner not in COMBINERS:
        raise ValueError(f"`combiner` must be one of {list(COMBINERS)}; got {combiner!r}. Choose one of these.")
    if values.shape.rank not in (1, 2):
        raise ValueError(
            f"`values` must have one or two dimensions; got shape {values.shape}. Flatten what an item has."
        )
    if isinstance(values, tf.RaggedTensor):
        num_items = values.shape[0] if values.shape[0] is not None else values.nrows()
        item = values.value_rowids()
        total = tf.math.unsorted_segment_sum(embeddings, item, num_items)
        counts = tf.cast(values.row_lengths(), embeddings.dtype)[:, tf.newaxis]
    elif values.shape.rank == 1:
        return embeddings
    else:
        is_value = tf.cast(_wide(values) != NO_VALUE, embeddings.dtype)[:, :, tf.newaxis]
        num_items, width = (tf.shape(values)[axis] if size is None else size for axis, size in enumerate(values.shape))
        total = tf.reduce_sum(tf.reshape(embeddings, [num_items, width, embeddings.shape[-1]]) * is_value, axis=1)
        counts = tf.reduce_sum(is_value, axis=1)
    return total if combiner == "sum" else total / tf.maximum(counts, 1)


def _wide(values: tf.Tensor) -> tf.Tensor:
    """Makes room for NO_VALUE and for the numbers of rows."""
    return values if values.dtype in (tf.int32, tf.int64) else tf.cast(values, tf.int64)
