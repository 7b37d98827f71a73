"""Embeddings of categories whose number is not known in advance."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Union

import tensorflow as tf

from tfx_gnn.keras.feature_encoders.category_values import Values, hash_to_buckets

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
        """Reads the vocabulary.

        Args:
            vocabulary: values, or the path of a file with one on each line; empty: there is none. Integers are in it
                by their decimal texts.
            num_oov_buckets: buckets for values that the vocabulary lacks, at least 1.
            num_buckets: buckets for all values, without a vocabulary; 0: 131072.

        Raises:
            ValueError: if `num_oov_buckets` is below 1, the vocabulary has a value twice, or there is both a
                vocabulary and a number of buckets.
        """
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
        """Numbers values.

        Args:
            values: strings or integers, dense or ragged, of any shape.

        Returns:
            int64 of the same shape, in [0, num_categories).
        """
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
