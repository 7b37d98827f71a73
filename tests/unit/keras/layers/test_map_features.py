import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.keras.layers import MakeEmptyFeature, MapFeatures


def dense(units=4):
    return tf_keras.layers.Dense(units, kernel_initializer="ones")


def node_states(node_set, *, node_set_name):
    if node_set_name == "b":
        return MakeEmptyFeature()(node_set)
    return {"h": dense()(node_set["x"]), "x": node_set["x"]}


def test_callbacks_make_features_of_each_piece(graph):
    mapped = MapFeatures(
        context_fn=lambda context: dense()(context["hidden_state"]),
        node_sets_fn=node_states,
        edge_sets_fn=lambda edge_set, *, edge_set_name: {edge_set_name: edge_set["hidden_state"] + 1.0},
    )(graph)

    assert mapped.context["hidden_state"].numpy().tolist() == [[10.0] * 4, [20.0] * 4]
    assert mapped.node_sets["a"]["h"].numpy().tolist() == [[1.0] * 4, [2.0] * 4, [3.0] * 4]
    assert set(mapped.node_sets["a"].features) == {"h", "x"}
    assert mapped.node_sets["b"]["hidden_state"].shape == [2, 0]
    assert mapped.edge_sets["ab"]["ab"].numpy().tolist() == [[2.0], [3.0], [4.0]]


def test_pieces_without_callback_or_result_pass_through(graph):
    mapped = MapFeatures(node_sets_fn=lambda *_, **__: None)(graph)

    assert mapped.node_sets["a"]["x"].numpy().tolist() == [[1.0], [2.0], [3.0]]
    assert set(mapped.context.features) == {"hidden_state"}
    assert MapFeatures()(graph).spec == graph.spec


def test_an_empty_dict_drops_all_features(graph):
    mapped = MapFeatures(edge_sets_fn=lambda *_, **__: {})(graph)

    assert set(mapped.edge_sets["ab"].features) == set()


@pytest.mark.parametrize(
    ("pattern", "seen"), [(None, {"a", "b"}), ("_readout.*", {"a", "b", "_readout"}), ("_read", {"a", "b"})]
)
def test_auxiliary_sets_are_mapped_where_the_whole_name_matches(graph, pattern, seen):
    names = set()
    layer = MapFeatures(
        node_sets_fn=lambda _, *, node_set_name: names.add(node_set_name),
        allowed_aux_node_sets_pattern=pattern,
    )

    layer(graph)

    assert names == seen


def test_auxiliary_edge_sets_have_a_pattern_of_their_own(graph):
    names = []
    layer = MapFeatures(
        edge_sets_fn=lambda _, *, edge_set_name: names.append(edge_set_name),
        allowed_aux_edge_sets_pattern="_readout/.*",
    )

    layer(graph)

    assert sorted(names) == ["_readout/seed", "ab"]


def test_callbacks_run_once_for_graphs_of_any_size(make_graph):
    calls = []

    def counted(node_set, *, node_set_name):
        calls.append(node_set_name)
        return {name: value * 2.0 for name, value in node_set.features.items()}

    layer = MapFeatures(node_sets_fn=counted)

    assert layer(make_graph(num_nodes=3)).node_sets["a"]["x"].shape == [3, 1]
    assert layer(make_graph(num_nodes=5)).node_sets["a"]["x"].shape == [5, 1]
    assert sorted(calls) == ["a", "b"]


def test_batches_and_datasets_are_mapped(graph, batch):
    dataset = tf.data.Dataset.from_tensors(batch).map(MapFeatures(node_sets_fn=node_states))

    mapped = dataset.get_single_element()

    assert mapped.shape == [1]
    np.testing.assert_array_equal(mapped.node_sets["a"]["h"][0], [[1.0] * 4, [2.0] * 4, [3.0] * 4])
    assert mapped.node_sets["b"]["hidden_state"].shape[-1] == 0


def test_ragged_strings_are_looked_up_in_a_batch(graph):
    named = graph.replace_features(node_sets={"a": {"name": tf.ragged.constant([["p"], ["q", "p"], []])}})
    batch = tf.data.Dataset.from_tensors(named).batch(1).get_single_element()
    lookup = tf_keras.layers.StringLookup(vocabulary=["p", "q"])

    mapped = MapFeatures(
        node_sets_fn=lambda node_set, *, node_set_name: lookup(node_set["name"]) if node_set_name == "a" else None
    )(batch)

    assert mapped.node_sets["a"]["hidden_state"].to_list() == [[[1], [2, 1], []]]


def test_weights_are_trained_with_the_model(graph, spec):
    inputs = tf_keras.Input(type_spec=spec)
    outputs = MapFeatures(node_sets_fn=node_states)(inputs)
    model = tf_keras.Model(inputs, outputs.node_sets["a"]["h"])

    assert [tuple(weight.shape) for weight in model.trainable_weights] == [(1, 4), (4,)]
    assert model(graph).shape == [3, 4]


