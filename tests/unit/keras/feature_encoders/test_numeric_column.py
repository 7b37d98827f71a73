import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.numeric_column import NumericColumn


@tf_keras.utils.register_keras_serializable(package="tfx_gnn_tests")
def halved(values):
    return values / 2


def test_numbers_become_floats():
    """Ints [1..5] -> [1.0..5.0]."""
    numbers = NumericColumn("a")(tf.constant([1, 2, 3, 4, 5]))

    assert numbers.numpy().tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert numbers.dtype == tf.float32


def test_numbers_are_normalized_first():
    """(x - 1) / 2, of the integers as they are."""
    assert NumericColumn("b", lambda x: (x - 1) / 2)(tf.constant([1, 2, 3])).numpy().tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("function", [None, halved], ids=["as is", "normalized"])
def test_an_equal_column_is_made_of_the_config(function):
    column = NumericColumn("a", function)

    again = NumericColumn.from_config(column.get_config())

    assert again(tf.constant([3])).numpy().tolist() == column(tf.constant([3])).numpy().tolist()
