"""Version folders of a push destination: `<destination>/<integer>/saved_model.pb`.

This is the layout that TensorFlow Serving watches. Everything whose name is not
a plain integer is invisible to it, and to the functions here.
"""

from __future__ import annotations

import os
import re

import tensorflow as tf

from tfx_gnn.serving.model_interface import MODEL_ARTIFACT_FOLDER, SAVED_MODEL_FILE

_VERSION_NAME = re.compile(r"0|[1-9][0-9]*")


def list_versions(destination: str) -> list[int]:
    """Lists the versions of a push destination in ascending order.

    Args:
        destination: folder that holds version folders; it may not exist yet.

    Returns:
        Version numbers, possibly none.
    """
    entries = tf.io.gfile.listdir(destination) if tf.io.gfile.isdir(destination) else []
    return sorted(int(name) for name in (entry.rstrip("/") for entry in entries) if _VERSION_NAME.fullmatch(name))


def resolve_saved_model(path: str) -> str:
    """Finds the SavedModel that a user means by a folder.

    Args:
        path: a SavedModel, the folder of a TFX Model artifact, or a push
            destination, of which the newest version is taken.

    Returns:
        Folder that holds `saved_model.pb`.

    Raises:
        FileNotFoundError: if the folder is none of these.
    """
    newest = [str(version) for version in list_versions(path)[-1:]]
    for candidate in (path, os.path.join(path, MODEL_ARTIFACT_FOLDER), *(os.path.join(path, name) for name in newest)):
        if tf.io.gfile.exists(os.path.join(candidate, SAVED_MODEL_FILE)):
            return candidate
    raise FileNotFoundError(
        f"`path` must be a SavedModel, a trained model's folder or a push destination; got {path!r}, which holds "
        f"neither {SAVED_MODEL_FILE}, nor {MODEL_ARTIFACT_FOLDER}, nor a version folder with a model. "
        "Push a model first, or name another folder."
    )
