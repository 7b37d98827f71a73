from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import f1_score

from tfx_gnn.models.metrics import MacroF1


def test_figures_of_batches_are_those_of_all_rows_together():
    """Three batches of five of 7 classes, of which one never occurs; padding rows have the weight 0."""
    generator = np.random.default_rng(0)
    classes = generator.integers(0, 6, 300)
    logits = generator.normal(size=(300, 7)).astype(np.float32)
    logits[:, 6] = -100.0
    logits[np.arange(300), classes] += 1.5
    weights = (generator.random(300) < 0.7).astype(np.float32)
    metric = MacroF1(7)

    for rows in np.split(np.arange(300), [50, 51, 200]):
        metric.update_state(classes[rows][:, None], logits[rows], weights[rows][:, None])

    counted = weights > 0
    expected = f1_score(classes[counted], logits[counted].argmax(axis=1), average="macro")
    assert float(metric.result()) == pytest.approx(expected, rel=1e-6)


def test_nothing_counted_is_zero():
    metric = MacroF1(2)
    metric.update_state([0, 1], [[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])

    assert float(metric.result()) == 0.0


def test_replicas_add_their_counts():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        metric = MacroF1.from_config(MacroF1(2, name="f1").get_config())

    strategy.run(metric.update_state, args=(tf.constant([0, 1, 1]), tf.constant([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0]])))

    # Class 0: precision 1/2, recall 1. Class 1: precision 1, recall 1/2.
    assert float(metric.result()) == pytest.approx(2 / 3)
    assert metric.name == "f1"
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_no_classes_are_refused():
    with pytest.raises(ValueError, match="`num_classes` must be at least 1; got 0"):
        MacroF1(0)
