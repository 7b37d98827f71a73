"""Compiles models with the optimizer that the options describe, or adds to the optimizer of a compiled model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.models.tasks import Objective
from tfx_gnn.models.weight_penalty import add_weight_penalty, penalized_weights
from tfx_gnn.training.options import ADAMW, COSINE, EXPONENTIAL, LINEAR, STEP, OptimizationOptions

LEARNING_RATE = "learning_rate"
DEFAULT_LEARNING_RATE = 1e-3

_MOMENTUM = 0.9
_CLIPPING = ("clipnorm", "clipvalue", "global_clipnorm")


def set_optimizer(
    model: tf_keras.Model,
    options: OptimizationOptions,
    *,
    reference: str,
    objective: Objective,
    hyperparameters: Mapping[str, Any],
    num_steps: int,
) -> None:
    """Compiles an uncompiled model, or adds a penalty and clipping to a compiled one.

    Args:
        model: a model that has its variables.
        options: what to set.
        reference: the function that made the model, for messages.
        objective: gives loss and metrics of an uncompiled model.
        hyperparameters: may have a learning rate for an uncompiled model.
        num_steps: expected number of training steps, over which the learning rate changes.

    Raises:
        ValueError: if options contradict each other, the hyperparameters or the optimizer of a compiled model.
    """
    if options.l2:
        if hyperparameters.get("l2"):
            raise ValueError(
                f"`l2` must be 0 where `hyperparameters` has 'l2', too; got {options.l2} and {hyperparameters['l2']}. "
                "Keep one of them."
            )
        add_weight_penalty(model, options.l2)
    if getattr(model, "optimizer", None) is not None:
        _add_clipping(model, options, reference)
        return
    optimizer = _make_optimizer(options, _learning_rate(options, hyperparameters), num_steps)
    if options.weight_decay:
        decayed = {id(weight) for weight in penalized_weights(model)}
        others = [weight for weight in model.trainable_variables if id(weight) not in decayed]
        optimizer.exclude_from_weight_decay(var_list=others)
    model.compile(optimizer=optimizer, **objective.compile_arguments())


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ScheduledRate(tf_keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that first rises linearly from 0, and then falls to a share of itself.

    Args:
        peak: highest rate.
        schedule: how it falls: "constant", "linear", "cosine", "exponential" or "step", which is by equal factors after
            1/2 and 3/4 of the steps that follow the rise.
        num_steps: steps until it has fallen; it stays there.
        num_warmup_steps: steps until the peak; included in `num_steps`.
        final_share: rate at the end, as a share of the peak.
    """

    def __init__(self, peak: float, schedule: str, num_steps: int, num_warmup_steps: int, final_share: float) -> None:
        super().__init__()
        self._config = {
            "peak": peak,
            "schedule": schedule,
            "num_steps": num_steps,
            "num_warmup_steps": num_warmup_steps,
            "final_share": final_share,
        }
        self._peak, self._schedule, self._final_share = peak, schedule, final_share
        self._num_steps, self._num_warmup_steps = num_steps, num_warmup_steps

    def __call__(self, step: Any) -> tf.Tensor:
        """Returns the rate of a step, counted from 0, as a scalar of type float32."""
        done = tf.cast(step, tf.float32)
        rise = tf.minimum((done + 1.0) / max(self._num_warmup_steps, 1), 1.0)
        num_falling = max(self._num_steps - self._num_warmup_steps, 1)
        progress = tf.clip_by_value((done - self._num_warmup_steps) / num_falling, 0.0, 1.0)
        return self._peak * rise * self._fall(progress)

    def _fall(self, progress: tf.Tensor) -> Any:
        last = self._final_share
        if self._schedule == LINEAR:
            return 1.0 - (1.0 - last) * progress
        if self._schedule == COSINE:
            return last + (1.0 - last) * 0.5 * (1.0 + tf.cos(math.pi * progress))
        if self._schedule == EXPONENTIAL:
            return tf.exp(math.log(last) * progress)
        if self._schedule == STEP:
            return tf.where(progress < 0.5, 1.0, tf.where(progress < 0.75, math.sqrt(last), last))
        return 1.0

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return dict(self._config)


def _make_optimizer(options: OptimizationOptions, peak: float, num_steps: int) -> tf_keras.optimizers.Optimizer:
    rate: Any = peak
    if options.depends_on_num_steps:
        rate = ScheduledRate(
            peak,
            options.schedule,
            num_steps,
            round(options.warmup_share * num_steps),
            options.final_learning_rate_share,
        )
    kinds = {
        "adam": tf_keras.optimizers.Adam,
        ADAMW: tf_keras.optimizers.Adam,
        "sgd": tf_keras.optimizers.SGD,
        "momentum": tf_keras.optimizers.SGD,
        "rmsprop": tf_keras.optimizers.RMSprop,
        "adagrad": tf_keras.optimizers.Adagrad,
    }
    more: dict[str, Any] = {"momentum": _MOMENTUM} if options.optimizer == "momentum" else {}
    if options.weight_decay:
        more["weight_decay"] = options.weight_decay
    if options.gradient_clip_norm:
        more["global_clipnorm"] = options.gradient_clip_norm
    return kinds[options.optimizer or "adam"](rate, **more)


def _learning_rate(options: OptimizationOptions, hyperparameters: Mapping[str, Any]) -> float:
    if options.learning_rate and LEARNING_RATE in hyperparameters:
        raise ValueError(
            f"`learning_rate` must be 0 where `hyperparameters` has {LEARNING_RATE!r}, too; got "
            f"{options.learning_rate} and {hyperparameters[LEARNING_RATE]!r}. Keep one of them."
        )
    rate = options.learning_rate or hyperparameters.get(LEARNING_RATE, DEFAULT_LEARNING_RATE)
    if not isinstance(rate, (int, float)) or not rate > 0:
        raise ValueError(
            f"`hyperparameters` must have a positive number as {LEARNING_RATE!r}; got {rate!r}. The default is "
            f"{DEFAULT_LEARNING_RATE}."
        )
    return rate


def _add_clipping(model: tf_keras.Model, options: OptimizationOptions, reference: str) -> None:
    """Clips the gradients of a compiled model; refuses what only its own optimizer can decide."""
    optimizer: Any = model.optimizer
    conflicts = options.of_the_optimizer()
    if conflicts:
        raise ValueError(
            f"`model_fn` must return an uncompiled model where options describe the optimizer; got {conflicts}, but "
            f"{reference!r} compiles its model with {type(optimizer).__name__}. Leave these options out, or leave out "
            "`model.compile`."
        )
    if not options.gradient_clip_norm:
        return
    clips = {name: value for name in _CLIPPING if (value := getattr(optimizer, name, None))}
    if clips:
        raise ValueError(
            f"`gradient_clip_norm` must be 0 where the model's optimizer clips gradients itself; got "
            f"{options.gradient_clip_norm} and {clips} in {reference!r}. Keep one of them."
        )
    is_plain = isinstance(optimizer, tf_keras.optimizers.Optimizer) and not isinstance(
        optimizer, tf_keras.mixed_precision.LossScaleOptimizer
    )
    if not is_plain:
        raise ValueError(
            f"`gradient_clip_norm` must be 0 for an optimizer of this kind; got {options.gradient_clip_norm} for "
            f"{type(optimizer).__name__} in {reference!r}. Pass `global_clipnorm` to its constructor."
        )
    optimizer.global_clipnorm = options.gradient_clip_norm
