"""LatestBlessedModelResolver: finds the model that was blessed and pushed last, without a metadata store."""

from __future__ import annotations

import json
import os

import tensorflow as tf

from tfx_gnn.components.latest_blessed_model_resolver.options import LatestBlessedModelResolverOptions
from tfx_gnn.io.atomic_folder import atomic_folder
from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.io.whole_files import copy_files
from tfx_gnn.records.blessing import LATEST_BLESSED_MODEL_FILE
from tfx_gnn.serving.model_interface import MODEL_ARTIFACT_FOLDER, SAVED_MODEL_FILE
from tfx_gnn.serving.object_store_versions import VERSION_MARKER
from tfx_gnn.serving.versions import version_names

_NONE = "0"


def describe_latest_version(push_destination: str) -> str:
    """Describes the newest complete version of a push destination, in a text that changes with it.

    Returns:
        Folder name and fingerprint of the version, with a colon between; "0" if there is none.
    """
    path = _newest(push_destination)
    return f"{os.path.basename(path)}:{_fingerprint(path)}" if path else _NONE


def resolve_latest_blessed_model(
    *,
    push_destination: str,
    blessed_model_dir: str,
    latest_version: str = "",
    options: LatestBlessedModelResolverOptions,
) -> bool:
    """Copies the newest version of a push destination, since only blessed models are pushed.

    The destination alone decides, so a version that was removed because it failed is not compared with, and the same is
    found on every runner.

    Args:
        push_destination: folder or URI of version folders, which need not exist yet.
        blessed_model_dir: absent or empty folder for the copy, and for the record of where it is from, or that there is
            none.
        latest_version: the version, as `describe_latest_version` described it; empty: the newest one now.
        options: whether there must be a model.

    Returns:
        Whether there is a model.

    Raises:
        ValueError: if there must be one, or the described version is gone or has changed.
    """
    if not push_destination:
        raise ValueError("`push_destination` must be a folder or a URI; got ''. Name where versions appear.")
    if latest_version:
        name = latest_version.partition(":")[0]
        path = "" if latest_version == _NONE else os.path.join(push_destination, name)
    else:
        path = _newest(push_destination)
    if not path and options.must_exist:
        raise ValueError(
            f"`push_destination` must have a version, since `must_exist` is true; got none in {push_destination!r}. "
            "Check the name, or push a first model."
        )
    with atomic_folder(blessed_model_dir, name="blessed_model_dir") as partial:
        if path:
            saved_model_dir = os.path.join(partial, MODEL_ARTIFACT_FOLDER)
            copy_files(path, saved_model_dir)
            # Of the copy, because somebody may have removed or changed the version meanwhile.
            found = f"{os.path.basename(path)}:{_fingerprint(saved_model_dir)}"
            if latest_version and found != latest_version:
                raise ValueError(
                    f"`push_destination` must have version {latest_version} from the start of the run to its end; got "
                    f"{found} in {path!r}. Start the run again."
                )
            description = f"version {os.path.basename(path)} in {push_destination}"
        else:
            description = f"no version in {push_destination}: this is the first model"
        with tf.io.gfile.GFile(os.path.join(partial, LATEST_BLESSED_MODEL_FILE), "w") as file:
            file.write(json.dumps({"found": bool(path), "description": description}, indent=2) + "\n")
    return bool(path)


def _newest(push_destination: str) -> str:
    """Returns the folder of the newest version that is whole; empty if there is none."""
    for _, name in sorted(version_names(push_destination).items(), reverse=True):
        path = os.path.join(push_destination, name)
        if tf.io.gfile.exists(os.path.join(path, SAVED_MODEL_FILE)):
            return path
    return ""


def _fingerprint(saved_model_dir: str) -> str:
    return fingerprint_folders([saved_model_dir], without=[VERSION_MARKER])
