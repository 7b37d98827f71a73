from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.models.tasks import LinkPrediction, MultiTask, NodeClassification, NodeRegression
from tfx_gnn.models.tasks.task import LabelSummary
from tfx_gnn.training.data.input_pipeline import LabelledBatch
from tfx_gnn.training.loop.learning_check import describe_large_inputs, find_useless_outputs

NUM_ROWS = 400
CLASSES = NodeClassification(label_feature="label", num_classes=2)
NUMBERS = NodeRegression(label_feature="label")


def _batches(labels, *, weights=None, size=1.0):
    """Two batches of nodes whose x is 0 for labels below 1 and `size` for others, with a constant year beside it."""
    x = size * (np.asarray(labels) >= 1).astype(np.float32)
    weights = np.ones(NUM_ROWS, np.float32) if weights is None else np.asarray(weights, np.float32)
    for rows in np.split(np.arange(NUM_ROWS), 2):
        graph = tfx_gnn.homogeneous(
            source=tf.constant([0]),
            target=tf.constant([0]),
            node_features={"x": tf.constant(x[rows]), "year": tf.fill([len(rows)], 2013.0 * (size > 0.0))},
        )
        shape = [-1, 1] if np.asarray(labels).dtype == np.float32 else [-1]
        yield LabelledBatch(
            graph=graph,
            labels=tf.reshape(tf.constant(labels[rows]), shape),
            counts=tf.ones_like(tf.reshape(tf.constant(weights[rows]), shape), tf.bool),
            weights=tf.reshape(tf.constant(weights[rows]), shape),
        )


def _x(graph):
    return graph.node_sets["nodes"]["x"]


def _find(answer, labels, task=CLASSES, *, class_counts=(), **given):
    labels = np.asarray(labels)
    counts = class_counts or tuple(np.bincount(labels.astype(int), minlength=2).tolist())
    summary = LabelSummary(
        num_labels=NUM_ROWS, num_counted=NUM_ROWS, class_counts=counts, mean=(float(labels.mean()),), std=(1.0,)
    )
    return find_useless_outputs(_batches(labels, **given), answer, task.objective(summary=summary), {"": summary})


ONE_IN_FOUR = (np.arange(NUM_ROWS) % 4 == 0).astype(np.int64)


def test_a_network_that_tells_classes_apart_is_useful():
    assert not _find(lambda graph: tf.stack([-_x(graph), _x(graph)], axis=1), ONE_IN_FOUR)


def test_probabilities_that_are_far_off_are_forgiven_if_the_classes_are_right():
    # Nine in ten are right, but each mistake costs a hundred.
    labels = np.where(np.arange(NUM_ROWS) % 10, ONE_IN_FOUR, 1 - ONE_IN_FOUR)
    given = iter([ONE_IN_FOUR[:200], ONE_IN_FOUR[200:]])

    def answer(_):
        sides = 2.0 * next(given) - 1.0
        return tf.constant(100.0 * np.stack([-sides, sides], axis=1), tf.float32)

    assert not _find(answer, labels)


def test_equal_answers_and_a_large_input_are_named():
    always = lambda graph: tf.tile([[1.1, 0.0]], [tf.size(_x(graph)), 1])  # noqa: E731 - as short as the answer is.

    (found,) = _find(always, ONE_IN_FOUR).values()

    assert found.num_labels == NUM_ROWS
    assert found.measures == "cross-entropy 0.5623 against 0.5623 and share of errors 0.25 against 0.25"
    scale, same = found.causes
    assert "nodes/nodes.year of about 2,013. Standardize them by `z_score`" in scale
    assert same.startswith("its answers are the same for all examples")
    described = found.describe("late", 1200)
    assert described.startswith(
        "Task 'late': after 1,200 steps, the network is no better than a constant on 400 of its"
    )
    assert "Likely cause: inputs are too large" in described


