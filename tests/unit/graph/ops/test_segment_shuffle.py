import collections

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_gnn.graph.ops.node_order import segment_random_index_shuffle


@settings(max_examples=30)
@given(ids=st.lists(st.integers(-3, 3), max_size=12).map(sorted), dtype=st.sampled_from([tf.int32, tf.int64]))
def test_every_index_stays_in_its_segment(ids, dtype):
    segment_ids = tf.constant(ids, dtype, [len(ids)])

    shuffled = segment_random_index_shuffle(segment_ids=segment_ids)

    assert shuffled.dtype == dtype
    assert sorted(shuffled.numpy().tolist()) == list(range(len(ids)))
    assert [ids[i] for i in shuffled.numpy()] == ids


def test_all_permutations_are_about_equally_likely():
    tf.random.set_seed(7)

    @tf.function(jit_compile=True)
    def draw():
        return segment_random_index_shuffle(segment_ids=tf.constant([0, 0, 0, 1]))

    counts = collections.Counter(tuple(draw().numpy()) for _ in range(600))

    assert len(counts) == 6
    assert min(counts.values()) > 60
    assert all(permutation[3] == 3 for permutation in counts)


def test_a_seed_repeats():
    results = []
    for _ in range(2):
        tf.random.set_seed(1)
        results.append(segment_random_index_shuffle(segment_ids=tf.zeros([30], tf.int32), seed=5).numpy().tolist())

    assert results[0] == results[1]


def test_unsorted_segments_are_refused(run):
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be sorted in ascending order"):
        run(lambda ids: segment_random_index_shuffle(segment_ids=ids), tf.constant([0, 1, 0]))


@pytest.mark.parametrize(
    ("segment_ids", "message"),
    [([0.0, 1.0], "must have dtype tf.int32 or tf.int64, got float32"), ([[0]], "rank=1, got 2")],
)
def test_other_tensors_are_refused(segment_ids, message):
    with pytest.raises(ValueError, match=message):
        segment_random_index_shuffle(segment_ids=tf.constant(segment_ids))
