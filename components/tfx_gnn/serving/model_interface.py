"""The interface of an exported model: names of signatures, inputs, outputs and files, and its task.

In a model of several tasks, the outputs of each task have the prefix "<task>/".
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from typing import Any

import tensorflow as tf

from tfx_gnn.io import file_names
from tfx_gnn.io.text_files import read_json

SERVING_SIGNATURE = "serving_default"
"""Signature that returns predictions."""

EMBEDDINGS_SIGNATURE = "embeddings"
"""Signature that returns the input to the network's last layer, in models where it is known."""

BULK_INFERRER_SIGNATURE = "bulk_inferrer"
"""Signature for TFX's BulkInferrer: predictions, with strings in shape [n, 1] in place of [n].

TFX's component writes one record per example, and cannot write a string that is no array.
"""

EVALUATOR_SIGNATURE = "evaluator"
"""Signature for TFX's Evaluator: logits, probabilities and `ALL_CLASSES_OUTPUT`, if classes have names.

TFMA looks labels that are strings up in that output.
"""

STOCK_COMPONENT_SIGNATURES = (BULK_INFERRER_SIGNATURE, EVALUATOR_SIGNATURE)
"""Signatures for components of TFX, which no server is asked for."""

TRANSFORMED_GRAPH_SIGNATURE = "transformed_graph"
"""Signature that returns the input of the network: the transformed examples, merged into one graph.

Its outputs have the keys of `tfx_gnn.graph.codec.flat_tensors`, with one row per item, not one per example.
"""

TENSORS_SIGNATURE = "tensors"
"""Signature that returns predictions for raw graphs in plain tensors, merged into one graph.

Its inputs are the keys of `tfx_gnn.graph.codec.flat_tensors`, as written by `tensor_input_name`.
"""

EXPLANATIONS_SIGNATURE = "explanations"
"""Signature that says what each prediction rests on; for several tasks, "<task>/" precedes the name. It is optional.

Its inputs are `EXAMPLES_INPUT` and `TARGET_INPUT`. Beside those below, its outputs are "edges/<edge set>", "nodes/<node
set>.<feature>", "edges/<edge set>.<feature>" and "context/<feature>": float32, shape [n, most items], or [n] for the
context; 0 pads rows. Items are in the order of the example.
"""

TARGET_INPUT = "target"
"""Which prediction to explain, int64, shape [n]: position of a class, an output or a candidate; -1: the predicted one.

Of several outputs of a regression, -1 is the first.
"""

TARGET_OUTPUT = "target"
"""Which prediction is explained, int64, shape [n]; never -1."""

VALUE_OUTPUT = "value"
"""The explained value, float32, shape [n]: log odds of a class, an output of a regression, or a candidate's score."""

WITHOUT_EDGES_OUTPUT = "value_without_edges"
"""The same of the graph without its edges, float32, shape [n]."""

WITHOUT_FEATURES_OUTPUT = "value_without_features"
"""The same if all explained features are 0, float32, shape [n]; 0 is the mean of a standardized feature."""

EDGES_ERROR_OUTPUT = "edges_error"
"""What the outputs of edges miss of the difference that the edges make, float32, shape [n]."""

FEATURES_ERROR_OUTPUT = "features_error"
"""What the outputs of features miss of the difference that the features make, float32, shape [n]."""

EXAMPLES_INPUT = "examples"
"""The only input of other signatures: serialized raw graph tf.Examples, string, shape [n]."""

ID_OUTPUT = "id"
"""Original id of each example's seed node, or of its graph, string or int64, shape [n]."""

UNSEEN_ID_OUTPUT = "unseen_id"
"""Whether the model has no row of its own for each seed's id, bool, shape [n].

Only in models whose transform looks the seeds' ids up in a vocabulary: others do not know nodes by their ids.
"""

LOGITS_OUTPUT = "logits"
"""Unnormalised class scores, float32, shape [n, num_classes]."""

PROBABILITIES_OUTPUT = "probabilities"
"""Softmax of the logits, float32, shape [n, num_classes]."""

LABEL_OUTPUT = "label"
"""Name of the most probable class, string, shape [n]."""

ALL_CLASSES_OUTPUT = "all_classes"
"""Names of all classes in the order of the logits, string, shape [n, num_classes]; TFMA's name for them."""

SCORE_OUTPUT = "score"
"""Probability of that class, float32, shape [n]."""

PREDICTION_OUTPUT = "prediction"
"""Prediction of a regression in the label's own unit, float32, shape [n, num_outputs]."""

SCORES_OUTPUT = "scores"
"""Logits of candidate pairs in their order, float32, shape [n, largest number of candidates]; -infinity pads rows."""

NUM_CANDIDATES_OUTPUT = "num_candidates"
"""Number of candidate pairs of each example, int64, shape [n]."""

SOURCE_ID_OUTPUT = "source_id"
"""Original ids of the sources of candidate pairs, in the shape of the scores; "" or -1 pads rows."""

TARGET_ID_OUTPUT = "target_id"
"""Original ids of the targets of candidate pairs, in the shape of the scores; "" or -1 pads rows."""

UNSEEN_SOURCE_ID_OUTPUT = "unseen_source_id"
"""The same of the sources of candidate pairs, bool, in the shape of the scores; false pads rows."""

