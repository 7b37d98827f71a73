"""Refuses losses that compute something other than what the task predicts, without an error of Keras."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.models.tasks import GraphRegression, NodeRegression, Objective

_REGRESSION_LOSSES = (
    "CosineSimilarity",
    "Huber",
    "LogCosh",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanSquaredError",
    "MeanSquaredLogarithmicError",
)
_BINARY_LOSSES = ("BinaryCrossentropy", "BinaryFocalCrossentropy", "Hinge", "SquaredHinge")
_ONE_HOT_LOSSES = ("CategoricalCrossentropy", "CategoricalFocalCrossentropy", "CategoricalHinge", "KLDivergence")
_CLASS_LOSSES = ("SparseCategoricalCrossentropy", *_ONE_HOT_LOSSES)


def check_loss(model: tf_keras.Model, objective: Objective, output: Any, *, reference: str) -> None:
    """Checks the compiled loss of a model against the form of the labels.

    Keras broadcasts class indices [n] against logits [n, classes], so a loss for numbers trains without an error, but
    not to predict classes. Only Keras' own losses are known; others pass.

    Args:
        model: the compiled model.
        objective: what is predicted.
        output: what the model returned for a batch.
        reference: name of the user's function.

    Raises:
        ValueError: if the loss is for other labels, or takes the model's logits for probabilities.
    """
    loss = getattr(model, "loss", None)
    if isinstance(loss, (dict, list, tuple)) or loss is None:
        return  # of several outputs, or the model's own `train_step`
    loss = loss if callable(loss) and not isinstance(loss, str) else tf_keras.losses.get(loss)
    name = _class_name(loss)
    if objective.class_names:
        classes = f"classes (int64 indices, [n], of {objective.num_classes} classes)"
        if name in (*_REGRESSION_LOSSES, *_BINARY_LOSSES, *_ONE_HOT_LOSSES):
            raise ValueError(
                f"`model_fn` must compile a loss for {classes}; got {name} in {reference!r}. Use "
                "SparseCategoricalCrossentropy(from_logits=True), or leave `model.compile` out for the task's own loss."
            )
        if name == "SparseCategoricalCrossentropy" and not _takes_logits(loss) and isinstance(output, tf.Tensor):
            raise ValueError(
                "`model_fn` must compile a loss that takes logits, which its model returns; got "
                f"{name}(from_logits=False) in {reference!r}. Write from_logits=True, and leave a softmax out: the "
                "served model adds it."
            )
    elif isinstance(objective.task, (NodeRegression, GraphRegression)) and name in (*_CLASS_LOSSES, *_BINARY_LOSSES):
        raise ValueError(
            f"`model_fn` must compile a loss for numbers (float32, [n, outputs]); got {name} in {reference!r}. Use "
            "MeanSquaredError, Huber or MeanAbsoluteError, or leave `model.compile` out for the task's own loss."
        )


def _class_name(loss: Any) -> str:
    """Name of a Keras loss as a class, also if it was given as a function such as tf_keras.losses.mse."""
    if isinstance(loss, tf_keras.losses.Loss):
        return type(loss).__name__ if type(loss).__module__.startswith(("keras", "tf_keras")) else ""
    by_function = {
        getattr(tf_keras.losses, _function_name(name), None): name
        for name in (*_REGRESSION_LOSSES, *_BINARY_LOSSES, *_CLASS_LOSSES)
    }
    return by_function.get(loss, "")


def _function_name(name: str) -> str:
    special = {"CosineSimilarity": "cosine_similarity", "KLDivergence": "kl_divergence", "LogCosh": "log_cosh"}
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
    return special.get(name, snake)


def _takes_logits(loss: Any) -> bool:
    settings = getattr(loss, "_fn_kwargs", {})
    return bool(settings.get("from_logits", False))
