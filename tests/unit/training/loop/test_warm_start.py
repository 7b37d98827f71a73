from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders import DenseEmbedding, EmbeddingTables
from tfx_gnn.keras.weight_index import IndexBlock, WeightIndex, declare_weight_index
from tfx_gnn.training.export.saved_weights import SavedWeights, find_weights, write_saved_weights
from tfx_gnn.training.loop.warm_start import warm_start


class Terms(NamedTuple):
    """The vocabularies of a transform, by name."""

    terms: dict[str, list[bytes]]

    def vocabulary_names(self):
        return sorted(self.terms)

    def vocabulary_by_name(self, name):
        return self.terms[name]


def _terms(**vocabularies):
    return Terms({name: [letter.encode() for letter in letters] for name, letters in vocabularies.items()})


def _classifier(num_rows, num_classes=2, *, units=3, vocabulary: str | None = "kind", classes: str = "class"):
    """Embeds kinds in rows of width 2, and classifies them; layers have the names that Keras numbers."""
    kinds = tf_keras.layers.Input([], dtype=tf.int64)
    hidden = tf_keras.layers.Dense(units)(DenseEmbedding(num_rows, 2, vocabulary=vocabulary)(kinds))
    head = tf_keras.layers.Dense(num_classes)
    if classes:
        block = IndexBlock(name="classes", size=num_classes, vocabulary=classes)
        declare_weight_index(head, WeightIndex(axis=-1, blocks=(block,)))
    return tf_keras.Model(kinds, head(hidden))


def _numbered(model):
    """Gives all weights of a model values that differ."""
    begin = 0
    for variable in model.variables:
        variable.assign(np.arange(begin, begin + variable.shape.num_elements()).reshape(variable.shape))
        begin += variable.shape.num_elements()
    return model


def _saved(model, folder, vocabularies):
    """Exports the weights of a model as the trainer does."""
    root = tf.Module()
    root._variables = list(model.variables)
    tf.saved_model.save(root, str(folder))
    for name, terms in vocabularies.terms.items():
        (folder / "assets" / f"{name}.txt").write_bytes(b"".join(term + b"\n" for term in terms))
    write_saved_weights(model, str(folder), {name: f"{name}.txt" for name in vocabularies.terms})
    return SavedWeights(str(folder))


AB = _terms(kind="ab", **{"class": "xy"})


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """The weights after a training on kinds a and b and classes x and y: rows 0 1, 2 3 and, for other kinds, 4 5."""
    return _saved(_numbered(_classifier(3)), tmp_path_factory.mktemp("earlier") / "model", AB)


def _start(model, earlier, vocabularies, *, must_match=True, class_vocabularies=("class",)):
    return warm_start(
        model,
        earlier,
        description="version 1",
        vocabularies=vocabularies,
        class_vocabularies=class_vocabularies,
        must_match=must_match,
    )


def test_rows_and_columns_come_to_their_terms_and_new_ones_stay_fresh(earlier):
    model = _classifier(4, 3)
    fresh = model.variables[0].numpy()

    found = _start(model, earlier, _terms(kind="bca", **{"class": "zyx"}))

    table, hidden, hidden_bias, head, head_bias = (variable.numpy() for variable in model.variables)
    # Of kinds b, c and a, and of others.
    assert table[[0, 2, 3]].tolist() == [[2, 3], [0, 1], [4, 5]]
    np.testing.assert_array_equal(table[1], fresh[1])
    assert hidden.tolist() == [[6, 7, 8], [9, 10, 11]]
    assert hidden_bias.tolist() == [12, 13, 14]
    # The columns of classes y and x, which were the second and the first.
    assert head[:, 1:].tolist() == [[16, 15], [18, 17], [20, 19]]
    assert head_bias.tolist() == [0, 22, 21]
    assert (found.num_taken, found.num_grown, found.fresh, found.left) == (2, 3, (), ())
    # Kind c; class z in the matrix and in the bias.
    assert (found.num_new_terms, found.num_lost_terms) == (3, 0)
    assert found.describe() == (
        "Started from version 1: 2 weights taken, 3 grown by 3 rows and columns of new terms (0 lost), 0 fresh, 0 left "
        "behind."
    )


def test_lost_terms_are_counted(earlier):
    model = _classifier(2)

    found = _start(model, earlier, _terms(kind="b", **{"class": "xy"}))

    assert model.variables[0].numpy().tolist() == [[2, 3], [4, 5]]
    assert (found.num_taken, found.num_grown, found.num_lost_terms) == (5, 0, 1)


def test_names_do_not_depend_on_what_was_built_before(earlier):
    tf_keras.layers.Dense(1)(tf.zeros([1, 1]))
    model = _classifier(3)

    assert "dense/" not in model.variables[1].name
    assert list(find_weights(model)) == list(earlier.layouts)
    assert set(earlier.layouts) == {
        "DenseEmbedding-0/embeddings",
        "Dense-0/kernel",
        "Dense-0/bias",
        "Dense-1/kernel",
        "Dense-1/bias",
    }


