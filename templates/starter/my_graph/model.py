"""The network: messages between users and the products they bought."""

from typing import Any

import tensorflow_transform as tft
import tf_keras
import tfx_gnn as tfgnn
from tfx_gnn.keras import feature_encoders, layers

# What project.yaml may change, under `graph_trainer.hyperparameters`, and `graph_tuner` may search.
DEFAULTS = {"units": 32, "dropout_rate": 0.1, "learning_rate": 5e-3}

# The receiving node set of each round, and its end of the edges. The rounds follow the sampling plan backward: users
# receive messages from their products, products from their buyers, then users from their products again.
ROUNDS = (("user", tfgnn.SOURCE), ("product", tfgnn.TARGET), ("user", tfgnn.SOURCE))


def model_fn(
    graph_spec: tfgnn.GraphTensorSpec, tft_output: tft.TFTransformOutput, hyperparameters: dict[str, Any]
) -> tf_keras.Model:
    """Builds and compiles the model.

    Args:
        graph_spec: spec of a batch of subgraphs as `preprocessing_fn` makes them, merged into one graph without labels.
        tft_output: results of the transform's analysis, such as vocabulary sizes.
        hyperparameters: values that replace those of `DEFAULTS`.

    Returns:
        Model from such a graph to logits, float32 [number of seeds, number of classes].
    """
    unknown = sorted(hyperparameters.keys() - DEFAULTS.keys())
    if unknown:
        raise ValueError(f"`hyperparameters` must be among {sorted(DEFAULTS)}; got {unknown}. Correct project.yaml.")
    values = DEFAULTS | hyperparameters
    units = values["units"]
    # One more row, for categories outside the vocabulary.
    num_rows = tft_output.vocabulary_size_by_name("category") + 1
    num_classes = tft_output.vocabulary_size_by_name("interest")

    def first_state(node_set, *, node_set_name):
        """Makes a vector for each node from its own features; called once for each node set."""
        parts = [node_set["numbers"]]
        if node_set_name == "product":
            parts.append(feature_encoders.DenseEmbedding(num_rows, units, vocabulary="category")(node_set["category"]))
        return tf_keras.layers.Dense(units, activation="relu")(tf_keras.layers.Concatenate()(parts))

    graph = inputs = tf_keras.layers.Input(type_spec=graph_spec)
    graph = layers.MapFeatures(node_sets_fn=first_state)(graph)
    for node_set_name, receiver_tag in ROUNDS:
        # One message along each purchase; every receiver takes the mean of its messages.
        message = tf_keras.layers.Dense(units, activation="relu")
        messages = layers.SimpleConv(message, "mean", receiver_tag=receiver_tag, sender_edge_feature="numbers")
        # The new state of a node, from its old state and that mean.
        next_state = [tf_keras.layers.Dense(units, activation="relu"), tf_keras.layers.Dropout(values["dropout_rate"])]
        update = layers.NodeSetUpdate(
            {"purchase": messages}, layers.NextStateFromConcat(tf_keras.Sequential(next_state))
        )
        graph = layers.GraphUpdate(node_sets={node_set_name: update})(graph)
    seed_state = layers.StructuredReadout("seed")(graph)
    model = tf_keras.Model(inputs, tf_keras.layers.Dense(num_classes)(seed_state))
    model.compile(
        optimizer=tf_keras.optimizers.Adam(values["learning_rate"]),
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        # Batches are padded to a fixed size. Padding has weight 0; plain `metrics` ignore weights.
        weighted_metrics=["accuracy"],
    )
    return model
