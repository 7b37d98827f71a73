"""Maps categories to rows of an embedding table, and combines several categories of an item.

A category is an index, a value of a vocabulary, or hashed: into the same row in every process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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
        """Returns the number of values of a vocabulary."""
        ...


def category_count(tft_output: TransformOutput | None, name: str, vocabulary: str = "") -> int:
    """Counts the categories of a feature such as "nodes/paper.venue"; 0 if tf.Transform does not know it.

    Without a name of a vocabulary, the number is that of the indices that tf.Transform says the feature holds,
    else that of the vocabulary with the name of the feature, such as "venue".
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
    """Takes the name of a feature out of its full name: 'kind' of "edges/cites.kind", 'year' of "context/year"."""
    return name.removeprefix("context/") if name.startswith("context/") else name.partition(".")[2]


def _domains(tft_output: TransformOutput) -> Mapping[str, Any]:
    known = getattr(tft_output, "transformed_domains", None)
    return {} if known is None else known()


NO_VALUE = -(2**31)
"""Stands where an item has fewer values than the width of a dense feature of several values."""


def table_rows(values: tf.Tensor, num_rows: int) -> tf.Tensor:
    """Finds the row of each category, int32; invalid ones get the last row.

    A lookup of a row that is not there fails on CPUs and gives zeros or anything on accelerators.
    After this there is none: -1, with which tf.Transform marks what its vocabulary lacks, numbers
    beyond the table, and padding all have a row.

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


def flat_categories(values: Any) -> tf.Tensor:
    """Lines up the categories of all items, [num_items], [num_items, k] or ragged, in one dimension."""
    return values.values if isinstance(values, tf.RaggedTensor) else tf.reshape(values, [-1])


def combine_embeddings(embeddings: tf.Tensor, values: Values, combiner: Combiner) -> tf.Tensor:
    """Makes one vector of the embeddings of all values of an item, zeros of none.

    Rows of `embeddings`, [total_values, units], have the order of `flat_categories(values)`; in dense `values`,
    [num_items, k], NO_VALUE stands for none.

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


Vocabulary = Union[str, Sequence[str]]


DEFAULT_NUM_BUCKETS = 1 << 17
"""Rows of the table where there is no vocabulary: of 10,000 values, 4% share a row with another."""


class DynamicCategories:
    """Numbers an open set of values, in one of two ways.

    With a vocabulary, such as tf.Transform's `tft_output.vocabulary_file_by_name(...)`, a value is its position
    in it, and the others are hashed to `num_oov_buckets` buckets behind it, as tf.Transform does.
    Without one, all are hashed to `num_buckets` buckets. Either way nothing grows while
    training: GraphLearn's growing tables need its own TensorFlow build.
    """

    def __init__(self, vocabulary: Vocabulary = (), *, num_oov_buckets: int = 1, num_buckets: int = 0) -> None:
        """Reads the vocabulary: values, integers by their decimal texts, or the path of a file with one a line."""
        if num_oov_buckets < 1 or num_buckets < 0:
            raise ValueError(
                f"`num_oov_buckets` must be at least 1, `num_buckets` at least 0; got {num_oov_buckets} and "
                f"{num_buckets}. Correct them."
            )
        if vocabulary and num_buckets:
            raise ValueError(
                f"`num_buckets` must be 0 where there is a `vocabulary`; got {num_buckets}. Set `num_oov_buckets`."
            )
        self._vocabulary = vocabulary
        self._num_oov_buckets = num_oov_buckets
        self._num_buckets = num_buckets
        self._table: Any = None
        if not vocabulary:
            self.num_categories = num_buckets or DEFAULT_NUM_BUCKETS
            return
        with tf.init_scope():
            initializer, size = _initializer(vocabulary)
            self._table = tf.lookup.StaticVocabularyTable(initializer, num_oov_buckets)
        self.num_categories = size + num_oov_buckets

    @property
    def table(self) -> Any:
        """The lookup table, to be tracked by a layer that is saved; None without a vocabulary."""
        return self._table

    def __call__(self, values: Values) -> Values:
        """Numbers strings or integers, dense or ragged, from 0."""
        if self._table is None:
            return hash_to_buckets(values, self.num_categories)
        if values.dtype != tf.string:
            values = tf.ragged.map_flat_values(tf.strings.as_string, values)
        numbered: Values = tf.ragged.map_flat_values(self._table.lookup, values)
        return numbered

    def as_arguments(self) -> dict[str, Any]:
        """Arguments that make equal categories, as JSON can hold them."""
        vocabulary = self._vocabulary
        return {
            "vocabulary": vocabulary if isinstance(vocabulary, str) else list(vocabulary),
            "num_oov_buckets": self._num_oov_buckets,
            "num_buckets": self._num_buckets,
        }


def _initializer(vocabulary: Vocabulary) -> tuple[Any, int]:
    if isinstance(vocabulary, str):
        path = os.fspath(vocabulary)
        with tf.io.gfile.GFile(path, "rb") as lines:
            size = sum(1 for _ in lines)
        line = tf.lookup.TextFileIndex
        return (
            tf.lookup.TextFileInitializer(path, tf.string, line.WHOLE_LINE, tf.int64, line.LINE_NUMBER, size),
            size,
        )
    if len(set(vocabulary)) < len(vocabulary):
        raise ValueError(
            f"`vocabulary` must have each value once; got {len(vocabulary)} values, some twice. Remove them."
        )
    words = tf.constant(list(vocabulary), tf.string)
    return tf.lookup.KeyValueTensorInitializer(words, tf.range(len(vocabulary), dtype=tf.int64)), len(vocabulary)
