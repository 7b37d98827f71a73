"""Maps categories to rows of an embedding table, and combines several categories of an item.

A category is an index, an entry of a vocabulary, or a hash, which is the same in every process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, Union

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import default_vocabulary_name
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.keras.feature_encoders.encoder_options import COMBINERS, Combiner

Values = Union[tf.Tensor, tf.RaggedTensor]


def hash_to_buckets(values: Values, num_buckets: int) -> Values:
    """Hashes values to categories.

    It applies `tf.strings.to_hash_bucket_fast` to strings, and to integers as decimal strings. The result
    depends only on the bytes, so tables, tf.Transform and TensorFlow Serving agree on it. TPUs have
    no strings: there, hashing belongs in the input pipeline.

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
    """Splits each string into its values.

    Nothing is skipped: an empty string has the single value "", and so does the gap between two adjacent delimiters.

    Args:
        texts: strings, shape [num_items].
        delimiter: separator of values, at least one character.

    Returns:
        Strings, ragged, of shape [num_items, (num_values)], with at least one value each.

    Raises:
        ValueError: if the delimiter is empty.

    Example:
        >>> split_values(tf.constant(["1,5", "", "a,,b"]), ",").to_list()
        [[b'1', b'5'], [b''], [b'a', b'', b'b']]
    """
    if not delimiter:
        raise ValueError("`delimiter` must have a character; got ''. Set it to the separator of the values.")
    parts: tf.RaggedTensor = tf.strings.split(texts, delimiter)
    return parts


class TransformOutput(Protocol):
    """The part of the interface of `tft.TFTransformOutput` that is used here.

    If the object also has `transformed_domains()`, its ranges of indices take precedence: they include
    `num_oov_buckets`, and do not depend on the name of a vocabulary.
    """

    def vocabulary_size_by_name(self, vocab_filename: str) -> int:
        """Returns the number of values of a vocabulary."""
        ...


def category_count(tft_output: TransformOutput | None, name: str, vocabulary: str = "") -> int:
    """Returns the number of categories of a feature such as "nodes/paper.venue"; 0 if tf.Transform does not know it.

    Without a `vocabulary`, the number comes from the range of indices that tf.Transform gives for the feature, or
    else from the vocabulary with the name of the feature, such as "venue".
    """
    if tft_output is None:
        return 0
    if vocabulary:
        try:
            return int(tft_output.vocabulary_size_by_name(vocabulary))
        except (LookupError, ValueError) as error:
            raise ValueError(
                f"`vocabulary` must name one that `preprocessing_fn` makes; got {vocabulary!r} for {name!r}. Use "
                "the same `vocab_filename` there."
            ) from error
    domain: Any = _domains(tft_output).get(name)
    if getattr(domain, "is_categorical", False):
        return int(domain.max) + 1
    try:
        return int(tft_output.vocabulary_size_by_name(feature_name(name)))
    except (LookupError, ValueError):
        return 0


def find_vocabulary(tft_output: TransformOutput | None, name: str, num_categories: int) -> str:
    """Finds the vocabulary that numbers a feature such as "nodes/paper.venue", by the names that it may have.

    Returns:
        "nodes.paper.venue", as ready-made preprocessing names it, or "venue"; "" if tf.Transform has neither, or one
        with more terms than the feature has categories.
    """
    for vocabulary in (default_vocabulary_name(name), feature_name(name)):
        try:
            if tft_output is not None and tft_output.vocabulary_size_by_name(vocabulary) <= num_categories:
                return vocabulary
        except (LookupError, ValueError):
            continue
    return ""


def feature_name(name: str) -> const.FieldName:
    """Extracts the name of a feature from its full name: 'kind' of "edges/cites.kind", 'year' of "context/year"."""
    return name.removeprefix("context/") if name.startswith("context/") else name.partition(".")[2]


def _domains(tft_output: TransformOutput) -> Mapping[str, Any]:
    known = getattr(tft_output, "transformed_domains", None)
    return {} if known is None else known()


NO_VALUE = -(2**31)
"""Padding in a dense feature of several values, for items that have fewer values than its width."""


def table_rows(values: tf.Tensor, num_rows: int) -> tf.Tensor:
    """Returns the row of each category, int32; invalid categories get the last row.

    A lookup of a missing row fails on CPUs, and returns zeros or arbitrary values on accelerators.
    With this function every value has a row: also -1, with which tf.Transform marks values that its
    vocabulary lacks, numbers beyond the table, and padding.

    Example:
        >>> table_rows(tf.constant([0, 2, 3, -1], tf.int64), 3).numpy().tolist()
        [0, 2, 2, 2]
    """
    values = _wide(values)
    last = tf.constant(num_rows - 1, values.dtype)
    is_row = tf.logical_and(values >= 0, values <= last)
    return tf.cast(tf.where(is_row, values, last), tf.int32)


OutOfRange = Literal["error", "hash", "oov", "last"]

OUT_OF_RANGE = ("error", "hash", "oov", "last")
"""What can become of integers that are not categories."""


