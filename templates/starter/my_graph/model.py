"""The network: users and the products they bought exchange messages."""

import tensorflow_transform as tft
import tf_keras
import tfx_gnn as tfgnn
from tfx_gnn.keras import feature_encoders, layers

UNITS = 32
DROPOUT_RATE = 0.1
LEARNING_RATE = 5e-3

# Receivers, in this order, and their end of the edges. It is the sampling plan backward: users
# learn what they bought, products learn who buys them, and then users learn that.
ROUNDS = (("user", tfgnn.SOURCE), ("product", tfgnn.TARGET), ("user", tfgnn.SOURCE))


def model_fn(graph_spec: tfgnn.GraphTensorSpec, tft_output: tft.TFTransformOutput) -> tf_keras.Model:
    """Builds and compiles the model.

    Args:
        graph_spec: a batch of subgraphs, merged into one graph, as `preprocessing_fn` makes them; no label.
        tft_output: what the transform learned, such as the sizes of vocabularies.

    Returns:
        Model from such a graph to logits, float32 [number of seeds, number of classes].
    """
    # One row more, for categories that the vocabulary lacks.
    num_categories = tft_output.vocabulary_size_by_name("category") + 1
    num_classes = tft_output.vocabulary_size_by_name("interest")

    def first_state(node_set, *, node_set_name):
        """Makes a vector for each node from its own features; called once for each node set."""
        parts = [node_set["numbers"]]
        if node_set_name == "product":
            parts.append(feature_encoders.DenseEmbedding(num_categories, UNITS)(node_set["category"]))
        return tf_keras.layers.Dense(UNITS, activation="relu")(tf_keras.layers.Concatenate()(parts))

    graph = inputs = tf_keras.layers.Input(type_spec=graph_spec)
    graph = layers.MapFeatures(node_sets_fn=first_state)(graph)
    for node_set_name, receiver_tag in ROUNDS:
        # One message along each purchase, and their mean at every node that listens.
        message = tf_keras.layers.Dense(UNITS, activation="relu")
        messages = layers.SimpleConv(message, "mean", receiver_tag=receiver_tag, sender_edge_feature="numbers")
        # The new state of a node, from its old state and what it was told.
        next_state = [tf_keras.layers.Dense(UNITS, activation="relu"), tf_keras.layers.Dropout(DROPOUT_RATE)]
        update = layers.NodeSetUpdate(
            {"purchase": messages}, layers.NextStateFromConcat(tf_keras.Sequential(next_state))
        )
        graph = layers.GraphUpdate(node_sets={node_set_name: update})(graph)
    seed_state = layers.StructuredReadout("seed")(graph)
    model = tf_keras.Model(inputs, tf_keras.layers.Dense(num_classes)(seed_state))
    model.compile(
        optimizer=tf_keras.optimizers.Adam(LEARNING_RATE),
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        # Batches are padded to a fixed size; the weight of padding is 0, so no plain `metrics` here.
        weighted_metrics=["accuracy"],
    )
    return model
