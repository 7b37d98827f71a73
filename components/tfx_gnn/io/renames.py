"""Renames files and folders on stores whose answers may be lost.

TensorFlow repeats a request whose answer did not arrive. If the store had carried it out, the file is no longer where
it was, and the second request fails.
"""

from __future__ import annotations

import contextlib
import os

import tensorflow as tf

from tfx_gnn.io.folder_listing import is_folder, list_entries


def rename_file(path: str, target: str) -> None:
    """Renames a file that the caller has written; replaces the target."""
    try:
        tf.io.gfile.rename(path, target, overwrite=True)
    except tf.errors.NotFoundError:
        # An object has its new name before it loses the old one. TensorFlow may tell of the old one from memory.
        if not tf.io.gfile.exists(target):
            raise


def rename_folder(folder: str, target: str) -> None:
    """Renames a folder on an object store, file by file, to an absent or empty one."""
    tf.io.gfile.makedirs(target)
    for name in list_entries(folder):
        path, place = os.path.join(folder, name), os.path.join(target, name)
        if is_folder(path):
            rename_folder(path, place)
        else:
            rename_file(path, place)
    # What stands for the folder itself, if anything does.
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.rmtree(folder)
