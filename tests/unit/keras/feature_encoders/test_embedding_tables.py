from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.embedding_tables import DenseEmbedding, EmbeddingTables

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


def test_rows_are_looked_up_for_indices_of_any_shape():
    layer = DenseEmbedding(3, 2)
    looked_up = layer(tf.constant([[2, 0], [2, 1]], tf.int64))

    assert looked_up.shape == (2, 2, 2)
    table = layer.get_weights()[0]
    np.testing.assert_array_equal(looked_up[0, 0], table[2])
    np.testing.assert_array_equal(looked_up[1, 1], table[1])


def test_gradient_is_dense_and_sums_over_repeated_rows():
    layer = DenseEmbedding(3, 2)
    layer(tf.constant([0]))

    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(tf.constant([1, 1, 2])) * tf.constant([[1.0, 2.0], [10.0, 20.0], [5.0, 6.0]]))
    gradient = tape.gradient(loss, layer.trainable_variables[0])

    assert isinstance(gradient, tf.Tensor)
    assert gradient.numpy().tolist() == [[0.0, 0.0], [11.0, 22.0], [5.0, 6.0]]


def test_training_equals_that_of_a_keras_embedding():
    weights = []
    for layer in (DenseEmbedding(4, 3), tf_keras.layers.Embedding(4, 3)):
        model = tf_keras.Sequential([tf_keras.layers.Input([None], dtype=tf.int64), layer, tf_keras.layers.Dense(1)])
        model.compile(optimizer=tf_keras.optimizers.Adam(0.1), loss="mse")
        model.set_weights([np.arange(12.0).reshape(4, 3) / 12, np.ones([3, 1]), np.zeros([1])])
        model.fit(np.array([[0, 1, 1], [3, 0, 1]]), np.ones([2, 3, 1]), epochs=3, verbose=0)
        weights.append(model.get_weights())

    for ours, theirs in zip(*weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_train_step_asks_for_no_unique_rows():
    model = tf_keras.Sequential([DenseEmbedding(4, 3), tf_keras.layers.Dense(1)])
    optimizer = tf_keras.optimizers.Adam()

    @tf.function
    def step(indices):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(indices))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )

    graph = step.get_concrete_function(tf.TensorSpec([5], tf.int64)).graph.as_graph_def()
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    names = {node.op for body in bodies for node in body}
    assert "UnsortedSegmentSum" in names
    assert not names & {"Unique", "UniqueV2", "Where"}


def test_layer_is_made_again_from_its_config():
    layer = DenseEmbedding(4, 3, embeddings_regularizer="l2", name="ids")

    again = DenseEmbedding.from_config(layer.get_config())

    assert again.get_config() == layer.get_config()


@pytest.mark.parametrize(("num_rows", "units"), [(0, 2), (2, 0)])
def test_empty_table_is_refused(num_rows, units):
    with pytest.raises(ValueError, match="`num_rows` and `units` must be at least 1; got"):
        DenseEmbedding(num_rows, units)
