"""TF-GNN's input pipeline guide, "Feature preprocessing"."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn as tfgnn


@pytest.fixture(scope="module")
def batch(data):
    spec = tfgnn.create_graph_spec_from_schema_pb(tfgnn.parse_schema(data.schema_text()))
    return tfgnn.parse_example(spec, tf.constant([data.record(i) for i in range(3)]))


@pytest.fixture
def preproc_input_graph(batch):
    # Batches of any size, as a dataset has them.
    return tf_keras.layers.Input(type_spec=tf.data.Dataset.from_tensors(batch).unbatch().batch(3).element_spec)


def test_ids_are_hashed_on_all_node_sets(preproc_input_graph, batch):
    def node_sets_fn(node_set, *, node_set_name):
        features = node_set.get_features_dict()

        # Replace "id" by "hashed_id".
        ids = features.pop("id")
        num_bins = 100000 if node_set_name == "docs" else 20000
        features["hashed_id"] = tf_keras.layers.Hashing(num_bins=num_bins)(ids)

        # More features could be handled here.

        return features

    graph = tfgnn.keras.layers.MapFeatures(node_sets_fn=node_sets_fn)(preproc_input_graph)

    mapped = tf_keras.Model(preproc_input_graph, graph)(batch)
    expected = tf_keras.layers.Hashing(num_bins=100000)(batch.node_sets["docs"]["id"])
    assert sorted(mapped.node_sets["docs"].features) == ["hashed_id", "words", "x"]
    assert sorted(mapped.node_sets["authors"].features) == ["hashed_id"]
    assert mapped.node_sets["docs"]["hashed_id"].to_list() == expected.to_list()
    assert int(tf.reduce_max(mapped.node_sets["authors"]["hashed_id"])) < 20000
    assert list(mapped.node_sets["_readout"].features) == ["class_id"]


def test_one_callback_may_serve_all_pieces(preproc_input_graph, batch):
    seen = []

    def fn(graph_piece, **kwargs):
        seen.append(kwargs)
        return graph_piece.get_features_dict()

    graph = tfgnn.keras.layers.MapFeatures(node_sets_fn=fn, edge_sets_fn=fn, context_fn=fn)(preproc_input_graph)

    mapped = tf_keras.Model(preproc_input_graph, graph)(batch)
    assert seen[0] == {}
    assert {tuple(kwargs.items()) for kwargs in seen[1:]} == {
        *((("node_set_name", name),) for name in ("docs", "authors")),
        *((("edge_set_name", name),) for name in ("cites", "writes")),
    }
    assert mapped.node_sets["docs"]["id"].to_list() == batch.node_sets["docs"]["id"].to_list()


def test_a_label_is_looked_up_on_the_auxiliary_node_set(preproc_input_graph, batch):
    lookup = tf_keras.layers.IntegerLookup(vocabulary=[1, 0], num_oov_indices=0)

    graph = tfgnn.keras.layers.MapFeatures(
        node_sets_fn=lambda node_set, *, node_set_name: (
            {"class_id": lookup(node_set["class_id"])} if node_set_name == "_readout" else None
        ),
        allowed_aux_node_sets_pattern=r"_readout",
    )(preproc_input_graph)

    mapped = tf_keras.Model(preproc_input_graph, graph)(batch)
    assert batch.node_sets["_readout"]["class_id"].to_list() == [[0], [1], [0]]
    assert mapped.node_sets["_readout"]["class_id"].to_list() == [[1], [0], [1]]


_KERAS_LAYERS = {
    "Discretization": lambda node_set: tf_keras.layers.Discretization(bin_boundaries=[0.0])(node_set["x"]),
    "Hashing": lambda node_set: tf_keras.layers.Hashing(num_bins=5)(node_set["words"]),
    "Rescaling": lambda node_set: tf_keras.layers.Rescaling(2.0)(node_set["x"]),
    "StringLookup": lambda node_set: tf_keras.layers.StringLookup(vocabulary=["graph"])(node_set["words"]),
}
# Batches of shape [batch_size, (set_size), ...]: x of the three graphs, and words of the first.
_EXPECTED = {
    "Discretization": [[[1, 1]] * 4, [[0, 1]] * 5, [[1, 1]] * 6],
    "Hashing": None,
    "Rescaling": [[[2.0, 0.0]] * 4, [[-2.0, 2.0]] * 5, [[2.0, 4.0]] * 6],
    "StringLookup": [
        [[1, 0]] * 2 + [[]] * 2,
        [[1, 0]] * 2 + [[]] * 3,
        [[1, 0]] * 3 + [[]] * 3,
    ],
}


@pytest.mark.parametrize("layer", _KERAS_LAYERS)
def test_preprocessing_layers_of_keras_take_ragged_features(preproc_input_graph, batch, layer):
    graph = tfgnn.keras.layers.MapFeatures(
        node_sets_fn=lambda node_set, *, node_set_name: (
            {"f": _KERAS_LAYERS[layer](node_set)} if node_set_name == "docs" else None
        )
    )(preproc_input_graph)

    feature = tf_keras.Model(preproc_input_graph, graph)(batch).node_sets["docs"]["f"]

    assert isinstance(feature, tf.RaggedTensor)
    assert feature.row_lengths().numpy().tolist() == [4, 5, 6]
    if _EXPECTED[layer] is not None:
        assert feature.to_list() == _EXPECTED[layer]


class _Centered(tf_keras.layers.Layer):
    """Subtracts the mean over the nodes of one graph, which is no other graph's."""

    def call(self, feature):
        return tf.map_fn(
            lambda x: x - tf.reduce_mean(x, axis=0, keepdims=True),
            feature,
            fn_output_signature=tf.RaggedTensorSpec([None, 2], ragged_rank=0),
        )