def categories_in_range(values: Values, num_categories: int, out_of_range: OutOfRange, column: str) -> Values:
    """Checks that integers are categories, in [0, num_categories), or makes categories of them.

    "error" refuses others, "hash" hashes them to categories, "oov" makes `num_categories` of them, and "last"
    leaves them to `table_rows`. NO_VALUE, which pads several values of an item, is left as it is.

    Example:
        >>> categories_in_range(tf.constant([0, 7, -1]), 3, "oov", "color").numpy().tolist()
        [0, 3, 3]
    """
    values = values if isinstance(values, tf.RaggedTensor) else tf.convert_to_tensor(values)
    if out_of_range == "last" or not values.dtype.is_integer:
        return values
    if out_of_range == "error":
        return tf.ragged.map_flat_values(_checked_categories, values, num_categories, column, values.shape.rank != 1)
    return tf.ragged.map_flat_values(_replaced_categories, values, num_categories, out_of_range == "hash")


def _checked_categories(values: tf.Tensor, num_categories: int, column: str, may_be_padded: bool) -> tf.Tensor:
    wide = _wide(values)
    seen = tf.where(wide == NO_VALUE, tf.zeros_like(wide), wide) if may_be_padded else wide
    # The extremes of no values are the other way round, and pass.
    lowest, highest = tf.reduce_min(seen), tf.reduce_max(seen)
    is_low = lowest < 0
    # In an order that also holds for unsigned and for empty values.
    is_right = tf.logical_and(tf.logical_not(is_low), highest < num_categories)
    wrong = tf.where(is_low, lowest, highest)
    text = f"`{column}` must have integers in [0, {num_categories}), its bucket size; got "
    remedy = 'Enlarge the bucket, or set out_of_range="hash" or "oov", or need_hash.'
    if tf.executing_eagerly():
        if not is_right:
            raise tf.errors.InvalidArgumentError(None, None, f"{text}{int(wrong)}. {remedy}")
        return values
    with tf.control_dependencies([tf.debugging.Assert(is_right, [text, wrong, remedy])]):
        return tf.identity(values)


def _replaced_categories(values: tf.Tensor, num_categories: int, is_hashed: bool) -> tf.Tensor:
    wide = _wide(values)
    is_category = tf.logical_and(wide >= 0, wide < num_categories)
    others = hash_to_buckets(wide, num_categories) if is_hashed else num_categories
    replaced = tf.where(is_category, wide, tf.cast(others, wide.dtype))
    return tf.where(wide == NO_VALUE, wide, replaced)


def pad_values(values: tf.RaggedTensor, max_values: int) -> tf.Tensor:
    """Makes ragged categories dense, for accelerators that need static shapes.

    Args:
        values: integers, ragged, of shape [num_items, (num_values)].
        max_values: width of the result, at least 1.

    Returns:
        Integers of shape [num_items, max_values], with NO_VALUE after the values of an item.

    Raises:
        tf.errors.InvalidArgumentError: at run time, if an item has more than `max_values` values.

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
    """Flattens the categories of all items, [num_items], [num_items, k] or ragged, to one dimension."""
    return values.values if isinstance(values, tf.RaggedTensor) else tf.reshape(values, [-1])


def combine_embeddings(embeddings: tf.Tensor, values: Values, combiner: Combiner) -> tf.Tensor:
    """Combines the embeddings of all values of an item to one vector; zeros if it has no values.

    Rows of `embeddings`, [total_values, units], have the order of `flat_categories(values)`; in dense `values`,
    [num_items, k], NO_VALUE marks a missing value.

    Example:
        >>> vectors = tf.constant([[1., 2.], [3., 4.], [9., 9.]])
        >>> combine_embeddings(vectors, tf.ragged.constant([[5, 6], [], [7]]), "mean").numpy().tolist()
        [[2.0, 3.0], [0.0, 0.0], [9.0, 9.0]]
    """
    if combiner not in COMBINERS:
        raise ValueError(
            f"`combiner` must be one of {list(COMBINERS)}; got {combiner!r}. "
            f"{did_you_mean(combiner, COMBINERS, otherwise='Choose one of these.')}"
        )
    if values.shape.rank not in (1, 2):
        raise ValueError(
            f"`values` must have one or two dimensions; got shape {values.shape}. Flatten the values of each item."
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
    """Casts small integers to int64, which can hold NO_VALUE and any number of rows."""
    return values if values.dtype in (tf.int32, tf.int64) else tf.cast(values, tf.int64)


Vocabulary = Union[str, Sequence[str]]


DEFAULT_NUM_BUCKETS = 1 << 17
"""Default number of rows without a vocabulary: of 10,000 values, 7% share a row with another."""


class DynamicCategories:
    """Numbers an open set of values, in one of two ways.

    With a vocabulary, such as tf.Transform's `tft_output.vocabulary_file_by_name(...)`, a value gets its position
    in it, and all other values are hashed to the next `num_oov_buckets` numbers, as in tf.Transform.
    Without a vocabulary, all values are hashed to `num_buckets` buckets. Either way, nothing grows during
    training: GraphLearn's growing tables need its own TensorFlow build.
    """

    def __init__(self, vocabulary: Vocabulary = (), *, num_oov_buckets: int = 1, num_buckets: int = 0) -> None:
        """Reads the vocabulary: values, with integers as decimal strings, or the path of a file with one per line."""
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
        """Returns the arguments of the constructor, in a form that JSON can hold."""
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
