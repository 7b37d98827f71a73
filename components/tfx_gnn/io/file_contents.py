"""Reads files of local disks without TensorFlow, which takes seconds to import, and those of object stores with it."""

from __future__ import annotations

import os


def file_exists(path: str) -> bool:
    """Tells whether there is a file at a path, or a URL of a file system that `tf.io.gfile` knows."""
    if "://" not in path:
        return os.path.isfile(path)
    import tensorflow as tf

    return bool(tf.io.gfile.exists(path))


def read_bytes(path: str) -> bytes:
    """Reads a whole file from a path, or a URL of a file system that `tf.io.gfile` knows.

    Raises:
        OSError: if a local file cannot be read.
        tf.errors.OpError: if a file of an object store cannot.
    """
    if "://" not in path:
        with open(path, "rb") as local:
            return local.read()
    import tensorflow as tf

    with tf.io.gfile.GFile(path, "rb") as file:
        return bytes(file.read())
