"""Signatures in the forms that TFX's own Evaluator and BulkInferrer take; they call `serving_default`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfx_gnn.models.tasks import Objective
from tfx_gnn.serving import model_interface

_CLASS_SCORES = (model_interface.LOGITS_OUTPUT, model_interface.PROBABILITIES_OUTPUT)


def stock_component_signatures(serve: Any, objective: Objective) -> dict[str, Any]:
    """Makes the signatures.

    Args:
        serve: tf.function of signature `serving_default`, which is in the SavedModel once.
        objective: what the model predicts.

    Returns:
        tf.functions by signature: one for BulkInferrer, and one for Evaluator if a single task predicts classes.
    """
    found = {model_interface.BULK_INFERRER_SIGNATURE: _with_strings_in_rows(serve)}
    part = objective.parts.get("")
    if part is not None and part.class_names:
        found[model_interface.EVALUATOR_SIGNATURE] = _with_all_classes(serve, part.class_names)
    inputs = [tf.TensorSpec([None], tf.string, name=model_interface.EXAMPLES_INPUT)]
    return {name: tf.function(answer, input_signature=inputs) for name, answer in found.items()}


def _with_strings_in_rows(serve: Any) -> Any:
    """Returns strings [n] in shape [n, 1]."""

    def answer(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            name: value[:, tf.newaxis] if value.dtype == tf.string and value.shape.rank == 1 else value
            for name, value in serve(examples).items()
        }

    return answer


def _with_all_classes(serve: Any, class_names: tuple[bytes, ...]) -> Any:
    """Returns scores of classes with the names of the classes, by which TFMA knows labels."""

    def answer(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = serve(examples)
        names = tf.tile(tf.constant([class_names], tf.string), [tf.size(examples), 1])
        scores = {name: outputs[name] for name in _CLASS_SCORES if name in outputs}
        return {**scores, model_interface.ALL_CLASSES_OUTPUT: names}

    return answer
