import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.keras.feature_encoders.category_values import NO_VALUE, hash_to_buckets
from tfx_gnn.keras.feature_encoders.sparse_embedding_column import DynamicSparseEmbeddingColumn, SparseEmbeddingColumn


def test_texts_are_split_and_combined():
    """Texts "hi,gl,and,tf" -> [1, 8], the mean by default."""
    column = SparseEmbeddingColumn("a", 10, 8, ",")

    combined = column(tf.constant(["hi,gl,and,tf"]))

    assert combined.shape == (1, 8)
    rows = hash_to_buckets(tf.constant(["hi", "gl", "and", "tf"]), 10)
    np.testing.assert_allclose(combined[0], np.mean(tf.gather(column.weights[0], rows), axis=0), rtol=1e-6)


@pytest.mark.parametrize(("combiner", "expected"), [("mean", [[2.0, 2.0]]), ("sum", [[4.0, 4.0]])])
def test_the_combiner_is_an_argument(combiner, expected):
    """Rows (1, 1) and (3, 3) give (2, 2), or their sum."""
    column = DynamicSparseEmbeddingColumn("a", 2, vocabulary=["x", "y"], combiner=combiner)
    column(tf.constant(["x"]))
    column.weights[0].assign([[1.0, 1.0], [3.0, 3.0], [9.0, 9.0]])

    assert column(tf.constant(["x,y"])).numpy().tolist() == expected


def test_another_delimiter():
    """Two rows with ":", dimension 16 -> [2, 16]."""
    assert SparseEmbeddingColumn("a", 10, 16, ":")(tf.constant(["a:b:c", "d"])).shape == (2, 16)


def test_values_may_be_split_already():
    column = SparseEmbeddingColumn("a", 10, 4)

    split, ragged = column(tf.constant(["a,b", "c"])), column(tf.ragged.constant([["a", "b"], ["c"]]))

    np.testing.assert_array_equal(split, ragged)


def test_padded_values_give_the_same():
    ragged, padded = SparseEmbeddingColumn("a", 10, 4), SparseEmbeddingColumn("a", 10, 4, max_values=3)
    texts = tf.constant(["a,b", "", "c,d,e"])
    expected = ragged(texts)
    padded(texts)
    padded.weights[0].assign(ragged.weights[0])

    prepared = padded.prepare(texts)

    assert prepared.shape == (3, 3)
    assert prepared.numpy()[1, 1:].tolist() == [NO_VALUE, NO_VALUE]
    np.testing.assert_allclose(padded.encode(prepared), expected, rtol=1e-6)


def test_dynamic_values_have_a_vocabulary_or_many_rows():
    by_vocabulary = DynamicSparseEmbeddingColumn("a", 4, ",", vocabulary=["x", "y"])
    by_hash = DynamicSparseEmbeddingColumn("b", 4, ",", num_buckets=50)

    assert by_vocabulary.prepare(tf.constant(["y,x", "z"])).to_list() == [[1, 0], [2]]
    assert by_hash(tf.constant(["y,x", "z"])).shape == (2, 4)
    assert (by_vocabulary.rows, by_hash.rows) == (3, 50)


@pytest.mark.parametrize(
    "column",
    [
        SparseEmbeddingColumn("a", 10, 4, ":", combiner="sum", max_values=2),
        DynamicSparseEmbeddingColumn("b", 4, ";", num_buckets=50),
    ],
    ids=["known", "dynamic"],
)
def test_an_equal_column_is_made_of_the_config(column):
    assert type(column).from_config(column.get_config()).get_config() == column.get_config()


def test_errors():
    with pytest.raises(ValueError, match="`delimiter` must have a character, `max_values` must be at least 0; got ''"):
        SparseEmbeddingColumn("a", 10, 4, "")
