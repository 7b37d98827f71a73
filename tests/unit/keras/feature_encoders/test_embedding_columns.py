import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.category_values import NO_VALUE, hash_to_buckets
from tfx_gnn.keras.feature_encoders.embedding_columns import (
    DynamicEmbeddingColumn,
    DynamicSparseEmbeddingColumn,
    EmbeddingColumn,
    FusedEmbeddingColumn,
    SparseEmbeddingColumn,
)
from tfx_gnn.keras.feature_encoders.feature_column import PartitionableColumn


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


def test_texts_are_hashed():
    column = EmbeddingColumn("c", 4, 2)

    assert column.prepare(tf.constant(["Bern"])).numpy().tolist() == [int(hash_to_buckets(tf.constant("Bern"), 4))]


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (lambda: EmbeddingColumn("city", 20, 8), [3, 25], r"`city` must have integers in \[0, 20\).*got.*25"),
        (lambda: EmbeddingColumn("city", 20, 8), [3, -1], r"`city` must have integers in \[0, 20\).*got.*-1"),
        (lambda: PartitionableColumn("color", 3, 2), [2**40], rf"`color` must have.*{2**40}"),
        (lambda: PartitionableColumn("color", 3, 2), [[0, 3], [1, 1]], r"`color` must have.*\[0, 3\).*got.*3"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_an_integer_beyond_the_bucket_is_refused(make, values, message, wrap):
    column = make()
    encode = wrap(column)

    assert encode(tf.constant([0, 1], tf.int64)).shape == [2, column.dimension]
    assert encode(tf.zeros([0], tf.int64)).shape == [0, column.dimension]
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"(?s){message}.*Enlarge the bucket"):
        encode(tf.constant(values, tf.int64))


def test_an_integer_beyond_the_bucket_is_refused_in_pipelines_and_saved_models(tmp_path):
    column = EmbeddingColumn("city", 20, 8)
    column(tf.constant([0]))
    module = tf.Module()
    module.column = column
    module.serve = tf.function(column, input_signature=[tf.TensorSpec([None], tf.int64)])
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))

    assert loaded.serve(tf.constant([3], tf.int64)).shape == [1, 8]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`city` must have integers in \[0, 20\)"):
        loaded.serve(tf.constant([20], tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`city` must have integers in \[0, 20\)"):
        list(tf.data.Dataset.from_tensors([30]).map(column.prepare))


def test_compiled_columns_give_what_is_no_category_the_last_row():
    column = EmbeddingColumn("city", 20, 8)

    embedded = tf.function(column, jit_compile=True)(tf.constant([0, 25, -1]))

    np.testing.assert_array_equal(embedded, tf.gather(column.weights[0], [0, 19, 19]))


@pytest.mark.parametrize(
    ("rule", "expected", "num_rows"),
    [
        ("last", [0, 3, 3, 3], 4),
        ("oov", [0, 3, 4, 4], 5),
        ("hash", [0, 3, int(hash_to_buckets(tf.constant("-1"), 4)), int(hash_to_buckets(tf.constant("9"), 4))], 4),
    ],
)
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_an_option_gives_integers_beyond_the_bucket_a_row(rule, expected, num_rows, wrap):
    column = EmbeddingColumn("c", 4, 2, out_of_range=rule)

    embedded = wrap(column)(tf.constant([0, 3, -1, 9]))

    np.testing.assert_array_equal(embedded, tf.gather(column.weights[0], expected))
    assert column.weights[0].shape == [num_rows, 2]
    again = EmbeddingColumn.from_config(column.get_config())
    assert again(tf.constant([9])).shape == [1, 2]
    assert again.weights[0].shape == [num_rows, 2]


def test_texts_never_have_the_row_of_integers_beyond_the_bucket():
    column = EmbeddingColumn("c", 4, 2, out_of_range="oov")

    assert column.prepare(tf.constant(["Bern"])).numpy().tolist() == [int(hash_to_buckets(tf.constant("Bern"), 4))]


def test_padding_is_in_range():
    column = PartitionableColumn("c", 3, 2, out_of_range="oov")

    padded = tf.constant([[1, NO_VALUE], [7, 0]])

    assert column.prepare(padded).numpy().tolist() == [[1, NO_VALUE], [3, 0]]
    assert PartitionableColumn("d", 3, 2).prepare(padded[:1]).numpy().tolist() == [[1, NO_VALUE]]
    with pytest.raises(ValueError, match="`out_of_range` must be one of"):
        EmbeddingColumn("c", 3, 2, out_of_range="clip")


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
def test_errors_of_columns_of_one_category(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_one_table_serves_all_inputs():
    """[10, 20, 30] of dimension 8, 3 x [4] -> table [60, 8], output [4, 24]."""
    column = FusedEmbeddingColumn("a", [10, 20, 30], 8, out_of_range="last")
    first, second, third = [0, 1, 2, 9], [0, 5, 19, 20], [29, 0, -1, 3]

    fused = column([tf.constant(first), tf.constant(second), tf.constant(third)])

    assert fused.shape == (4, 24)
    assert [weight.shape for weight in column.weights] == [(60, 8)]
    table = column.weights[0].numpy()
    # Input i begins at row sum(bucket_list[:i]); what is outside of an input has its last row.
    np.testing.assert_array_equal(fused[:, :8], table[first])
    np.testing.assert_array_equal(fused[:, 8:16], table[[10, 15, 29, 29]])
    np.testing.assert_array_equal(fused[:, 16:], table[[59, 30, 59, 33]])


def test_an_input_beyond_its_part_of_the_table_is_refused_or_has_a_row_there():
    inputs = [tf.constant([10]), tf.constant([1])]
    column = FusedEmbeddingColumn("a", [10, 20], 8, out_of_range="oov")

    assert column.prepare(inputs).numpy().tolist() == [[10, 12]]
    assert column(inputs).shape == (1, 16)
    assert column.weights[0].shape == (32, 8)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`a\[0\]` must have integers in \[0, 10\).*got 10"):
        FusedEmbeddingColumn("a", [10, 20], 8)(inputs)
    assert FusedEmbeddingColumn.from_config(column.get_config()).prepare(inputs).numpy().tolist() == [[10, 12]]


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


def test_an_equal_fused_column_is_made_of_the_config():
    column = FusedEmbeddingColumn("a", [10, 20], 8)

    assert FusedEmbeddingColumn.from_config(column.get_config()).get_config() == column.get_config()


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
def test_an_equal_sparse_column_is_made_of_the_config(column):
    assert type(column).from_config(column.get_config()).get_config() == column.get_config()


def test_errors_of_columns_of_several_categories():
    with pytest.raises(ValueError, match="`delimiter` must have a character, `max_values` must be at least 0; got ''"):
        SparseEmbeddingColumn("a", 10, 4, "")
