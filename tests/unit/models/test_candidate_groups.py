from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.models.candidate_groups import MAX_PADDING_BYTES, pad_candidates


def test_candidates_of_each_example_become_a_row():
    padded = pad_candidates(tf.constant([1.0, 2.0, 3.0]), tf.constant([2, 0, 1]), -1.0)

    assert padded.numpy().tolist() == [[1.0, 2.0], [-1.0, -1.0], [3.0, -1.0]]
    assert pad_candidates(tf.constant([b"a", b"b"]), tf.constant([1, 1]), "").numpy().tolist() == [[b"a"], [b"b"]]


def test_no_examples_are_no_rows():
    assert pad_candidates(tf.zeros([0, 3]), tf.zeros([0], tf.int32), 0.0).shape[0] == 0


@pytest.mark.parametrize(
    ("values", "bytes_of_pair"),
    [(tf.zeros([60_001]), 4), (tf.zeros([60_001, 8]), 32), (tf.fill([60_001], b"id"), 24)],
    ids=["scores", "vectors", "strings"],
)
def test_padding_that_takes_too_much_memory_is_refused(values, bytes_of_pair):
    """One example with 60,000 candidates, one with one: each further, empty one adds a row of padding."""
    pad = tf.function(lambda values, sizes: pad_candidates(values, sizes, "" if values.dtype == tf.string else 0.0))
    most = (MAX_PADDING_BYTES // bytes_of_pair - 59_999) // 60_000

    pad(values, tf.constant([60_000, 1] + [0] * min(most, 10)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have similar numbers of candidate pairs"):
        pad(values, tf.constant([60_000, 1] + [0] * (most + 1)))


def test_one_example_may_have_any_number():
    assert pad_candidates(tf.zeros([12_000_000], tf.int8), tf.constant([12_000_000]), 0).shape == [1, 12_000_000]
