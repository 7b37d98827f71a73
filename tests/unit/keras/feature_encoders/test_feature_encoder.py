from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.keras.feature_encoders import LearnedState
from tfx_gnn.keras.feature_encoders.category_values import hash_to_buckets
from tfx_gnn.keras.feature_encoders.encoder_options import EmbeddingOptions, FeatureEncoderOptions
from tfx_gnn.keras.feature_encoders.feature_encoder import FeatureEncoder
from tfx_gnn.keras.feature_encoders.prepare_features import PrepareFeatures
from tfx_gnn.tpu_check.check import check_step

OPTIONS = FeatureEncoderOptions(
    embeddings={
        "user.city": EmbeddingOptions(rows=4, shared_name="city"),
        "item.made_in": EmbeddingOptions(rows=4, shared_name="city"),
        "user.tags": EmbeddingOptions(rows=3, max_values=3),
        "item.words": EmbeddingOptions(rows=5, combiner="sum"),
        "item.number": EmbeddingOptions(rows=7, hashed=True, units=3),
        "edges/buys.kind": EmbeddingOptions(rows=2),
    },
    units=2,
    encode_edges=True,
)


def make_graph():
    """Users of 2 and 1 graphs, items of 1 and 1; some categories are none: -1, 9."""
    return tfx_gnn.GraphTensor.from_pieces(
        context=tfx_gnn.Context.from_fields(features={"year": tf.constant([1999, 2024])}),
        node_sets={
            "user": tfx_gnn.NodeSet.from_fields(
                sizes=[2, 1],
                features={
                    "age": tf.constant([0.5, 1.5, 2.5]),
                    "city": tf.constant([3, -1, 9], tf.int64),
                    "tags": tf.ragged.constant([[0, 2], [], [1, -1, 1]], tf.int64),
                },
            ),
            "item": tfx_gnn.NodeSet.from_fields(
                sizes=[1, 1],
                features={
                    "made_in": tf.constant([3, 0]),
                    "number": tf.constant([10**12, 5], tf.int64),
                    "pair": tf.constant([[1.0, 2.0], [3.0, 4.0]]),
                    "words": tf.ragged.constant([["a", "b"], []], tf.string),
                },
            ),
            "plain": tfx_gnn.NodeSet.from_fields(sizes=[1, 1], features={}),
            "narrow": tfx_gnn.NodeSet.from_fields(sizes=[1, 1], features={"none": tf.zeros([2, 0])}),
            "_readout": tfx_gnn.NodeSet.from_fields(sizes=[1, 1], features={"label": tf.constant([0, 1])}),
        },
        edge_sets={
            "buys": tfx_gnn.EdgeSet.from_fields(
                sizes=[2, 1],
                features={"kind": tf.constant([0, 1, 2])},
                adjacency=tfx_gnn.Adjacency.from_indices(("user", [0, 1, 2]), ("item", [0, 0, 1])),
            )
        },
    )


@pytest.fixture(name="users_and_items")
def fixture_users_and_items():
    return make_graph()


def tables_of(encoder):
    """Variables by shape."""
    return {tuple(weight.shape): weight.numpy() for weight in encoder.weights}


