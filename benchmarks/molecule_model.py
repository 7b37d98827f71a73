"""What molecules look like to a model, and a model of them: message passing along bonds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
import tf_keras

import tfx_gnn
from tfx_gnn.graph import GraphTensorSpec
from tfx_gnn.models import Objective
from tfx_gnn.models import model_fns as ready
from tfx_gnn.transform import GraphView, ItemsView


def preprocessing_fn(graph: GraphView) -> GraphView:
    """Looks up texts in vocabularies, and scales numbers to mean 0 and variance 1.

    Args:
        graph: whole molecules.

    Returns:
        Atoms and bonds with int64 `[n]` for each text, and float32 `[n, k]` `numbers` where they have numbers. Each
        is stored in both directions, so the model needs to follow them in one.
    """
    return graph.replace_features(
        node_sets={name: _features(graph.node_sets[name]) for name in graph.node_sets},
        edge_sets={name: _features(graph.edge_sets[name]) for name in graph.edge_sets},
    )


def _features(items: ItemsView) -> dict[str, tf.Tensor]:
    names = sorted(name for name in items if not name.startswith("#"))
    texts = [name for name in names if items[name].dtype == tf.string]
    features = {name: tft.compute_and_apply_vocabulary(items[name], vocab_filename=name) for name in texts}
    numbers = [tf.cast(items[name], tf.float32) for name in names if name not in texts]
    if numbers:
        features["numbers"] = tft.scale_to_z_score(tf.stack(numbers, axis=1), elementwise=True)
    return features


def molecule_model_fn(
    graph_spec: GraphTensorSpec,
    tft_output: tft.TFTransformOutput,
    *,
    objective: Objective,
    hyperparameters: Mapping[str, Any],
    num_steps: int,
) -> tf_keras.Model:
    """Builds a ready model, and compiles it with a learning rate that falls along a cosine.

    Args:
        graph_spec: spec of merged molecules, without label.
        tft_output: the vocabularies.
        objective: what is predicted.
        hyperparameters: "network": a name in `tfx_gnn.models.model_fns`; and those of it.
        num_steps: training steps to expect.

    Returns:
        The compiled model.
    """
    arguments = {"receiver_tags": [tfx_gnn.TARGET], **hyperparameters}
    network = getattr(ready, arguments.pop("network"))
    model: tf_keras.Model = network(graph_spec, objective=objective, hyperparameters=arguments, tft_output=tft_output)
    schedule = tf_keras.optimizers.schedules.CosineDecay(float(hyperparameters["learning_rate"]), num_steps)
    model.compile(optimizer=tf_keras.optimizers.Adam(schedule), **objective.compile_arguments())
    return model