UNSEEN_TARGET_ID_OUTPUT = "unseen_target_id"
"""The same of the targets of candidate pairs."""

EMBEDDING_OUTPUT = "embedding"
"""Embedding of each example's seed node, or of its graph, float32, shape [n, units]."""

SOURCE_EMBEDDING_OUTPUT = "source_embedding"
"""Embeddings of the sources of pairs, float32, shape [n, largest number of candidates, units]; 0 pads rows."""

TARGET_EMBEDDING_OUTPUT = "target_embedding"
"""Embeddings of the targets of candidate pairs, in the shape of those of the sources."""

SAVED_MODEL_FILE = "saved_model.pb"
"""The file that makes a folder a SavedModel."""

MODEL_ARTIFACT_FOLDER = "Format-Serving"
"""Where TFX's standard Model artifact keeps its SavedModel."""

SERVED_TASK_FILE = "assets.extra/served_task.json"
"""File next to `saved_model.pb` that says what the model predicts: a `ServedTask`."""

REQUEST_SCHEMA_FILE = f"assets.extra/{file_names.GRAPH_SCHEMA_FILE}"
"""File next to `saved_model.pb` with the schema of the graphs in requests, without labels."""

SAMPLING_PLAN_FILE = f"assets.extra/{file_names.SAMPLING_PLAN_FILE}"
"""File next to `saved_model.pb` with the plan of the training's examples; absent if no plan sampled them."""

TRAINING_STATISTICS_FOLDER = "assets.extra/training_statistics"
"""Folder in a pushed SavedModel with statistics of the data that it was trained on, if they are pushed with it."""

ANALYZER_CACHE_FOLDER = "assets.extra/analyzer_cache"
"""Folder in a pushed SavedModel with what GraphTransform counted in each span of that data, if it is pushed with it."""

TRAINING_OUTPUT_PREFIX = "output/"
"""Prefix of the model's outputs in the training reference, whose other outputs are the keys of the graph."""

TRAINING_REFERENCE_FOLDER = "training_reference"
"""Folder in a model run with the SavedModel of what training saw."""

_FORMAT_VERSION = 1
_ADDED_LATER = ("classes", "edge_ends", "embedding_dimensions", "embedding_normalization")


def tensor_input_name(key: str) -> str:
    """Writes the key of a plain tensor as an input name, with only the characters that TensorFlow allows.

    Example:
        >>> tensor_input_name("nodes/paper.#size")
        'nodes_paper__size'
    """
    return re.sub("[^0-9A-Za-z]", "_", key)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedTask:
    """What a model predicts.

    Attributes:
        task: the task as JSON, in the form of `GraphTrainerOptions.task`.
        label_keys: features of tf.Examples that requests may omit.
        roots: edge sets `_readout/<root>` that lead to what each prediction is about: "seed", or "source" and
            "target"; empty if predictions are about whole graphs.
        tensor_inputs: keys of `tfx_gnn.graph.codec.flat_tensors` by input name of the signature `tensors`;
            empty if there is no such signature.
        classes: names of the classes in the order of the logits, by task name ("" for a single task); empty for other
            tasks, and for models of earlier versions.
        edge_ends: node sets at the source and the target, by edge set; without auxiliary edge sets other than
            readouts, and empty for models of earlier versions.
        embedding_dimensions: widths of the embeddings by output of the signature `embeddings`; empty if there is none,
            and for models of earlier versions.
        embedding_normalization: "l2" if the embeddings have length 1, else "none".
    """

    task: dict[str, Any]
    label_keys: tuple[str, ...]
    roots: tuple[str, ...]
    tensor_inputs: dict[str, str]
    classes: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    edge_ends: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    embedding_dimensions: dict[str, int] = dataclasses.field(default_factory=dict)
    embedding_normalization: str = "none"


def write_served_task(served: ServedTask, saved_model_dir: str) -> None:
    """Writes the file next to `saved_model.pb`."""
    path = os.path.join(saved_model_dir, SERVED_TASK_FILE)
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps({"format_version": _FORMAT_VERSION, **dataclasses.asdict(served)}, indent=2) + "\n")


def read_served_task(saved_model_dir: str) -> ServedTask | None:
    """Reads the file; None if the model was exported by something else, or by an earlier version."""
    path = os.path.join(saved_model_dir, SERVED_TASK_FILE)
    if not tf.io.gfile.exists(path):
        return None
    content = read_json(path)
    version = content.get("format_version") if isinstance(content, dict) else None
    if version != _FORMAT_VERSION:
        raise ValueError(
            f"`saved_model_dir` must hold {SERVED_TASK_FILE} of version {_FORMAT_VERSION}; got "
            f"{version!r} in {saved_model_dir!r}. Use the version of the library that exported it."
        )
    missing = [
        field.name
        for field in dataclasses.fields(ServedTask)
        if field.name not in content and field.name not in _ADDED_LATER
    ]
    if missing:
        raise ValueError(f"`{path}` must have the fields of a served task; got none for {missing}. Export again.")
    return ServedTask(
        task=content["task"],
        label_keys=tuple(content["label_keys"]),
        roots=tuple(content["roots"]),
        tensor_inputs=content["tensor_inputs"],
        **{name: content[name] for name in _ADDED_LATER if name in content},
    )
