import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from tfx_gnn.keras.feature_encoders.category_values import (
    NO_VALUE,
    combine_embeddings,
    hash_to_buckets,
    pad_values,
    split_values,
    table_rows,
)
from tfx_gnn.tables.packed_column import hash_buckets

VECTORS = tf.constant([[1.0, 1.0], [3.0, 3.0], [10.0, 20.0]])


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.uint8], ids=lambda dtype: dtype.name)
def test_what_is_no_category_has_the_last_row(dtype):
    values = [0, 1, 299 % 256, 4, 5] + ([-1, NO_VALUE, 2**31 - 1] if dtype.is_integer and dtype.min < 0 else [])

    rows = table_rows(tf.constant(values, dtype), 5)

    assert rows.numpy().tolist() == [0, 1, 4, 4, 4, *[4] * (len(values) - 5)]
    assert rows.dtype == tf.int32


def test_more_rows_than_a_small_dtype_can_count():
    assert table_rows(tf.constant([255], tf.uint8), 1000).numpy().tolist() == [255]


@pytest.mark.parametrize("static", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("combiner", "expected"),
    [("mean", [[2.0, 2.0], [0.0, 0.0], [10.0, 20.0]]), ("sum", [[4.0, 4.0], [0.0, 0.0], [10.0, 20.0]])],
)
def test_embeddings_of_several_values_are_combined(combiner, expected, static):
    """The mean by default; rows (1, 1) and (3, 3) give (2, 2)."""
    spec = tf.RaggedTensorSpec([3 if static else None, None], tf.int64, 1)
    combine = tf.function(
        lambda vectors, values: combine_embeddings(vectors, values, combiner),
        input_signature=[tf.TensorSpec([None, 2]), spec],
    )

    combined = combine(VECTORS, tf.ragged.constant([[5, 6], [], [7]], tf.int64))

    assert combined.numpy().tolist() == expected


def test_dense_values_leave_out_what_is_none():
    values = tf.constant([[5, NO_VALUE, 6], [NO_VALUE] * 3, [7, -1, 7]], tf.int64)
    vectors = tf.reshape(tf.range(18.0), [9, 2])

    combined = combine_embeddings(vectors, values, "mean")

    assert combined.numpy().tolist() == [[2.0, 3.0], [0.0, 0.0], [14.0, 15.0]]


def test_one_value_an_item_is_not_combined():
    assert combine_embeddings(VECTORS, tf.constant([4, 4, 4]), "sum") is VECTORS


@pytest.mark.parametrize("values", [tf.zeros([0, 3], tf.int64), tf.zeros([2, 0], tf.int64)], ids=["items", "values"])
def test_nothing_combines_to_zeros(values):
    combined = combine_embeddings(tf.zeros([0, 2]), values, "mean")

    np.testing.assert_array_equal(combined, np.zeros([values.shape[0], 2]))


def test_ragged_values_are_padded_or_refused():
    ragged = tf.ragged.constant([[4], [], [7, 8]], tf.int64)

    assert pad_values(ragged, 3).shape.as_list() == [3, 3]
    assert pad_values(ragged[:0], 2).shape.as_list() == [0, 2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="`max_values` must be at least"):
        pad_values(ragged, 1)


def test_errors():
    with pytest.raises(ValueError, match=r"`combiner` must be one of \['mean', 'sum'\]; got 'max'"):
        combine_embeddings(VECTORS, tf.constant([1, 2, 3]), "max")
    with pytest.raises(ValueError, match=r"`values` must have one or two dimensions; got shape \(1, 1, 3\)"):
        combine_embeddings(VECTORS, tf.constant([[[1, 2, 3]]]), "mean")


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
