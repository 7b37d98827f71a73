"""Finds the latest blessed model in what names it: the output of LatestBlessedModelResolver, or another folder."""

from __future__ import annotations

import os

import tensorflow as tf

from tfx_gnn.io.json_shapes import read_shaped_json
from tfx_gnn.records.blessing import LATEST_BLESSED_MODEL_FILE
from tfx_gnn.serving.model_interface import MODEL_ARTIFACT_FOLDER
from tfx_gnn.serving.versions import resolve_saved_model


def find_latest_blessed_model(blessed_model_dir: str) -> tuple[str, str]:
    """Finds the SavedModel of the latest blessed model.

    Args:
        blessed_model_dir: output of LatestBlessedModelResolver, a trained model, a SavedModel or a push destination.

    Returns:
        Its folder, which is empty if no model has been blessed yet; and where it comes from, or why there is none, in
        words.

    Raises:
        FileNotFoundError: if there is no model, and nothing says that none has been blessed yet.
    """
    record_file = os.path.join(blessed_model_dir, LATEST_BLESSED_MODEL_FILE)
    description = blessed_model_dir
    if tf.io.gfile.exists(record_file):
        record = read_shaped_json(record_file, {"found": bool, "description": str})
        description = record["description"]
        if not record["found"]:
            return "", description
    folder = os.path.join(blessed_model_dir, MODEL_ARTIFACT_FOLDER)
    return resolve_saved_model(folder if tf.io.gfile.isdir(folder) else blessed_model_dir), description
