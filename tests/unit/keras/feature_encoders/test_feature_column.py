import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.embedding_columns import EmbeddingColumn, SparseEmbeddingColumn
from tfx_gnn.keras.feature_encoders.feature_column import FeatureColumn, FeatureGroup, NumericColumn


def make_group():
    return FeatureGroup([EmbeddingColumn("a", 10, 4), NumericColumn("b")])


def test_columns_stand_side_by_side():
    """A tensor [b, n] and a list of n tensors [b] give the same; a number has one dimension."""
    group = make_group()

    encoded = group(tf.constant([[3, 7], [9, 8]]))

    assert encoded.shape == (2, 5)
    assert encoded.numpy()[:, 4].tolist() == [7.0, 8.0]
    np.testing.assert_array_equal(encoded, group([tf.constant([3, 9]), tf.constant([7, 8])]))


def test_texts_are_prepared_first():
    group = FeatureGroup([SparseEmbeddingColumn("a", 10, 4), SparseEmbeddingColumn("b", 5, 2, ":")])
    texts = tf.constant([["x,y", "a:b"], ["", "c"]])

    np.testing.assert_array_equal(group.encode(group.prepare(texts)), group(texts))
    assert group(texts).shape == (2, 6)


@pytest.mark.parametrize("values", [tf.zeros([2, 3], tf.int64), [tf.zeros([2], tf.int64)], tf.zeros([2], tf.int64)])
def test_a_wrong_number_of_columns_is_refused(values):
    with pytest.raises(ValueError, match="`values` must have one column for each of 2 feature columns"):
        make_group()(values)


def test_a_group_without_columns_is_refused():
    with pytest.raises(ValueError, match="`columns` must hold at least one column"):
        FeatureGroup([])


def test_an_equal_group_is_made_of_the_config():
    group = make_group()

    again = FeatureGroup.from_config(group.get_config())

    assert again.get_config() == group.get_config()
    assert again(tf.constant([[3, 7]])).shape == (1, 5)


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


def test_a_normalizer_gets_integers_as_floats_that_hold_them_exactly():
    numbers = tf.constant([1, 2, 3, 4, 5])
    seconds = tf.constant([1_600_000_001, 1_600_000_003], tf.int64)

    plain = NumericColumn("plain")(numbers)
    halved = NumericColumn("halved", lambda x: (x - 1) / 2)(numbers)
    shifted = NumericColumn("shifted", lambda x: x - 0.5)(numbers)
    since = NumericColumn("since", lambda x: (x - 1_600_000_000.0) * 0.5)(seconds)

    assert plain.numpy().tolist() == [1, 2, 3, 4, 5]
    assert halved.numpy().tolist() == [0, 0.5, 1, 1.5, 2]
    assert shifted.numpy().tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert since.numpy().tolist() == [0.5, 1.5]
    assert {values.dtype for values in (plain, halved, shifted, since)} == {tf.float32}


class Doubled(EmbeddingColumn):
    def forward(self, x):
        return super().forward(x) * 2


class Logarithm(FeatureColumn):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return tf.math.log(tf.cast(x, tf.float32))


class Called(FeatureColumn):
    def call(self, values):
        return tf.cast(values, tf.float32) + 1


def test_a_column_may_override_forward_as_in_graphlearn():
    doubled = Doubled("city", 10, 4)
    group = FeatureGroup([Logarithm(), doubled, Called("called")])

    encoded = group(tf.constant([[1, 2, 5], [1, 3, 6]]))
    parts = group.encode(group.prepare(tf.constant([[1, 2, 5], [1, 3, 6]])))

    assert encoded[:, 0].numpy().tolist() == [0, 0]
    np.testing.assert_array_equal(encoded[:, 1:5], 2 * tf.gather(doubled.weights[0], [2, 3]))
    assert encoded[:, 5].numpy().tolist() == [6, 7]
    np.testing.assert_array_equal(encoded, parts)
    np.testing.assert_array_equal(encoded, group.forward(tf.constant([[1, 2, 5], [1, 3, 6]])))
    assert tf.function(Logarithm())(tf.constant([1])).numpy().tolist() == [0]
    with pytest.raises(NotImplementedError, match="`encode` or `forward` must be written for FeatureColumn"):
        FeatureColumn("none")(tf.constant([1]))
