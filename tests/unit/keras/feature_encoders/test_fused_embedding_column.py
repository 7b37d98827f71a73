import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.keras.feature_encoders.fused_embedding_column import FusedEmbeddingColumn


def test_one_table_serves_all_inputs():
    """[10, 20, 30] of dimension 8, 3 x [4] -> table [60, 8], output [4, 24]."""
    column = FusedEmbeddingColumn("a", [10, 20, 30], 8)
    first, second, third = [0, 1, 2, 9], [0, 5, 19, 20], [29, 0, -1, 3]

    fused = column([tf.constant(first), tf.constant(second), tf.constant(third)])

    assert fused.shape == (4, 24)
    assert [weight.shape for weight in column.weights] == [(60, 8)]
    table = column.weights[0].numpy()
    # Input i begins at row sum(bucket_list[:i]); what is outside of an input has its last row.
    np.testing.assert_array_equal(fused[:, :8], table[first])
    np.testing.assert_array_equal(fused[:, 8:16], table[[10, 15, 29, 29]])
    np.testing.assert_array_equal(fused[:, 16:], table[[59, 30, 59, 33]])


def test_the_tables_of_the_document():
    """[100, 12] and [50, 12] -> [150, 12]."""
    column = FusedEmbeddingColumn("a", [100, 50], 12)

    assert column([tf.constant([28]), tf.constant([0])]).shape == (1, 24)
    assert column.weights[0].shape == (150, 12)


def test_a_wrong_number_of_inputs_is_refused():
    with pytest.raises(ValueError, match="`values` must have one tensor for each of 2 inputs; got 1 for 'a'"):
        FusedEmbeddingColumn("a", [10, 20], 8)([tf.constant([1])])
    with pytest.raises(ValueError, match="`bucket_list` must hold at least one number"):
        FusedEmbeddingColumn("a", [], 8)


def test_an_equal_column_is_made_of_the_config():
    column = FusedEmbeddingColumn("a", [10, 20], 8)

    assert FusedEmbeddingColumn.from_config(column.get_config()).get_config() == column.get_config()
