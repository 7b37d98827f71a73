"""A small network on the seed's own score."""

import tf_keras

import tfx_gnn as tfgnn

UNITS = 8


def model_fn(graph_spec, tft_output):
    graph = tf_keras.layers.Input(type_spec=graph_spec)
    score = tfgnn.structured_readout(graph, "seed", feature_name="score")
    hidden = tf_keras.layers.Dense(UNITS, activation="relu")(score[:, None])
    logits = tf_keras.layers.Dense(tft_output.vocabulary_size_by_name("topic"))(hidden)
    model = tf_keras.Model(graph, logits)
    model.compile(
        optimizer=tf_keras.optimizers.Adam(0.2),
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
    )
    return model
