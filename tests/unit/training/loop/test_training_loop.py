from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.training.data.input_pipeline import NUM_COUNTS
from tfx_gnn.training.loop.training_loop import Execution, TrainingState, train

X, Y = np.array([[1.0], [2.0], [3.0]], np.float32), np.array([[3.0], [1.0], [2.0]], np.float32)


class _OneBatchSteps:
    """Epochs of one step, on all numbers."""

    def __init__(self, model):
        self._model = model

    def begin_epoch(self, position):
        pass

    def run(self):
        logs = self._model.train_step((tf.constant(X), tf.constant(Y)))
        return Execution(
            num_steps=1, is_end=True, seconds_waited=0.0, counts=np.zeros([NUM_COUNTS], np.int64), logs=logs
        )


def _model(**optimizer_options):
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(optimizer=tf_keras.optimizers.SGD(0.01, **optimizer_options), loss="mse")
    model.build([None, 1])
    return model


@pytest.mark.parametrize("use_ema", [False, True])
def test_loop_ends_with_the_weights_that_fit_ends_with(use_ema):
    # tests/unit/training/loop/test_same_weights.py compares the averages under all strategies.
    ours, expected = (_model(use_ema=use_ema, ema_momentum=0.5) for _ in range(2))
    raw = _model()
    for model in (expected, raw):
        model.fit(X, Y, batch_size=3, epochs=3, shuffle=False, verbose=0)

    train(ours, _OneBatchSteps(ours), evaluate=dict, num_epochs=3, state=TrainingState())

    for weight, wanted in zip(ours.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(weight, wanted, rtol=1e-6)
    assert np.allclose(ours.get_weights()[0], raw.get_weights()[0], rtol=1e-4) != use_ema
