"""Where a model's embeddings are found."""

import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.keras import layers
from tfx_gnn.models.tasks import GraphRegression
from tfx_gnn.models.tasks.label_places import GraphReadout
from tfx_gnn.training.export.served_model import embedding_model


def test_a_network_in_a_sequential_hides_no_embeddings() -> None:
    graph = tfx_gnn.homogeneous(
        source=tf.constant([0]), target=tf.constant([1]), node_features={"hidden_state": tf.constant([[1.0], [3.0]])}
    )
    network = tf_keras.Sequential([layers.MapFeatures(node_sets_fn=lambda nodes, **_: nodes["hidden_state"] * 2.0)])
    inputs = tf_keras.layers.Input(type_spec=graph.spec)
    model = tf_keras.Model(inputs, tf_keras.layers.Dense(1)(GraphReadout()(network(inputs))))

    found = embedding_model(model, GraphRegression(label_feature="shape").objective())

    assert found is not None
    assert {name: value.numpy().tolist() for name, value in found(graph).items()} == {"embedding": [[4.0]]}