def test_a_hard_task_has_no_cause():
    # Answers differ, and have nothing to do with the labels: x is left out.
    noise = tf.constant(np.random.default_rng(0).normal(size=[NUM_ROWS // 2, 2]), tf.float32)

    (found,) = _find(lambda _: noise * 0.1 + [1.1, 0.0], ONE_IN_FOUR, size=0.0).values()

    assert not found.causes
    assert "No cause can be seen: train longer" in found.describe("", 10)


def test_a_loss_far_above_the_constants_is_a_cause():
    wild = tf.constant(np.random.default_rng(0).normal(size=[NUM_ROWS // 2, 2]), tf.float32)

    (found,) = _find(lambda _: 50.0 * wild, ONE_IN_FOUR, size=0.0).values()

    (cause,) = found.causes
    assert cause.startswith("its loss is far above that of the constant: lower the learning rate")


def test_the_constant_is_that_of_the_weights_of_training():
    # With balanced weights, the best constant is one half; a network of the shares loses to it.
    weights = np.where(ONE_IN_FOUR, 2.0, 2.0 / 3.0)
    balanced = NodeClassification(label_feature="label", num_classes=2, class_weights="balanced")

    (found,) = _find(
        lambda graph: tf.zeros([tf.size(_x(graph)), 2]), ONE_IN_FOUR, balanced, weights=weights, size=0.0
    ).values()

    assert found.measures.startswith("cross-entropy 0.6931 against 0.6931")


def test_numbers_are_compared_with_their_mean():
    labels = np.where(ONE_IN_FOUR, 3.0, 0.0).astype(np.float32)

    assert not _find(lambda graph: 3.0 * _x(graph)[:, tf.newaxis], labels, NUMBERS)
    (found,) = _find(lambda graph: tf.fill([tf.size(_x(graph)), 1], 0.75), labels, NUMBERS, size=0.0).values()
    assert found.measures == "squared error 1.688 against 1.688 and absolute error 1.125 against 1.125"


@pytest.mark.parametrize("spared", ["few labels", "pairs"])
def test_what_says_nothing_is_left_out(spared):
    if spared == "few labels":
        weights = np.arange(NUM_ROWS) < 20
        found = _find(lambda graph: tf.zeros([tf.size(_x(graph)), 2]), ONE_IN_FOUR, weights=weights)
    else:
        found = find_useless_outputs(
            [], None, LinkPrediction(label_feature="label").objective(), {"": LabelSummary(num_labels=1, num_counted=1)}
        )

    assert not found


def test_each_of_several_tasks_has_a_verdict():
    summary = LabelSummary(num_labels=NUM_ROWS, num_counted=NUM_ROWS, class_counts=(300, 100))
    objective = MultiTask(
        tasks={"late": CLASSES, "early": dataclasses.replace(CLASSES, label_feature="other")}
    ).objective(summary={"late": summary, "early": summary})

    def both(batch):
        return batch._replace(
            **{name: dict.fromkeys(("late", "early"), getattr(batch, name)) for name in ("labels", "counts", "weights")}
        )

    found = find_useless_outputs(
        map(both, _batches(ONE_IN_FOUR)),
        lambda graph: {
            "late": tf.stack([-_x(graph), _x(graph)], axis=1),
            "early": tf.tile([[1.1, 0.0]], [tf.size(_x(graph)), 1]),
        },
        objective,
        {"late": summary, "early": summary},
    )

    assert list(found) == ["early"]


def test_an_input_is_as_large_as_half_of_its_numbers_without_padding():
    def graph(**features):
        return tfx_gnn.homogeneous(
            source=tf.constant([0]),
            target=tf.constant([0]),
            node_features={name: tf.constant(values) for name, values in features.items()},
        )

    padded, fine, whole = [40.0, -40.0, 0.0, 0.0, 0.0], [1000.0, 1.0, 1.0, 0.0, 0.0], [100, 100, 100, 100, 100]
    parts = [[1.0, 31.0]] * 5

    words = describe_large_inputs([graph(a=padded, b=fine, c=whole, d=parts, e=[0.0] * 5)])

    assert "about 1: nodes/nodes.a of about 40, nodes/nodes.d of about 31. Standardize" in words
    many = describe_large_inputs([graph(**{name: [50.0, 50.0] for name in "abcd"})])
    assert "nodes/nodes.d of about 50, nodes/nodes.c of about 50, nodes/nodes.b of about 50 and 1 more" in many
    assert not describe_large_inputs([graph(b=fine)])