def test_each_feature_has_its_place_in_the_state(users_and_items):
    """Numbers, then embeddings, by name; the unknown has the last row, no values are zeros."""
    encoder = FeatureEncoder(users_and_items.spec, OPTIONS)

    encoded = encoder(users_and_items)

    # Kinds of 2 rows, tags of 3, words of 5, cities of 4, below each other; and numbers of 7. One more for the unknown.
    tables = tables_of(encoder)
    assert sorted(tables) == [(1, 2), (8, 3), (18, 2)]
    kinds, tags, words, cities = _tables_of_two_units(encoder)
    user = encoded.node_sets["user"]["hidden_state"].numpy()
    np.testing.assert_array_equal(user[:, 0], [0.5, 1.5, 2.5])
    np.testing.assert_array_equal(user[:, 1:3], cities[[3, 4, 4]])
    expected_tags = [(tags[0] + tags[2]) / 2, np.zeros(2), (tags[1] * 2 + tags[3]) / 3]
    np.testing.assert_allclose(user[:, 3:], expected_tags, rtol=1e-5, atol=1e-7)
    item = encoded.node_sets["item"]["hidden_state"].numpy()
    np.testing.assert_array_equal(item[:, :2], [[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(item[:, 2:4], cities[[3, 0]])
    numbers = hash_to_buckets(tf.constant([10**12, 5], tf.int64), 7).numpy()
    np.testing.assert_array_equal(item[:, 4:7], tables[8, 3][numbers])
    a, b = hash_to_buckets(tf.constant(["a", "b"]), 5).numpy()
    np.testing.assert_allclose(item[:, 7:], [words[a] + words[b], np.zeros(2)], rtol=1e-6)
    np.testing.assert_array_equal(encoded.edge_sets["buys"]["hidden_state"], kinds[[0, 1, 2]])


def test_sets_without_values_have_a_learned_vector_each(users_and_items):
    encoder = FeatureEncoder(users_and_items.spec, OPTIONS)
    projecting = FeatureEncoder(users_and_items.spec, dataclasses.replace(OPTIONS, projection_units=6))

    encoded, projected = (each(users_and_items).node_sets for each in (encoder, projecting))

    for name in ("plain", "narrow"):
        first, second = encoded[name]["hidden_state"].numpy().tolist()
        assert first == second != [0.0, 0.0]
        assert projected[name]["hidden_state"].shape == (2, 6)
    assert encoded["plain"]["hidden_state"][0, 0] != encoded["narrow"]["hidden_state"][0, 0]
    assert all(weight.shape.num_elements() for each in (encoder, projecting) for weight in each.weights)


def _tables_of_two_units(encoder):
    table = tables_of(encoder)[18, 2]
    sizes = {"edges/buys.kind": 3, "nodes/user.tags": 4, "nodes/item.words": 6, "shared/city": 5}
    begin, parts = 0, {}
    for name, (_, units) in encoder._tables.tables.items():
        if units == 2:
            parts[name] = table[begin : begin + sizes[name]]
            begin += sizes[name]
    return [parts[name] for name in sizes]


def test_what_is_not_encoded_stays(users_and_items):
    encoded = FeatureEncoder(users_and_items.spec, OPTIONS)(users_and_items)

    assert encoded.context["year"].numpy().tolist() == [1999, 2024]
    assert encoded.node_sets["_readout"]["label"].numpy().tolist() == [0, 1]
    assert set(encoded.node_sets["user"].features) == {"hidden_state"}


def test_projections_dropout_and_the_context(users_and_items):
    options = dataclasses.replace(
        OPTIONS, projection_units=6, dropout_rate=0.5, encode_context=True, numeric=("context/year",)
    )
    encoder = FeatureEncoder(users_and_items.spec, options)

    encoded, trained = encoder(users_and_items), encoder(users_and_items, training=True)

    assert encoded.context["hidden_state"].shape == (2, 6)
    assert encoded.node_sets["plain"]["hidden_state"].shape == (2, 6)
    assert encoded.node_sets["user"]["hidden_state"].numpy().min() >= 0.0
    assert not np.array_equal(trained.context["hidden_state"], encoded.context["hidden_state"])


@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "single"])
def test_all_tables_are_trained_with_dense_gradients(users_and_items, fuse):
    encoder = FeatureEncoder(users_and_items.spec, dataclasses.replace(OPTIONS, fuse=fuse))

    with tf.GradientTape() as tape:
        encoded = encoder(users_and_items)
        loss = tf.add_n([tf.reduce_sum(piece["hidden_state"] ** 2) for piece in _encoded_pieces(encoded)])
    tables = [weight for weight in encoder.trainable_weights if "state" not in weight.name]
    gradients = tape.gradient(loss, tables)

    assert len(gradients) == (2 if fuse else 5)
    assert all(isinstance(gradient, tf.Tensor) for gradient in gradients)


def _encoded_pieces(graph):
    return [graph.node_sets["user"], graph.node_sets["item"], graph.edge_sets["buys"]]


def test_padded_graphs_give_the_same_rows(users_and_items):
    encoder = FeatureEncoder(users_and_items.spec.relax(num_components=True, num_nodes=True, num_edges=True), OPTIONS)
    constraints = tfx_gnn.SizeConstraints(
        3,
        {"user": 6, "item": 4, "plain": 3, "narrow": 3, "_readout": 3},
        {"buys": 5},
        {"user": 1, "item": 1, "_readout": 1},
    )
    padded, _ = tfx_gnn.pad_to_total_sizes(users_and_items, constraints)

    expected, encoded = encoder(users_and_items), encoder(padded)

    for alone, in_batch in zip(_encoded_pieces(expected), _encoded_pieces(encoded), strict=True):
        num_real = alone["hidden_state"].shape[0]
        np.testing.assert_allclose(in_batch["hidden_state"][:num_real], alone["hidden_state"], rtol=1e-6)
        assert np.isfinite(in_batch["hidden_state"]).all()
    assert encoded.node_sets["user"]["hidden_state"].shape == (6, 5)


def test_a_model_is_made_again_with_its_encoder(users_and_items, again):
    spec = users_and_items.spec.relax(num_components=True, num_nodes=True, num_edges=True)
    inputs = tf_keras.Input(type_spec=spec)
    encoded = FeatureEncoder(spec, dataclasses.asdict(OPTIONS))(inputs)
    outputs = tf_keras.layers.Dense(1)(encoded.node_sets["item"]["hidden_state"])
    model = tf_keras.Model(inputs, outputs)

    np.testing.assert_allclose(again(model)(users_and_items), model(users_and_items), rtol=1e-6)


def test_under_mixed_precision_tables_stay_exact(users_and_items):
    encoder = FeatureEncoder(users_and_items.spec, OPTIONS, dtype="mixed_bfloat16")

    state = encoder(users_and_items).node_sets["item"]["hidden_state"]

    assert state.dtype == tf.bfloat16
    assert {weight.dtype for weight in encoder.weights} == {tf.float32}


def test_the_part_for_accelerators_has_no_texts_and_static_shapes(users_and_items):
    """Strings and ragged values are for `PrepareFeatures`, in the input pipeline; the rest compiles."""
    embeddings = {
        **OPTIONS.embeddings,
        "item.words": dataclasses.replace(OPTIONS.embeddings["item.words"], max_values=2),
    }
    spec = users_and_items.spec
    options = dataclasses.replace(OPTIONS, embeddings=embeddings)
    whole = FeatureEncoder(spec, options)
    prepare = PrepareFeatures(spec, options)
    encoder = FeatureEncoder(prepare.output_spec, prepare.encoder_options)
    expected = whole(users_and_items)
    batch = tf.data.Dataset.from_tensors(users_and_items).map(prepare).get_single_element()
    encoder(batch)
    encoder.set_weights(whole.get_weights())

    def step(graph):
        with tf.GradientTape() as tape:
            states = [piece["hidden_state"] for piece in _encoded_pieces(encoder(graph))]
            loss = tf.add_n([tf.reduce_sum(state**2) for state in states])
        return states, tape.gradient(loss, encoder.trainable_weights, unconnected_gradients="zero")

    compiled = tf.function(step, jit_compile=True)
    states, gradients = compiled(batch)

    assert batch.spec == prepare.output_spec
    for state, piece in zip(states, _encoded_pieces(expected), strict=True):
        assert state.shape.is_fully_defined()
        np.testing.assert_allclose(state, piece["hidden_state"], rtol=1e-5, atol=1e-7)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def train_step_of(encoder):
    """A step of Adam on what is encoded."""
    optimizer = tf_keras.optimizers.Adam()

    def step(graph):
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(piece["hidden_state"] ** 2) for piece in _encoded_pieces(encoder(graph))])
        gradients = tape.gradient(loss, encoder.trainable_weights)
        optimizer.apply_gradients(zip(gradients, encoder.trainable_weights, strict=True))
        return loss

    return step


