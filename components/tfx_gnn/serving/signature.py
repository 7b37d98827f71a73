"""The names that an exported model and its callers agree on."""

from __future__ import annotations

SIGNATURE = "serving_default"
"""Signature that answers predictions."""

TRANSFORMED_GRAPH_SIGNATURE = "transformed_graph"
"""Signature that answers what the model computes its predictions from: the transformed examples, merged into one graph.

Its outputs have the keys of `tfx_gnn.graph.flat_tensors`; they have one row an item, not one row an example.
"""

EXAMPLES_INPUT = "examples"
"""The only input: serialized raw graph tf.Examples, string, shape [n]."""

LOGITS_OUTPUT = "logits"
"""Unnormalised class scores, float32, shape [n, num_classes]."""

PROBABILITIES_OUTPUT = "probabilities"
"""Softmax of the logits, float32, shape [n, num_classes]."""

LABEL_OUTPUT = "label"
"""Name of the most probable class, string, shape [n]."""

SCORE_OUTPUT = "score"
"""Probability of that class, float32, shape [n]."""

ID_OUTPUT = "id"
"""Original id of each example's seed node, string or int64, shape [n]."""

SAVED_MODEL_FILE = "saved_model.pb"
"""File that makes a folder a SavedModel."""

MODEL_ARTIFACT_FOLDER = "Format-Serving"
"""Where TFX's standard Model artifact keeps its SavedModel."""

TRAINING_PATH_FOLDER = "training_path"
"""Where a model run keeps the SavedModel of what training saw."""
