import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.category_values import hash_to_buckets
from tfx_gnn.keras.feature_encoders.embedding_column import DynamicEmbeddingColumn, EmbeddingColumn


def test_categories_become_rows():
    """[5] -> [5, 8]."""
    column = EmbeddingColumn("a", 20, 8)

    embedded = column(tf.constant([1, 2, 3, 19, 1], tf.int64))

    assert embedded.shape == (5, 8)
    assert [weight.shape for weight in column.weights] == [(20, 8)]
    np.testing.assert_array_equal(embedded[3], column.weights[0][19])


def test_integers_beyond_the_buckets_are_hashed():
    """[21..26] with 20 buckets -> [6, 8]."""
    column = EmbeddingColumn("b", 20, 8, need_hash=True)
    values = tf.range(21, 27)

    embedded = column(values)

    assert embedded.shape == (6, 8)
    np.testing.assert_array_equal(embedded, tf.gather(column.weights[0], hash_to_buckets(values, 20)))


def test_texts_are_hashed_and_what_is_no_category_has_the_last_row():
    column = EmbeddingColumn("c", 4, 2)

    assert column.prepare(tf.constant(["Bern"])).numpy().tolist() == [int(hash_to_buckets(tf.constant("Bern"), 4))]
    np.testing.assert_array_equal(column(tf.constant([-1, 4])), tf.gather(column.weights[0], [3, 3]))


@pytest.fixture
def cities(tmp_path):
    path = tmp_path / "cities.txt"
    path.write_text("Bern\nRome\nOslo\n")
    return str(path)


def test_a_vocabulary_numbers_values_and_hashes_others_behind_it(cities):
    """A vocabulary of tf.Transform and OOV buckets."""
    by_file = DynamicEmbeddingColumn("city", 4, is_string=True, vocabulary=cities, num_oov_buckets=2)
    by_list = DynamicEmbeddingColumn("city", 4, vocabulary=["Bern", "Rome", "Oslo"], num_oov_buckets=2)
    values = tf.constant(["Oslo", "Bern", "Lima", "Kyiv", "Lima"])

    numbers = by_file.prepare(values)

    oov = 3 + hash_to_buckets(tf.constant(["Lima", "Kyiv", "Lima"]), 2)
    assert numbers.numpy().tolist() == [2, 0, *oov.numpy().tolist()]
    assert by_list.prepare(values).numpy().tolist() == numbers.numpy().tolist()
    assert by_file(values).shape == (5, 4)
    assert by_file.weights[0].shape == (5, 4)


def test_without_a_vocabulary_values_are_hashed_to_many_rows():
    """A hash into a large table."""
    by_default = DynamicEmbeddingColumn("city", 1)
    numbered = DynamicEmbeddingColumn("number", 4, num_buckets=100)

    assert by_default.rows == 131072
    assert numbered(tf.constant([5, 10**15], tf.int64)).shape == (2, 4)
    assert numbered.prepare(tf.constant([5])).numpy().tolist() == [int(hash_to_buckets(tf.constant("5"), 100))]


def test_integers_are_in_a_vocabulary_by_their_texts():
    column = DynamicEmbeddingColumn("year", 2, vocabulary=["1999", "2024"])

    assert column.prepare(tf.constant([2024, 1999, 7])).numpy().tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    "column",
    [
        EmbeddingColumn("a", 20, 8, need_hash=True, max_dense_gradient_elements=10),
        DynamicEmbeddingColumn("b", 4, vocabulary=["x"], num_oov_buckets=2),
    ],
    ids=["known", "dynamic"],
)
def test_an_equal_column_is_made_of_the_config(column):
    again = type(column).from_config(column.get_config())

    assert again.get_config() == column.get_config()
    assert (again.rows, again.dimension) == (column.rows, column.dimension)


def test_a_column_with_a_vocabulary_is_saved_with_its_values(cities, tmp_path):
    values = tf.constant(["Oslo", "Lima"])
    inputs = tf_keras.Input([], dtype=tf.string)
    model = tf_keras.Model(inputs, DynamicEmbeddingColumn("city", 4, vocabulary=cities)(inputs))
    tf.saved_model.save(model, str(tmp_path / "model"))

    loaded = tf.saved_model.load(str(tmp_path / "model"))

    np.testing.assert_array_equal(loaded(values), model(values))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EmbeddingColumn("a", 0, 8), "`bucket_size` and `dimension` must be at least 1; got 0 and 8 for 'a'"),
        (lambda: EmbeddingColumn("a", 2, 8, combiner="max"), "`combiner` must be one of"),
        (lambda: DynamicEmbeddingColumn("a", 2, num_oov_buckets=0), "`num_oov_buckets` must be at least 1"),
        (lambda: DynamicEmbeddingColumn("a", 2, vocabulary=["x"], num_buckets=9), "`num_buckets` must be 0 where"),
        (lambda: DynamicEmbeddingColumn("a", 2, vocabulary=["x", "x"]), "`vocabulary` must have each value once"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
