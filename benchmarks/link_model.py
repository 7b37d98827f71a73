"""What facts look like to a model, and the model: one round of messages that know their relation, then DistMult."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow_transform as tft
import tf_keras

from tfx_gnn.graph import GraphTensorSpec
from tfx_gnn.models import READOUT_NODE_SET, Objective
from tfx_gnn.models import model_fns as ready
from tfx_gnn.transform import GraphView

ASKED = "asked_relation"
"""Column of the questions with the relation, "^-1" behind it where the source is asked for."""


def preprocessing_fn(graph: GraphView) -> GraphView:
    """Looks up concepts and relations in vocabularies.

    Args:
        graph: examples with one question each, and its candidates.

    Returns:
        Concepts with `concept`, edges with `relation`, and candidates with the asked relation: int64 `[n]`.
    """

    def look_up(values: Any, vocabulary: str) -> Any:
        return tft.compute_and_apply_vocabulary(values, vocab_filename=vocabulary)

    asked = graph.node_sets[READOUT_NODE_SET]
    return graph.replace_features(
        node_sets={
            "concept": {"concept": look_up(graph.node_sets["concept"]["#id"], "concept")},
            READOUT_NODE_SET: {"label": asked["label"], ASKED: look_up(asked[ASKED], ASKED)},
        },
        edge_sets={"fact": {"relation": look_up(graph.edge_sets["fact"]["relation"], "relation")}},
    )


def model_fn(
    graph_spec: GraphTensorSpec,
    tft_output: tft.TFTransformOutput,
    *,
    objective: Objective,
    hyperparameters: Mapping[str, Any],
    num_steps: int,
) -> tf_keras.Model:
    """Builds the ready MPNN with embeddings of relations, and compiles it with a falling learning rate.

    Args:
        graph_spec: spec of merged examples, without label.
        tft_output: the vocabularies.
        objective: what is predicted.
        hyperparameters: those of `tfx_gnn.models.model_fns.mpnn`.
        num_steps: training steps to expect.

    Returns:
        The compiled model.
    """
    model = ready.mpnn(graph_spec, objective=objective, hyperparameters=hyperparameters, tft_output=tft_output)
    schedule = tf_keras.optimizers.schedules.CosineDecay(float(hyperparameters["learning_rate"]), num_steps)
    model.compile(optimizer=tf_keras.optimizers.Adam(schedule), **objective.compile_arguments())
    return model
