"""The labels of candidate pairs, in the form that link losses and metrics take.

Link labels are int64 [n, 2]. The first column is 1 for a true pair, 0 for a false pair (a negative), and any other
number for a pair that is ignored. The second column is the row at which the candidates of the same example begin.
It identifies the example, and is less than n, so it can be a segment id.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tfx_gnn.serving import model_interface

#: Bytes of padding that one output of a request may have. Examples are padded to the most candidates that one of them
#: has, so memory grows with the product of two numbers that a request chooses.
MAX_PADDING_BYTES = 2**28
_STRING_BYTES = 24


class Candidates(NamedTuple):
    """Decoded link labels.

    Attributes:
        is_true: bool [n].
        is_false: bool [n].
        group: int32 [n], identifies the example; values in [0, n).
    """

    is_true: tf.Tensor
    is_false: tf.Tensor
    group: tf.Tensor

    @staticmethod
    def of(labels: tf.Tensor) -> Candidates:
        """Decodes labels, integers or float32 [n, 2]."""
        labels = tf.cast(labels, tf.int32)
        return Candidates(is_true=labels[:, 0] == 1, is_false=labels[:, 0] == 0, group=labels[:, 1])


def static_rows(value: tf.Tensor) -> int | tf.Tensor:
    """Returns the number of rows, as a Python int if it is static: XLA needs a static number of segments."""
    return tf.shape(value)[0] if value.shape[0] is None else int(value.shape[0])


def have_false_ones(candidates: Candidates) -> tf.Tensor:
    """Returns which candidates have a negative in their example, bool [n]; the others have no meaningful rank."""
    is_false = tf.cast(candidates.is_false, tf.int32)
    num_false = tf.math.unsorted_segment_sum(is_false, candidates.group, static_rows(is_false))
    return tf.gather(num_false, candidates.group) > 0


def ranks_of_candidates(candidates: Candidates, scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Ranks each candidate among the negatives of its example.

    Returns the rows of the candidates in some order, int32 [n], and in the same order their ranks, float32 [n]:
    rank = 1 + number of higher-scoring negatives + 0.5 x number of tied negatives, which is the mean of the ranks that
    a tie allows. Other true pairs of the example are ignored ("filtered" ranks).
    """
    num_rows = static_rows(scores)
    # Sorted by score, then stably by example: the candidates of an example are adjacent, the best one first.
    order = tf.argsort(scores, direction="DESCENDING", stable=True)
    order = tf.gather(order, tf.argsort(tf.gather(candidates.group, order), stable=True))
    group, score = tf.gather(candidates.group, order), tf.gather(scores, order)
    is_false = tf.gather(tf.cast(candidates.is_false, tf.int32), order)
    false_before = tf.cumsum(is_false, exclusive=True)
    starts_tie = (group != _shifted(group, -1)) | (score != _shifted(score, float("nan")))
    tie = tf.cumsum(tf.cast(starts_tie, tf.int32)) - 1

    def first(ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.math.unsorted_segment_min(false_before, ids, num_rows), ids)

    higher = first(tie) - first(group)
    same = tf.gather(tf.math.unsorted_segment_sum(is_false, tie, num_rows), tie)
    return order, 1.0 + tf.cast(higher, tf.float32) + 0.5 * tf.cast(same, tf.float32)


def _shifted(values: tf.Tensor, first: float) -> tf.Tensor:
    """Moves each value down by one row; `first` fills row 0."""
    return tf.concat([tf.constant([first], values.dtype), values], axis=0)[:-1]


def pad_candidates(values: tf.Tensor, sizes: tf.Tensor, default: float | str) -> tf.Tensor:
    """Arranges values of candidate pairs, [candidates, ...], in one row per example: [n, most candidates, ...].

    Asserts that the padding takes bounded memory. `sizes`, [n], holds the number of candidates of each example.
    """
    sizes = tf.cast(sizes, tf.int64)
    num_padded = tf.size(sizes, tf.int64) * tf.reduce_max(sizes) - tf.reduce_sum(sizes)
    bytes_of_pair = tf.reduce_prod(tf.shape(values, tf.int64)[1:]) * (values.dtype.size or _STRING_BYTES)
    message = (
        f"`{model_interface.EXAMPLES_INPUT}` must have similar numbers of candidate pairs in every example, so that "
        f"padding to the largest number takes at most {MAX_PADDING_BYTES} bytes of an output; got more. Send examples "
        "with many candidates in a request of their own."
    )
    check = tf.debugging.assert_less_equal(
        num_padded * bytes_of_pair, tf.constant(MAX_PADDING_BYTES, tf.int64), message=message
    )
    # In eager mode the check has been made.
    with tf.control_dependencies([] if check is None else [check]):
        rows = tf.RaggedTensor.from_row_lengths(tf.identity(values), sizes, validate=False)
    padded: tf.Tensor = rows.to_tensor(default_value=tf.cast(default, values.dtype) if default != "" else default)
    return padded
