import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_gnn.graph.tensor.components import component_indices


def test_items_of_a_component_follow_each_other(run):
    indices = run(lambda sizes: component_indices(sizes, tf.reduce_sum(sizes)), tf.constant([0, 2, 0, 0, 3, 0]))

    assert indices.numpy().tolist() == [1, 1, 4, 4, 4]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 5), max_size=6), st.sampled_from([tf.int32, tf.int64]))
def test_each_component_occurs_as_often_as_its_size(sizes, dtype):
    indices = component_indices(tf.constant(sizes, dtype, [len(sizes)]), sum(sizes))

    assert indices.dtype == dtype
    assert indices.shape.as_list() == [sum(sizes)]
    assert indices.numpy().tolist() == [i for i, size in enumerate(sizes) for _ in range(size)]
