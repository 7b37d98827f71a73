from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.models.tasks import NodeRegression
from tfx_gnn.training.loop.optimizers import ScheduledRate, set_optimizer
from tfx_gnn.training.options import OptimizationOptions

OBJECTIVE = NodeRegression(label_feature="age").objective()


def _model() -> tf_keras.Model:
    """Maps x to 2 x + 1."""
    dense = tf_keras.layers.Dense(1, kernel_initializer=tf.constant_initializer(2.0), bias_initializer="ones")
    inputs = tf_keras.Input([1])
    return tf_keras.Model(inputs, dense(inputs))


def _set(model: tf_keras.Model, hyperparameters: Any = None, num_steps: int = 10, **options: Any) -> tf_keras.Model:
    set_optimizer(
        model,
        OptimizationOptions(**options),
        reference="my.models:f",
        objective=OBJECTIVE,
        hyperparameters=hyperparameters or {},
        num_steps=num_steps,
    )
    return model


def _after_step(model: tf_keras.Model, *gradients: float) -> list[float]:
    """Kernel and bias after a step with these gradients."""
    kernel, bias = model.trainable_variables
    model.optimizer.apply_gradients([(tf.fill([1, 1], gradients[0]), kernel), (tf.fill([1], gradients[1]), bias)])
    return [float(weight.numpy().item()) for weight in (kernel, bias)]


def test_by_default_models_are_compiled_as_ever() -> None:
    optimizer = _set(_model()).optimizer
    with_rate = _set(_model(), {"learning_rate": 0.5}).optimizer

    assert optimizer.get_config() == tf_keras.optimizers.Adam(0.001).get_config()
    assert with_rate.get_config() == tf_keras.optimizers.Adam(0.5).get_config()


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("constant", [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [0.5, 1.0, 1.0, 0.505, 0.2575, 0.01]),
        ("cosine", [0.5, 1.0, 1.0, 0.505, 0.01 + 0.99 * (1 - 0.5**0.5) / 2, 0.01]),
        ("exponential", [0.5, 1.0, 1.0, 0.1, 0.01**0.75, 0.01]),
        ("step", [0.5, 1.0, 1.0, 0.1, 0.01, 0.01]),
    ],
)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_learning_rate_rises_and_falls(schedule: str, rates: list[float], jit_compile: bool) -> None:  # noqa: FBT001
    # Two of ten steps rise; then there are 8 steps, so 6 is half-way.
    model = _set(_model(), schedule=schedule, warmup_share=0.2, learning_rate=3.0, optimizer="sgd")
    rate = ScheduledRate.from_config(ScheduledRate(1.0, schedule, 10, 2, 0.01).get_config())

    found = [float(tf.function(rate, jit_compile=jit_compile)(tf.constant(step))) for step in (0, 1, 2, 6, 8, 20)]

    assert found == pytest.approx(rates, rel=1e-5)
    # In the optimizer, the first step has half of the highest rate.
    assert _after_step(model, 0.0, 1.0) == pytest.approx([2.0, 1.0 - 1.5])


def test_matrices_decay_and_biases_do_not() -> None:
    model = _set(_model(), optimizer="sgd", learning_rate=0.1, weight_decay=0.5)

    assert _after_step(model, 0.0, 0.0) == pytest.approx([2.0 * (1 - 0.1 * 0.5), 1.0])


@pytest.mark.parametrize("is_compiled", [False, True])
def test_larger_gradients_are_scaled_down_together(is_compiled: bool) -> None:  # noqa: FBT001
    model = _model()
    if is_compiled:
        model.compile(optimizer=tf_keras.optimizers.SGD(1.0), loss="mse")
        _set(model, gradient_clip_norm=1.0)
    else:
        _set(model, optimizer="sgd", learning_rate=1.0, gradient_clip_norm=1.0)

    assert _after_step(model, 3.0, 4.0) == pytest.approx([2.0 - 0.6, 1.0 - 0.8])


@pytest.mark.parametrize("is_compiled", [False, True])
def test_penalty_is_the_sum_of_squares_of_matrices(is_compiled: bool) -> None:  # noqa: FBT001
    model = _model()
    if is_compiled:
        model.compile(optimizer="sgd", loss="mse")
    _set(model, l2=0.25)

    # The model answers 3 to 1; the penalty is 0.25 * 2 ** 2.
    assert model.evaluate(np.ones([1, 1]), np.full([1, 1], 3.0), verbose=0, return_dict=True)["loss"] == 1.0


@pytest.mark.parametrize("name", ["", "adam", "adamw", "sgd", "momentum", "rmsprop", "adagrad"])
def test_every_optimizer_moves_the_weights(name: str) -> None:
    kernel, bias = _after_step(_set(_model(), optimizer=name, learning_rate=0.5, weight_decay=0.01), 1.0, -1.0)

    assert kernel < 2.0
    assert bias > 1.0


@pytest.mark.parametrize(
    ("optimizer", "options", "message"),
    [
        (
            tf_keras.optimizers.SGD(),
            {"optimizer": "adam", "weight_decay": 0.1},
            r"got \{'optimizer': 'adam', 'weight_decay': 0.1\}, but 'my.models:f' compiles its model with SGD",
        ),
        (tf_keras.optimizers.SGD(), {"schedule": "cosine"}, r"got \{'learning_rate_schedule': 'cosine'\}, but"),
        (
            tf_keras.optimizers.SGD(clipvalue=0.5),
            {"gradient_clip_norm": 1.0},
            r"clips gradients itself; got 1.0 and \{'clipvalue': 0.5\} in 'my.models:f'",
        ),
        (
            tf_keras.optimizers.legacy.SGD(),
            {"gradient_clip_norm": 1.0},
            "must be 0 for an optimizer of this kind; got 1.0 for SGD",
        ),
        (
            tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.SGD()),
            {"gradient_clip_norm": 1.0},
            "must be 0 for an optimizer of this kind; got 1.0 for LossScaleOptimizer",
        ),
    ],
)
def test_optimizer_of_a_compiled_model_is_kept(optimizer: Any, options: dict[str, Any], message: str) -> None:
    model = _model()
    model.compile(optimizer=optimizer, loss="mse")

    with pytest.raises(ValueError, match=message):
        _set(model, **options)


@pytest.mark.parametrize(
    ("hyperparameters", "options", "message"),
    [
        ({"learning_rate": 0.1}, {"learning_rate": 0.2}, "`learning_rate` must be 0 where `hyperparameters` has"),
        ({"learning_rate": -1}, {}, "`hyperparameters` must have a positive number as 'learning_rate'; got -1"),
        ({"l2": 0.1}, {"l2": 0.2}, "`l2` must be 0 where `hyperparameters` has 'l2', too; got 0.2 and 0.1"),
    ],
)
def test_hyperparameters_that_say_something_else_are_refused(
    hyperparameters: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _set(_model(), hyperparameters, **options)
