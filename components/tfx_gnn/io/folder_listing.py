"""Lists folders on local disks and object stores, and tells an absent folder from a store that does not answer.

`tf.io.gfile.isdir` says of any error that there is no folder, and `listdir` and `walk` believe it: a part of a model
would be left out of a copy because a store was away for a minute, or forbids to list.
"""

from __future__ import annotations

import os

import tensorflow as tf


def is_folder(path: str) -> bool:
    """Tells whether a path is a folder.

    Raises:
        tf.errors.OpError: if the file system cannot say it.
    """
    try:
        return bool(tf.io.gfile.stat(path).is_directory)
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
        # The latter: a part of the path is a file.
        return False


def list_entries(folder: str) -> list[str]:
    """Lists the names in a folder, sorted, without slashes at their ends; none if it is absent or no folder.

    Raises:
        tf.errors.OpError: if the file system cannot say it.
        ValueError: if a name is not in UTF-8, the only encoding that TensorFlow reads.
    """
    if not is_folder(folder):
        return []
    try:
        return sorted(name.rstrip("/") for name in tf.io.gfile.listdir(folder))
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`{folder}` must have names in UTF-8; got the bytes {error.object!r}. Rename or remove that file."
        ) from error


def list_all_files(folder: str) -> list[str]:
    """Lists the relative paths of all files in a folder and the folders inside, sorted; none if it is absent.

    On object stores, objects whose names end in a slash are folders.

    Raises:
        tf.errors.OpError: if the file system cannot say it.
    """
    files: list[str] = []
    for name in list_entries(folder):
        path = os.path.join(folder, name)
        if is_folder(path):
            files += [os.path.join(name, inner) for inner in list_all_files(path)]
        else:
            files.append(name)
    return sorted(files)
