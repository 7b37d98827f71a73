"""Words of texts: what is a word in which script, and that a network learns from one."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders import PartitionableColumn
from tfx_gnn.transform.feature_preparations import Text
from tfx_gnn.transform.texts import words_and_pairs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Größe: XL!", ["größe", "xl", "größe xl"]),
        ("don't  STOP\n12", ["don", "t", "stop", "12", "don t", "t stop", "stop 12"]),
        ("日本 Text", ["日", "本", "text", "日 本", "本 text"]),
        ("हिन्दी", ["हिन्दी"]),
        (" -- ", []),
        ("", []),
        (b"bad \xff byte", ["bad", "byte", "bad byte"]),
        ("a b c d e", ["a", "b", "c", "d", "a b", "b c", "c d"]),
    ],
)
def test_words_and_pairs_of_neighbors_are_found_in_any_script(text, words):
    (found,) = words_and_pairs(tf.constant([text]), 4).to_list()

    assert [word.decode() for word in found] == words


def test_any_number_of_texts_is_read_by_operations_that_all_runtimes_have():
    traced = tf.function(
        lambda texts: words_and_pairs(texts, 3), input_signature=[tf.TensorSpec([None], tf.string)]
    ).get_concrete_function()

    assert traced(tf.constant([], tf.string)).to_list() == []
    assert traced(tf.constant(["a", "", "b c"])).to_list() == [[b"a"], [], [b"b", b"c", b"b c"]]
    assert {"PyFunc", "EagerPyFunc"}.isdisjoint(node.op for node in traced.graph.as_graph_def().node)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": 0}, "`top_k` must be at least 1; got 0"),
        ({"frequency_threshold": -1}, "`frequency_threshold` must be at least 0; got -1"),
        ({"max_words": 0}, "`max_words` must be at least 1; got 0"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        Text(**options)


def test_a_label_that_one_word_tells_is_learnt():
    tf_keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    is_broken = random.random(600) < 0.5
    words = random.integers(0, 3_000, [600, 9])
    # Every text is another one, and the telling word is at any place.
    words_of_rows = [[f"w{one}" for one in row] for row in words]
    for row, broken in zip(words_of_rows, is_broken, strict=True):
        row.insert(int(random.integers(0, 10)), "broken" if broken else "fine")
    words = words_and_pairs(tf.constant([" ".join(row) for row in words_of_rows]), 100)
    found, counts = np.unique(words.flat_values.numpy(), return_counts=True)
    known = found[counts >= Text().frequency_threshold].tolist()
    ranks = tf.ragged.constant([[known.index(word) for word in row if word in known] for row in words.to_list()])
    column, output = PartitionableColumn("text", rows=len(known), dimension=16), tf_keras.layers.Dense(1)
    optimizer = tf_keras.optimizers.Adam(0.01)
    labels = tf.constant(is_broken[:, np.newaxis], tf.float32)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            answers = output(column(ranks[:400]))
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels[:400], answers))
        weights = [*column.trainable_weights, *output.trainable_weights]
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    output(column(ranks[:1]))
    optimizer.build([*column.trainable_weights, *output.trainable_weights])
    for _ in range(120):
        step()
    unseen = (output(column(ranks[400:])) > 0).numpy()[:, 0]
    assert (unseen == is_broken[400:]).mean() > 0.9
