import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.keras.feature_encoders.embedding_column import EmbeddingColumn
from tfx_gnn.keras.feature_encoders.feature_group import FeatureGroup
from tfx_gnn.keras.feature_encoders.numeric_column import NumericColumn
from tfx_gnn.keras.feature_encoders.sparse_embedding_column import SparseEmbeddingColumn


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
