"""For every task: what a padded batch gives is what the graphs alone give."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.models.tasks import (
    GraphClassification,
    GraphRegression,
    LabelSummary,
    LinkPrediction,
    MultiTask,
    NodeClassification,
    NodeRegression,
)

COLOR = NodeClassification(label_feature="color", num_classes=3, label_smoothing=0.1)
PRICE = NodeRegression(label_feature="price", loss="huber")
KIND = GraphClassification(label_feature="kind", num_classes=2, pooling="mean|max", class_weights="balanced")
ENERGY = GraphRegression(label_feature="energy", num_outputs=2, pooling="sum", standardize=True)
LINKS = LinkPrediction(scoring="hadamard", hidden_units=(3,))
CASES = {
    "color": ("seeds", COLOR),
    "price": ("seeds", PRICE),
    "pooled color": (
        "seeds",
        NodeClassification(label_feature="color", num_classes=3, pooling="mean|max"),
    ),
    "kind": ("seeds", KIND),
    "energy": ("seeds", ENERGY),
    "dot": ("pairs", LinkPrediction(loss="softmax")),
    "hadamard": ("pairs", LINKS),
    "distmult": ("pairs", LinkPrediction(scoring="distmult", relation_feature="relation", num_relations=2)),
    "seal": ("single_pairs", LinkPrediction(scoring="seal", pooling="mean|max", hidden_units=(3,))),
    "nodes and graphs": ("seeds", MultiTask(tasks={"a": COLOR, "b": PRICE, "c": KIND}, loss_weights={"b": 0.5})),
    "links and graphs": ("pairs", MultiTask(tasks={"links": LINKS, "energy": ENERGY})),
}
SUMMARY = {
    "kind": LabelSummary(num_labels=3, num_counted=3, class_counts=(2, 1)),
    "energy": LabelSummary(num_labels=6, num_counted=3, mean=(3.0, 10.0), std=(1.0, 0.0)),
}
SUMMARY["c"] = SUMMARY["kind"]


def _batch(objective, graph, is_real):
    """What the input of training makes, with weights that make the loss a mean over what counts."""
    graph, labels = objective.split_off_labels(graph)
    counts = objective.counts(labels, graph, is_real)
    weights = tf.nest.map_structure(lambda c, w: tf.where(c, w, 0.0), counts, objective.weights(labels))
    weights = tf.nest.map_structure(
        lambda w: w * tf.cast(tf.size(w), tf.float32) / tf.reduce_sum(tf.cast(w > 0, tf.float32)), weights
    )
    return graph, objective.safe_labels(labels), weights


@pytest.mark.parametrize("case", CASES)
def test_loss_metrics_and_gradient_are_those_of_the_graphs_alone(case, request, pad):
    name, task = CASES[case]
    graph = request.getfixturevalue(name)
    objective = task.objective(summary=SUMMARY.get(case, SUMMARY))
    objective.check_spec(graph.spec)
    padded, is_real = pad(graph)
    batches = [_batch(objective, graph, tf.ones([3], tf.bool)), _batch(objective, padded, is_real)]
    inputs = tf_keras.Input(type_spec=batches[0][0].spec.relax(num_components=True, num_nodes=True, num_edges=True))
    model = tf_keras.Model(inputs, objective.output_layer()(inputs))
    model.compile(**objective.compile_arguments(), run_eagerly=True)

    found = []
    for features, labels, weights in batches:
        with tf.GradientTape() as tape:
            output = model(features, training=True)
            loss = model.compiled_loss(labels, output, weights)
        objective.check_output(output, features)
        model.reset_metrics()
        figures = {name: float(value) for name, value in model.test_step((features, labels, weights)).items()}
        found.append((figures, [np.asarray(g) for g in tape.gradient(loss, model.trainable_variables)]))

    (alone, gradients), (in_batch, gradients_in_batch) = found
    assert alone.keys() == in_batch.keys()
    assert list(alone.values()) == pytest.approx(list(in_batch.values()), rel=1e-5)
    assert np.isfinite(list(alone.values())).all()
    for gradient, gradient_in_batch in zip(gradients, gradients_in_batch, strict=True):
        assert np.isfinite(gradient_in_batch).all()
        np.testing.assert_allclose(gradient, gradient_in_batch, atol=1e-5)


def test_readouts_that_are_the_same_are_shared_by_several_tasks(seeds):
    def layers(task):
        inputs = tf_keras.Input(type_spec=seeds.spec)
        model = tf_keras.Model(inputs, task.objective().output_layer()(inputs))
        return {layer.name for layer in model.layers if not isinstance(layer, tf_keras.layers.InputLayer)}

    assert layers(MultiTask(tasks={"a": COLOR, "b": PRICE})) == {"embeddings", "a", "b"}
    assert layers(CASES["nodes and graphs"][1]) == {"a_embeddings", "c_embeddings", "a", "b", "c"}
    assert layers(COLOR) == {"embeddings", "logits"}


def test_model_of_its_own_class_has_the_variables_of_its_output_layers(pairs):
    class Model(tf_keras.Model):
        def __init__(self):
            super().__init__()
            self.output_layers = LINKS.objective().output_layer()

        def call(self, graph):
            return self.output_layers(graph)

    model = Model()
    model(pairs)

    assert len(model.trainable_variables) == 6
