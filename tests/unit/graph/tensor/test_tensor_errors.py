import pytest
import tensorflow as tf

from tfx_gnn.graph.tensor.run_time_checks import wrong_dtype, wrong_shape


@pytest.mark.parametrize(
    ("make", "operation", "traced_type"),
    [
        (wrong_shape, lambda: tf.math.unsorted_segment_sum(tf.ones([2]), tf.constant([0, 1, 2]), 3), ValueError),
        (wrong_dtype, lambda: tf.exp(tf.constant([1])), TypeError),
    ],
)
def test_errors_are_of_the_type_that_tensorflow_raises(make, operation, traced_type):
    made = {}

    def fail():
        made[tf.executing_eagerly()] = type(make("does not fit"))
        operation()

    with pytest.raises(tf.errors.InvalidArgumentError):
        fail()
    with pytest.raises(traced_type):
        tf.function(fail)()
    assert made == {True: tf.errors.InvalidArgumentError, False: traced_type}
    assert str(make("does not fit")) == "does not fit"