def test_a_model_is_made_again(graph, spec, again):
    inputs = tf_keras.Input(type_spec=spec)
    mapped = MapFeatures(
        node_sets_fn=node_states,
        context_fn=lambda context: {"c": dense(2)(context["hidden_state"])},
        edge_sets_fn=lambda *_, **__: {},
    )(inputs)
    model = tf_keras.Model(inputs, [mapped.node_sets["a"]["h"], mapped.context["c"]])

    for ours, theirs in zip(model(graph), again(model)(graph), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_config_restores_the_models(graph):
    layer = MapFeatures(node_sets_fn=node_states)
    mapped = layer(graph)

    restored = MapFeatures.from_config(layer.get_config())

    np.testing.assert_array_equal(restored(graph).node_sets["a"]["h"], mapped.node_sets["a"]["h"])
    with pytest.raises(ValueError, match="feature set of node_set 'a' has changed"):
        restored(graph.remove_features(node_sets={"a": ["x"]}))


def test_changed_feature_names_are_refused(graph):
    layer = MapFeatures(
        node_sets_fn=lambda node_set, **_: dict(node_set.features),
        context_fn=lambda context: {"c": context["hidden_state"]},
    )
    layer(graph)

    with pytest.raises(ValueError, match=r"node_set 'a' has changed.*Expected \['hidden_state', 'x'\], got \['x'\]"):
        layer(graph.remove_features(node_sets={"a": ["hidden_state"]}))
    with pytest.raises(ValueError, match="feature set of context has changed"):
        layer(graph.remove_features(context=["hidden_state"]))


def test_new_sets_are_refused_unless_they_pass(graph):
    more = tfx_gnn.GraphTensor.from_pieces(
        context=graph.context,
        node_sets={**graph.node_sets, "new": graph.node_sets["b"], "_new": graph.node_sets["b"]},
        edge_sets=graph.edge_sets,
    )
    mapping = MapFeatures(node_sets_fn=lambda node_set, **_: dict(node_set.features))
    passing = MapFeatures(edge_sets_fn=lambda *_, **__: None)
    mapping(graph)
    passing(graph)

    with pytest.raises(KeyError, match="Unexpected node set 'new' not seen in first call"):
        mapping(more)
    assert "new" in passing(more).node_sets


@pytest.mark.parametrize(
    "result",
    [
        lambda piece: tf.zeros([piece.spec.total_size, 3]),
        lambda _: {"h": tf.zeros([3, 2])},
        lambda _: 3,
        lambda piece: {3: piece["hidden_state"]},
        lambda piece: [piece["hidden_state"]],
    ],
    ids=["static size", "constant", "number", "name", "list"],
)
def test_features_must_depend_on_the_piece(graph, result):
    layer = MapFeatures(context_fn=result)

    with pytest.raises(ValueError, match=r"return KerasTensors.*inputs.total_size"):
        layer(graph)


def test_features_may_depend_on_the_size_alone(graph):
    mapped = MapFeatures(node_sets_fn=lambda node_set, **_: tf.ones([node_set.total_size, 3]))(graph)

    assert mapped.node_sets["a"]["hidden_state"].shape == [3, 3]


def test_a_config_needs_a_first_call():
    with pytest.raises(ValueError, match="before it has been built"):
        MapFeatures().get_config()


def test_each_item_gets_an_empty_value(graph):
    feature = MakeEmptyFeature(dtype=tf.int32)(graph.node_sets["a"])

    assert feature.shape == [3, 0]
    assert feature.dtype == tf.int32
    assert MakeEmptyFeature()(graph.context).shape == [2, 0]
    assert MakeEmptyFeature()(graph.edge_sets["ab"]).dtype == tf.float32


def test_static_sizes_stay_static(graph):
    shapes = []

    @tf.function(input_signature=[graph.spec])
    def trace(graph):
        shapes.append(MakeEmptyFeature()(graph.node_sets["a"]).shape.as_list())
        return 0

    trace(graph)

    assert shapes == [[3, 0]]


def test_latent_sets_of_a_batch_give_ragged_features(graph):
    latent = graph.remove_features(node_sets={"a": ["x", "hidden_state"]})
    batch = tf.data.Dataset.from_tensors(latent).batch(1, drop_remainder=True).batch(1).get_single_element()

    feature = MakeEmptyFeature()(batch.node_sets["a"])

    assert feature.shape.as_list() == [1, 1, None, 0] or feature.shape.as_list() == [1, None, None, 0]
    assert feature.row_lengths(axis=2).to_list() == [[3]]


@pytest.mark.parametrize("piece", [lambda g: g.context, lambda g: g.node_sets["a"], lambda g: g.edge_sets["ab"]])
def test_sets_of_a_batch_give_what_the_oracle_gives(oracle, make_graph, piece):
    def feature(library):
        batch = tf.data.Dataset.from_tensors(make_graph(library)).repeat(2).batch(2).get_single_element()
        return library.keras.layers.MakeEmptyFeature()(piece(batch))

    assert tf.type_spec_from_value(feature(tfx_gnn)) == tf.type_spec_from_value(feature(oracle))
    assert feature(tfx_gnn).to_list() == feature(oracle).to_list()


def test_ragged_sets_of_a_batch_give_ragged_features(make_graph, spec):
    graphs = [make_graph(num_nodes=3), make_graph(num_nodes=5)]
    batch = tf.data.Dataset.from_generator(lambda: iter(graphs), output_signature=spec).batch(2).get_single_element()

    assert MakeEmptyFeature()(batch.node_sets["a"]).row_lengths().numpy().tolist() == [3, 5]


def test_the_layer_is_restored_from_its_config(graph):
    restored = MakeEmptyFeature.from_config(MakeEmptyFeature(dtype=tf.int64, name="empty").get_config())

    assert restored.name == "empty"
    assert restored(graph.context).dtype == tf.int64


def test_the_dtype_follows_the_policy_of_the_layer(graph):
    assert MakeEmptyFeature(dtype="mixed_bfloat16")(graph.context).dtype == tf.bfloat16


def test_it_works_on_symbolic_pieces(spec):
    inputs = tf_keras.Input(type_spec=spec)

    assert MakeEmptyFeature()(inputs.node_sets["b"]).shape.as_list() == [None, 0]
    assert tfx_gnn.HIDDEN_STATE == "hidden_state"
