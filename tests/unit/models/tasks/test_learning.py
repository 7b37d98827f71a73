"""Each task, trained on data whose answer is obvious: a few steps of a small network reach it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.keras import layers
from tfx_gnn.models.relational_update import relational_graph_update
from tfx_gnn.models.tasks import (
    GraphClassification,
    GraphRegression,
    LabelSummary,
    LinkPrediction,
    MultiTask,
    NodeClassification,
    NodeRegression,
)


def _edges(pairs, sizes, source="node", target="node"):
    ends = np.asarray(pairs, np.int32).reshape(-1, 2)
    adjacency = Adjacency.from_indices((source, tf.constant(ends[:, 0])), (target, tf.constant(ends[:, 1])))
    return EdgeSet.from_fields(sizes=list(sizes), features={}, adjacency=adjacency)


def _train(graph, task, *, num_steps, num_rounds=1, units=16, rate=0.03, summary=None):
    """Trains on the whole graph; gives figures of a last look at it, and the answers."""
    tf_keras.utils.set_random_seed(3)
    objective = task.objective(summary=summary)
    objective.check_spec(graph.spec)
    features, labels = objective.split_off_labels(graph)
    inputs = tf_keras.Input(type_spec=features.spec)
    states = layers.MapFeatures(node_sets_fn=lambda nodes, **_: nodes["x"] if "x" in nodes.features else None)(inputs)
    for _ in range(num_rounds):
        states = relational_graph_update(features.spec, units=units)(states)
    model = tf_keras.Model(inputs, objective.output_layer()(states))
    model.compile(tf_keras.optimizers.Adam(rate), **objective.compile_arguments())
    real = tf.ones([graph.num_components.numpy()], tf.bool)
    weights = tf.nest.map_structure(
        lambda counts, weight: tf.where(counts, weight, 0.0),
        objective.counts(labels, features, real),
        objective.weights(labels),
    )
    batches = tf.data.Dataset.from_tensors((features, objective.safe_labels(labels), weights))
    model.fit(batches.repeat(num_steps), verbose=0)
    figures = model.evaluate(batches, verbose=0, return_dict=True)
    return figures, objective.served_outputs(model(features), features)


@pytest.fixture(scope="module")
def communities():
    """Two groups of 20: six of seven edges stay within one; each node's own number says little."""
    generator = np.random.default_rng(0)
    group = np.repeat([0, 1], 20)
    pairs = [
        (i, (generator.integers(20) + 20 * (group[i] if k else 1 - group[i]))) for i in range(40) for k in range(7)
    ]
    x = np.stack([group + generator.normal(scale=1.0, size=40), np.ones(40)], axis=1).astype(np.float32)
    age = np.where(group, 50.0, 20.0).astype(np.float32)
    age[::4] = np.nan
    return GraphTensor.from_pieces(
        node_sets={
            "node": NodeSet.from_fields(sizes=[40], features={"x": x}),
            "_readout": NodeSet.from_fields(
                sizes=[40], features={"group": tf.constant(group, tf.int64), "age": tf.constant(age)}
            ),
        },
        edge_sets={
            "edge": _edges(pairs, [280]),
            "_readout/seed": _edges([(i, i) for i in range(40)], [40], target="_readout"),
        },
    ), age


def test_communities_are_told_apart_and_their_ages_guessed(communities):
    """Three of four ages are known; the model answers in years for all."""
    graph, _ = communities
    task = MultiTask(
        tasks={
            "group": NodeClassification(label_feature="group", num_classes=2, label_smoothing=0.1),
            "age": NodeRegression(label_feature="age", standardize=True),
        }
    )
    summary = {
        "group": LabelSummary(num_labels=40, num_counted=40, class_counts=(20, 20)),
        "age": LabelSummary(num_labels=40, num_counted=30, mean=(35.0,), std=(15.0,)),
    }

    figures, answers = _train(graph, task, num_steps=60, num_rounds=2, summary=summary)

    assert figures["group_accuracy"] == 1.0
    assert figures["group_macro_f1"] == 1.0
    assert figures["age_mae"] < 3.0
    assert figures["age_r2"] > 0.9
    np.testing.assert_allclose(answers["age/prediction"][:, 0], [20.0] * 20 + [50.0] * 20, atol=10.0)


