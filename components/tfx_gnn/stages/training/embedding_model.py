"""Cuts a model where its embeddings are: what its last layer computes the output from."""

from __future__ import annotations

from typing import Any

import tf_keras

from tfx_gnn.models.tasks import Objective
from tfx_gnn.serving import signature

EMBEDDINGS_LAYER = "embeddings"
"""Name of the layer that gives the embeddings; of links, `source_` and `target_` come before it."""

_ENDS = {
    "": signature.EMBEDDING_OUTPUT,
    "source_": signature.SOURCE_EMBEDDING_OUTPUT,
    "target_": signature.TARGET_EMBEDDING_OUTPUT,
}


def embedding_model(model: tf_keras.Model, objective: Objective) -> tf_keras.Model | None:
    """Finds the embeddings of a model.

    They are what the layer named `embeddings` gives, or those named `source_embeddings` and `target_embeddings`; of
    several tasks that do not share them, `<task>_embeddings` and so on. Models that end with
    `objective.output_layer()` have them. Of other models with one output, they are what the layer that
    gives it gets.

    Args:
        model: a model of the functional API; inside of others, nothing can be found.
        objective: what it predicts.

    Returns:
        Model of the same variables from the same graph to embeddings, floats [rows, units] each, by the names of
        the outputs that serve them; of several tasks that do not share them, with "<task>/" before. None if it
        cannot be told what they are.
    """
    if not getattr(model, "_is_graph_network", False):
        return None
    named = {layer.name: layer for layer in model.layers}
    starts = {"": "", **{f"{name}_": f"{name}/" for name in objective.parts if name}}
    found = {}
    for start, prefix in starts.items():
        for end, output in _ENDS.items():
            layer = named.get(f"{end}{start}{EMBEDDINGS_LAYER}")
            if layer is not None and _is_embedding(layer.output):
                found[prefix + output] = layer.output
    if not found and tf_keras.backend.is_keras_tensor(model.output):
        # Not by way of `layer.output`, which layers such as a tf_keras.Sequential over graphs do not tell.
        before = model.output.node.keras_inputs
        found = {signature.EMBEDDING_OUTPUT: before[0]} if len(before) == 1 and _is_embedding(before[0]) else {}
    return tf_keras.Model(model.input, found) if found else None


def _is_embedding(value: Any) -> bool:
    """Whether something has rows of floats."""
    return tf_keras.backend.is_keras_tensor(value) and value.shape.rank == 2 and value.dtype.is_floating
