import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.keras.layers import MakeEmptyFeature


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
