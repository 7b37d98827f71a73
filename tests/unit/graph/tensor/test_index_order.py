import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_gnn.graph.tensor.sorted_adjacency import stable_order


@pytest.mark.parametrize("jit_compile", [None, False, True], ids=["eager", "traced", "xla"])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize(
    ("index", "expected"),
    [([2, 0, 2, 1, 0], [1, 4, 3, 0, 2]), ([], []), ([7], [0]), ([3, 3, 3], [0, 1, 2])],
)
def test_positions_are_ordered_by_index_and_stay_in_order_where_it_is_equal(index, expected, dtype, jit_compile):
    function = stable_order if jit_compile is None else tf.function(stable_order, jit_compile=jit_compile)

    order = function(tf.constant(index, dtype))

    assert order.dtype == dtype
    assert order.numpy().tolist() == expected


def test_agrees_with_numpy():
    traced = tf.function(stable_order, input_signature=[tf.TensorSpec([None], tf.int32)])

    @settings(max_examples=50)
    @given(st.lists(st.integers(0, 8), max_size=40))
    def check(index):
        np.testing.assert_array_equal(traced(tf.constant(index, tf.int32)), np.argsort(index, kind="stable"))

    check()


def test_the_static_size_is_kept():
    traced = tf.function(stable_order).get_concrete_function(tf.TensorSpec([5], tf.int64))

    assert traced.structured_outputs.shape == [5]


def test_negative_indices_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of bounds"):
        stable_order(tf.constant([0, -1]))