def test_layers_keep_the_names_that_they_were_given_wherever_they_are():
    given = tf_keras.layers.Input([2])
    inner = tf_keras.Sequential([tf_keras.layers.Dense(2), tf_keras.layers.Dense(2)], name="rounds")
    model = tf_keras.Model(given, tf_keras.layers.Dense(1, name="logits")(inner(given)))

    assert set(find_weights(model)) == {
        f"{layer}/{weight}" for layer in ("rounds/Dense-0", "rounds/Dense-1", "logits") for weight in ("kernel", "bias")
    }


def test_another_network_is_refused_unless_it_is_asked_for(earlier):
    model = _classifier(3, units=5)

    message = (
        r"must find the same network .*; got 3 differences to version 1: 'Dense-0/kernel' has shape \[2, 5\], and "
        r"\[2, 3\] there; .*\. Train with .*'matching_weights'"
    )
    with pytest.raises(ValueError, match=message):
        _start(model, earlier, AB)
    found = _start(model, earlier, AB, must_match=False)

    assert model.variables[0].numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert model.variables[-1].numpy().tolist() == [21, 22]
    assert (found.num_taken, found.fresh) == (2, ("Dense-0/bias", "Dense-0/kernel", "Dense-1/kernel"))
    assert found.left == found.fresh


def test_rows_for_unknown_values_must_stay_as_many(earlier):
    with pytest.raises(ValueError, match="has 2 positions for values outside of the vocabulary, and 1 there"):
        _start(_classifier(4), earlier, AB)


@pytest.mark.parametrize("classes", ["class", ""], ids=["layer of classes", "none"])
def test_classes_that_have_changed_must_be_known_to_a_layer(earlier, classes):
    model = _classifier(3, classes=classes)
    changed = _terms(kind="ab", **{"class": "yx"})

    if classes:
        _start(model, earlier, changed)
        assert model.variables[-1].numpy().tolist() == [22, 21]
    else:
        with pytest.raises(ValueError, match="without a known layer for the vocabulary 'class'"):
            _start(model, earlier, changed)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ("ab", ""),
        ("ba", "'DenseEmbedding-0/embeddings' has positions of no known vocabulary, which may be 'kind'"),
        ("abc", "has 4 positions of no known vocabulary, and 3 there"),
    ],
)
def test_rows_of_an_unknown_vocabulary_are_taken_only_if_none_has_changed(earlier, kinds, message):
    model = _classifier(len(kinds) + 1, vocabulary=None)
    vocabularies = _terms(kind=kinds, **{"class": "xy"})

    if message:
        with pytest.raises(ValueError, match=message):
            _start(model, earlier, vocabularies)
    else:
        _start(model, earlier, vocabularies)
        assert model.variables[0].numpy().tolist() == [[0, 1], [2, 3], [4, 5]]


def test_tables_that_share_a_variable_grow_one_by_one(tmp_path):
    def build(num_kinds, num_cities):
        tables = EmbeddingTables(
            {"kind": (num_kinds, 1), "bucket": (2, 1), "city": (num_cities, 1)},
            vocabularies={"kind": "kind", "bucket": "", "city": "city"},
        )
        given = {name: tf_keras.layers.Input([], dtype=tf.int64) for name in tables.tables}
        found = tables({name: [values] for name, values in given.items()})
        return tf_keras.Model(given, [found[name][0] for name in given])

    before = _saved(_numbered(build(2, 3)), tmp_path / "model", _terms(kind="a", city="rs"))
    model = build(3, 2)

    found = _start(model, before, _terms(kind="ba", city="s"), class_vocabularies=())

    # Kind a, others, two buckets, city s, others; kind b, the first row, is new.
    assert model.variables[0].numpy()[1:, 0].tolist() == [0, 1, 2, 3, 5, 6]
    assert (found.num_taken, found.num_grown, found.num_new_terms, found.num_lost_terms) == (0, 1, 1, 1)


def test_averages_of_weights_start_from_those_that_were_taken(earlier):
    model = _classifier(3)
    model.compile(tf_keras.optimizers.Adam(use_ema=True), "mse")
    model.optimizer.build(model.trainable_variables)

    _start(model, earlier, AB)

    model.optimizer.finalize_variable_values(model.trainable_variables)
    assert model.variables[0].numpy().tolist() == [[0, 1], [2, 3], [4, 5]]


def test_all_replicas_get_the_weights(earlier):
    strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(2)])
    with strategy.scope():
        model = _classifier(4)

        _start(model, earlier, _terms(kind="cab", **{"class": "xy"}))

    for replica in strategy.experimental_local_results(model.variables[0]):
        assert replica.numpy()[1:].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_model_without_names_of_weights_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must start from a model with assets.extra/weights.json; got none in"):
        SavedWeights(str(tmp_path))


def test_names_of_weights_are_a_file_beside_the_model(earlier):
    assert os.listdir(os.path.join(earlier._folder, "assets.extra")) == ["weights.json"]
    assert earlier.value("Dense-1/bias").tolist() == [21, 22]
    assert earlier.vocabulary_by_name("kind") == [b"a", b"b"]
