"""Folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator

import tensorflow as tf

PARTIAL_MARK = ".partial-"
"""Part of the name of every folder that is still being written."""


@contextlib.contextmanager
def atomic_folder(path: str) -> Iterator[str]:
    """Yields a hidden sibling of `path` to write into; renames it to `path` on success.

    A stage that dies, even by SIGKILL, leaves only a hidden folder that carries
    `PARTIAL_MARK` in its name; no reader takes it for output. On an exception
    the hidden folder is removed. On a local disk the rename is one atomic
    system call; object stores have no such call, and there the marker name is
    what protects readers.

    Args:
        path: folder to create; it may exist already if it is empty.

    Yields:
        Path of the hidden folder, which exists and is empty.

    Raises:
        FileExistsError: if `path` holds files already.
    """
    path = path.rstrip("/")
    check_absent_or_empty(path)
    parent, name = os.path.split(path)
    partial = os.path.join(parent, f".{name}{PARTIAL_MARK}{uuid.uuid4().hex[:12]}")
    tf.io.gfile.makedirs(partial)
    try:
        yield partial
        check_absent_or_empty(path)
        rename_to(partial, path)
    except BaseException:
        if tf.io.gfile.exists(partial):
            tf.io.gfile.rmtree(partial)
        raise


def rename_to(folder: str, path: str) -> None:
    """Renames a finished folder to the path that was asked for.

    Args:
        folder: the finished folder.
        path: its new place, absent or an empty folder.
    """
    if tf.io.gfile.exists(path):
        # An empty folder made ahead by the orchestrator; gfile cannot rename onto it.
        tf.io.gfile.rmtree(path)
    tf.io.gfile.rename(folder, path)


def check_absent_or_empty(path: str) -> None:
    """Refuses to write where files are already.

    Args:
        path: folder to create.

    Raises:
        FileExistsError: if `path` holds files.
    """
    if tf.io.gfile.exists(path) and tf.io.gfile.listdir(path):
        raise FileExistsError(
            f"`path` must be absent or an empty folder; got {path!r}, which holds "
            f"{sorted(tf.io.gfile.listdir(path))[:3]}. Choose another folder or remove this one."
        )