@pytest.fixture(scope="module")
def triangles():
    """64 graphs of 0 to 4 triangles and 4 to 8 other edges; each edge knows whether it is in a triangle."""
    generator = np.random.default_rng(1)
    num_triangles = generator.integers(0, 5, 64)
    sizes, num_edges, pairs, in_triangle = [], [], [], []
    start = 0
    for count in num_triangles:
        rest = generator.integers(4, 9)
        corners = start + 3 * np.arange(count)
        closed = [(c + a, c + b) for c in corners for a, b in ((0, 1), (1, 2), (2, 0))]
        path = [(start + 3 * count + k, start + 3 * count + k + 1) for k in range(rest)]
        pairs += closed + path
        in_triangle += [1] * 3 * count + [0] * (rest + 1)
        sizes.append(3 * count + rest + 1)
        num_edges.append(len(closed) + len(path))
        start += sizes[-1]
    return GraphTensor.from_pieces(
        context=Context.from_fields(
            features={
                "num_triangles": tf.constant(num_triangles, tf.float32),
                "has_triangle": tf.constant(num_triangles > 0, tf.int64),
            }
        ),
        node_sets={"node": NodeSet.from_fields(sizes=sizes, features={"x": tf.one_hot(in_triangle, 2)})},
        edge_sets={"edge": _edges(pairs, num_edges)},
    )


def test_triangles_are_counted(triangles):
    task = GraphRegression(label_feature="num_triangles", pooling="sum")

    figures, answers = _train(triangles, task, num_steps=150)

    assert figures["mae"] < 0.2
    assert figures["r2"] > 0.98
    assert np.mean(np.round(answers["prediction"][:, 0]) == triangles.context["num_triangles"]) > 0.95


def test_graphs_with_triangles_are_found(triangles):
    task = GraphClassification(label_feature="has_triangle", num_classes=2, pooling="max", class_weights="balanced")
    counts = np.bincount(triangles.context["has_triangle"].numpy())
    summary = LabelSummary(num_labels=64, num_counted=64, class_counts=tuple(counts.tolist()))

    figures, _ = _train(triangles, task, num_steps=30, summary=summary)

    assert figures["accuracy"] == 1.0


@pytest.mark.parametrize(
    "task",
    [
        LinkPrediction(loss="softmax"),
        LinkPrediction(scoring="hadamard", hidden_units=(16,)),
        LinkPrediction(scoring="distmult", relation_feature="returned", num_relations=2),
    ],
    ids=lambda task: task.scoring,
)
def test_links_between_buyers_and_things_of_their_color_are_ranked_first(task):
    """20 examples of a buyer and five things of five colors: the one of the buyer's color is bought.

    With relations, every second example asks for what is returned: the thing of the next color.
    """
    color = np.arange(20) % 5
    returned = np.arange(20) // 5 % 2 if task.relation_feature else np.zeros(20, np.int64)
    labels = np.concatenate([np.arange(5) == (color[i] + returned[i]) % 5 for i in range(20)]).astype(np.int64)
    graph = GraphTensor.from_pieces(
        node_sets={
            "node": NodeSet.from_fields(sizes=[1] * 20, features={"x": tf.one_hot(color, 5)}),
            "thing": NodeSet.from_fields(sizes=[5] * 20, features={"x": tf.one_hot(np.tile(np.arange(5), 20), 5)}),
            "_readout": NodeSet.from_fields(
                sizes=[5] * 20,
                features={"label": tf.constant(labels), "returned": tf.constant(np.repeat(returned, 5))},
            ),
        },
        edge_sets={
            "_readout/source": _edges([(k // 5, k) for k in range(100)], [5] * 20, target="_readout"),
            "_readout/target": _edges([(k, k) for k in range(100)], [5] * 20, "thing", "_readout"),
        },
    )

    figures, answers = _train(graph, task, num_steps=100)

    assert figures["mrr"] == pytest.approx(1.0)
    assert figures["hits_at_1"] == 1.0
    assert figures["auc"] > 0.95
    assert answers["scores"].shape == [20, 5]