class _NeedsDenseInput(tf_keras.layers.Layer):
    """Stands for a layer that takes no ragged tensors."""

    def call(self, x):
        if isinstance(x, tf.RaggedTensor):
            raise TypeError("dense tensors only")
        return x @ tf.constant([[1.0, 2.0], [0.0, 3.0]])

    def compute_output_shape(self, input_shape):
        return input_shape


def _time_distributed(feature):
    return tf_keras.layers.TimeDistributed(_NeedsDenseInput())(feature)


def _with_values(feature):
    # The guide says `from_values`; tf.RaggedTensor has no method of that name.
    layer = _NeedsDenseInput()
    return feature.with_values(layer(feature.values))


@pytest.mark.parametrize("work_around", [_time_distributed, _with_values])
def test_layers_that_take_no_ragged_features_see_all_graphs_in_one(preproc_input_graph, batch, work_around):
    graph = tfgnn.keras.layers.MapFeatures(
        node_sets_fn=lambda node_set, *, node_set_name: (
            {"f": work_around(node_set["x"])} if node_set_name == "docs" else None
        )
    )(preproc_input_graph)

    mapped = tf_keras.Model(preproc_input_graph, graph)(batch)

    assert mapped.node_sets["docs"]["f"].to_list() == [[[1.0, 2.0]] * 4, [[-1.0, 1.0]] * 5, [[1.0, 8.0]] * 6]


def test_layers_that_take_no_ragged_features_work_after_merging(preproc_input_graph, batch):
    graph = preproc_input_graph.merge_batch_to_components()
    graph = tfgnn.keras.layers.MapFeatures(
        node_sets_fn=lambda node_set, *, node_set_name: (
            {"f": _NeedsDenseInput()(node_set["x"])} if node_set_name == "docs" else None
        )
    )(graph)

    mapped = tf_keras.Model(preproc_input_graph, graph)(batch)

    assert mapped.node_sets["docs"]["f"].numpy().tolist() == [[1.0, 2.0]] * 4 + [[-1.0, 1.0]] * 5 + [[1.0, 8.0]] * 6


def test_a_layer_maps_a_function_over_one_graph_at_a_time(preproc_input_graph, batch):
    graph = tfgnn.keras.layers.MapFeatures(
        node_sets_fn=lambda node_set, *, node_set_name: (
            {"f": _Centered()(node_set["x"])} if node_set_name == "docs" else None
        )
    )(preproc_input_graph)

    mapped = tf_keras.Model(preproc_input_graph, graph)(batch)

    np.testing.assert_allclose(mapped.node_sets["docs"]["f"].flat_values, np.zeros([15, 2]))
