import pyarrow as pa
import pytest
import tensorflow as tf

from tfx_gnn.keras.feature_encoders.category_values import hash_to_buckets, split_values
from tfx_gnn.tables.packed_column import hash_buckets

WORDS = ["Hangzhou", "Bern", "", "🚀", "1000008"]


def test_texts_are_hashed_as_the_tables_hash_them():
    """The bucket of a text is the same in tables, models and in any process."""
    buckets = hash_to_buckets(tf.constant(WORDS), 10)

    # Of farmhash's Fingerprint64, and so of the bytes alone; a change of these breaks trained models.
    assert buckets.numpy().tolist() == hash_buckets(pa.array(WORDS), 10).tolist() == [4, 1, 3, 0, 0]
    assert buckets.dtype == tf.int64


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64], ids=lambda dtype: dtype.name)
def test_integers_are_hashed_by_their_decimal_texts(dtype):
    numbers = tf.constant([1000008, -5, 0], dtype)

    expected = hash_to_buckets(tf.constant(["1000008", "-5", "0"]), 7)
    assert hash_to_buckets(numbers, 7).numpy().tolist() == expected.numpy().tolist()


def test_ragged_values_keep_their_rows():
    hashed = hash_to_buckets(tf.ragged.constant([["Bern"], [], ["", "Bern"]]), 10)

    assert hashed.to_list() == [[1], [], [3, 1]]


def test_fractions_are_refused():
    with pytest.raises(TypeError, match="`values` must be strings or integers; got float32"):
        hash_to_buckets(tf.constant([0.5]), 10)


def test_nothing_is_skipped_when_texts_are_split():
    """Skip_empty=False."""
    assert split_values(tf.constant([",a", "", "a::b"]), ",").to_list() == [[b"", b"a"], [b""], [b"a::b"]]
    assert split_values(tf.constant(["a::b"]), ":").to_list() == [[b"a", b"", b"b"]]
    with pytest.raises(ValueError, match="`delimiter` must have a character"):
        split_values(tf.constant(["a"]), "")
