import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.keras.feature_encoders.embedding_tables import EmbeddingTables

SIZES = {"age": (3, 2), "city": (4, 5), "kind": (2, 2)}
CATEGORIES = {
    "kind": [tf.constant([1, 0, 7])],
    "age": [tf.constant([2, 2], tf.int64), tf.constant([-1, 0], tf.int64)],
    "city": [tf.constant([3])],
}


@pytest.mark.parametrize("static", [True, False], ids=["static", "dynamic"])
def test_fused_tables_answer_as_single_ones(static):
    fused, single = EmbeddingTables(SIZES), EmbeddingTables(SIZES, fuse=False)
    fused.build(None)
    single.build(None)
    shapes = {weight.shape: weight for weight in fused.weights}
    ages, cities, kinds = (weight.numpy() for weight in single.weights)
    shapes[5, 2].assign(np.concatenate([ages, kinds]))
    shapes[4, 5].assign(cities)
    specs = {
        name: [tf.TensorSpec(list(one.shape) if static else [None], one.dtype) for one in several]
        for name, several in CATEGORIES.items()
    }

    answers = [
        tf.function(lambda categories, tables=tables: tables(categories), input_signature=[specs])(CATEGORIES)
        for tables in (fused, single)
    ]

    assert len(single.weights) == 3
    tf.nest.map_structure(np.testing.assert_array_equal, *answers)
    np.testing.assert_array_equal(answers[0]["age"][1], ages[[2, 0]])
    np.testing.assert_array_equal(answers[0]["kind"][0], kinds[[1, 0, 1]])


def test_a_table_of_more_than_a_quarter_million_elements_stands_alone():
    tables = EmbeddingTables({"a": (2**17, 2), "b": (2**17 + 1, 2), "c": (3, 2)})
    tables.build(None)

    assert sorted(weight.shape[0] for weight in tables.weights) == [2**17 + 1, 2**17 + 3]


def test_a_large_table_stands_alone_and_its_gradient_is_sparse():
    tables = EmbeddingTables(SIZES, max_dense_gradient_elements=10)

    with tf.GradientTape() as tape:
        found = tables(CATEGORIES)
        loss = tf.add_n([tf.reduce_sum(one) for several in found.values() for one in several])
    by_shape = {
        weight.shape: gradient
        for weight, gradient in zip(tables.weights, tape.gradient(loss, tables.trainable_weights), strict=True)
    }

    assert isinstance(by_shape[4, 5], tf.IndexedSlices)
    assert isinstance(by_shape[5, 2], tf.Tensor)
    assert by_shape[5, 2].numpy()[:, 0].tolist() == [1.0, 0.0, 3.0, 1.0, 2.0]


def test_an_equal_layer_is_made_of_the_config():
    tables = EmbeddingTables(SIZES, fuse=False, embeddings_initializer="zeros", name="tables")

    again = EmbeddingTables.from_config(tables.get_config())

    assert again.get_config() == tables.get_config()
    assert again.tables == SIZES
