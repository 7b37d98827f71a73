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


def _model(optimizer, strategy):
    with strategy.scope():
        model = tf_keras.Sequential([tf_keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(optimizer=optimizer(), loss="mse")
        model.build([None, 1])
    return model


@pytest.mark.parametrize("use_ema", [False, True])
def test_loop_ends_with_the_weights_that_fit_ends_with(use_ema):
    def optimizer():
        return tf_keras.optimizers.SGD(0.01, use_ema=use_ema, ema_momentum=0.5)

    strategy = tf.distribute.get_strategy()
    ours, expected = _model(optimizer, strategy), _model(optimizer, strategy)
    raw = _model(lambda: tf_keras.optimizers.SGD(0.01), strategy)
    for model in (expected, raw):
        model.fit(X, Y, batch_size=3, epochs=3, shuffle=False, verbose=0)

    train(ours, _OneBatchSteps(ours), evaluate=dict, num_epochs=3, state=TrainingState())

    for weight, wanted in zip(ours.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(weight, wanted, rtol=1e-6)
    assert np.allclose(ours.get_weights()[0], raw.get_weights()[0], rtol=1e-4) != use_ema


def test_averages_take_the_place_of_the_weights_of_all_replicas():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    model = _model(lambda: tf_keras.optimizers.SGD(0.01, use_ema=True, ema_momentum=0.5), strategy)
    with strategy.scope():
        model.optimizer.build(model.trainable_variables)
    averages = [variable.numpy() + 1.0 for variable in model.trainable_variables]
    for variable, average in zip(model.optimizer._model_variables_moving_average, averages, strict=True):
        variable.assign(average)

    train(model, _OneBatchSteps(model), evaluate=dict, num_epochs=0, state=TrainingState())

    for weight, wanted in zip(model.get_weights(), averages, strict=True):
        np.testing.assert_array_equal(weight, wanted)