def test_prepared_features_train_on_a_tpu(users_and_items):
    words = dataclasses.replace(OPTIONS.embeddings["item.words"], max_values=2)
    options = dataclasses.replace(OPTIONS, embeddings={**OPTIONS.embeddings, "item.words": words})
    prepare = PrepareFeatures(users_and_items.spec, options)
    spec, options = prepare.output_spec, prepare.encoder_options
    large = dataclasses.replace(options, max_dense_gradient_elements=0)

    problems = check_step(train_step_of(FeatureEncoder(spec, options)), [spec])
    of_texts = check_step(train_step_of(FeatureEncoder(users_and_items.spec, OPTIONS)), [users_and_items.spec])
    of_sparse_gradients = check_step(train_step_of(FeatureEncoder(spec, large)), [spec])

    assert problems == ()
    assert {problem.rule for problem in of_texts} >= {"host_only", "input_dtype"}
    assert "Unique" in {problem.op for problem in of_sparse_gradients}


def test_preparing_twice_changes_nothing(users_and_items):
    prepare = PrepareFeatures(users_and_items.spec, OPTIONS)
    once = prepare(users_and_items)

    twice = PrepareFeatures(prepare.output_spec, prepare.encoder_options)(once)

    assert twice.spec == once.spec
    for one, other in zip(*(tf.nest.flatten(graph, expand_composites=True) for graph in (once, twice)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_graph_is_refused(users_and_items):
    encoder = FeatureEncoder(users_and_items.spec, OPTIONS)
    other = users_and_items.remove_features(node_sets={"user": ["age"]})

    with pytest.raises(ValueError, match="`graph` must have the features of `graph_spec`"):
        encoder(other)
    batch_spec = tf.data.Dataset.from_tensors(users_and_items).batch(1).element_spec
    with pytest.raises(ValueError, match="FeatureEncoder"):
        FeatureEncoder(batch_spec, OPTIONS)


def _node_set(num_items, features=None, sizes=None):
    node_set = tfx_gnn.NodeSet.from_fields(sizes=sizes or [num_items], features=features or {})
    return tfx_gnn.GraphTensor.from_pieces(node_sets={"plain": node_set}).node_sets["plain"]


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_all_items_have_the_one_vector_and_all_of_them_teach_it(wrap):
    layer = LearnedState(2)
    node_set = _node_set(3, sizes=[1, 2])

    @wrap
    def state_and_gradient(node_set):
        with tf.GradientTape() as tape:
            state = layer(node_set)
            loss = tf.reduce_sum(state * [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        return state, tape.gradient(loss, layer.trainable_variables[0])

    state, gradient = state_and_gradient(node_set)

    (vector,) = layer.trainable_variables
    assert state.numpy().tolist() == vector.numpy().tolist() * 3
    assert len(set(vector.numpy().ravel().tolist())) == 2
    assert gradient.numpy().tolist() == [[9.0, 12.0]]


def test_no_items_have_no_state_but_a_width():
    assert LearnedState(4)(_node_set(0)).shape == (0, 4)


def test_shape_is_static_where_a_feature_tells_it_even_one_without_width():
    layer, shapes = LearnedState(4), []

    @tf.function
    def trace(node_set):
        shapes.append(layer(node_set).shape.as_list())

    trace(_node_set(3, {"nothing": tf.zeros([3, 0])}))

    assert shapes[-1] == [3, 4]


def test_layer_takes_the_piece_of_a_functional_model_and_comes_back_from_its_config():
    piece = tf_keras.Input(type_spec=_node_set(2).spec)
    model = tf_keras.Model(piece, LearnedState(2, initializer="ones", name="first")(piece))

    layer = LearnedState.from_config(model.get_layer("first").get_config())

    assert layer(_node_set(1)).numpy().tolist() == model(_node_set(1)).numpy().tolist() == [[1.0, 1.0]]


def test_policy_of_mixed_precision_is_kept():
    assert LearnedState(2, dtype="mixed_bfloat16")(_node_set(2)).dtype == tf.bfloat16


def test_no_width_and_batches_of_graphs_are_refused():
    batched = next(iter(tf.data.Dataset.from_tensors(_node_set(2)).batch(1)))

    with pytest.raises(ValueError, match="`units` must be at least 1; got 0"):
        LearnedState(0)
    with pytest.raises(ValueError, match=r"`graph_piece` must be of a scalar graph; got one of shape \(1,\)"):
        LearnedState(2)(batched)


@pytest.mark.parametrize("units", [4, 16])
def test_embeddings_begin_as_long_as_a_standardized_number(units):
    graph = tfx_gnn.homogeneous(
        source=tf.constant([0]), target=tf.constant([1]), node_features={"color": tf.range(2000, dtype=tf.int64)}
    )
    encode = FeatureEncoder(graph.spec, {"embeddings": {"nodes.color": {"rows": 2000}}, "units": units})

    states = encode(graph).node_sets["nodes"]["hidden_state"].numpy()

    assert np.square(states).sum(axis=1).mean() == pytest.approx(1.0, rel=0.05)
