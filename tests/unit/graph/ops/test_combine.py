import pytest
import tensorflow as tf

from tfx_gnn.graph.ops.broadcasting import combine_values


def test_values_are_concatenated_along_the_last_axis(run):
    joined = run(lambda a, b: combine_values([a, b], "concat"), tf.constant([[1], [2]]), tf.constant([[3, 4], [5, 6]]))

    assert joined.numpy().tolist() == [[1, 3, 4], [2, 5, 6]]


def test_values_are_added(run):
    total = run(lambda a, b: combine_values([a, b, a], "sum"), tf.constant([[1], [2]]), tf.constant([[3], [5]]))

    assert total.numpy().tolist() == [[5], [9]]


def test_ragged_values_are_combined():
    ragged = tf.ragged.constant([[1], [2, 3]])

    assert combine_values([ragged, ragged], "sum").to_list() == [[2], [4, 6]]
    assert combine_values([ragged, ragged], "concat").to_list() == [[1, 1], [2, 3, 2, 3]]


def test_a_single_value_stays():
    assert combine_values([tf.constant([1, 2])], "sum").numpy().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("inputs", "combine_type", "error", "message"),
    [
        (
            [tf.ones([2])],
            "mean",
            ValueError,
            r"Unknown combine type mean\. Known combine types are: \['sum', 'concat'\]",
        ),
        ([], "concat", tf.errors.InvalidArgumentError, "got no inputs"),
        ([], "sum", ValueError, "got no inputs"),
        (
            [tf.ones([2, 1]), tf.ones([2, 2])],
            "sum",
            tf.errors.InvalidArgumentError,
            r'failed for combine_type="sum".*float32\(2, 1\), float32\(2, 2\)',
        ),
        (
            [tf.ones([2, 1]), tf.ones([3, 1])],
            "concat",
            tf.errors.InvalidArgumentError,
            'failed for combine_type="concat"',
        ),
        ([tf.ones([2, 1]), tf.ones([2, 1], tf.int32)], "concat", tf.errors.InvalidArgumentError, "int32"),
    ],
)
def test_values_that_do_not_match_are_refused(inputs, combine_type, error, message):
    with pytest.raises(error, match=message):
        combine_values(inputs, combine_type)


@pytest.mark.parametrize(
    ("other", "error"), [(tf.TensorSpec([2, 2]), ValueError), (tf.TensorSpec([2, 1], tf.int32), TypeError)]
)
def test_static_mismatches_are_found_while_tracing(other, error):
    combine = tf.function(lambda a, b: combine_values([a, b], "sum"))

    with pytest.raises(error, match=r"sum.*matching structures"):
        combine.get_concrete_function(tf.TensorSpec([2, 1]), other)


def test_values_are_not_stretched_to_match():
    with pytest.raises(tf.errors.InvalidArgumentError, match="matching structures"):
        combine_values([tf.ones([2, 2]), tf.ones([2])], "sum")
