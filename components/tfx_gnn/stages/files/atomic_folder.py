"""Folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator

import tensorflow as tf

from tfx_gnn.stages.files.process_lock import has_locks, process_lock

PARTIAL_MARK = ".partial-"
"""Part of the name of every folder that is still being written."""


@contextlib.contextmanager
def atomic_folder(path: str) -> Iterator[str]:
    """Yields a hidden sibling of `path` to write into; renames it to `path` on success.

    A stage that dies, even by SIGKILL, leaves only a hidden folder that carries
    `PARTIAL_MARK` in its name; no reader takes it for output, and the next stage
    with the same `path` removes it. On an exception the hidden folder is removed.
    On a local disk the rename is one atomic system call; object stores have no such
    call, and there the marker name is what protects readers.

    Args:
        path: folder to create; it may exist already if it is empty.

    Yields:
        Path of the hidden folder, which exists and is empty.

    Raises:
        FileExistsError: if `path` holds files already.
        BlockingIOError: if another process is writing `path` now.
    """
    path = path.rstrip("/")
    check_absent_or_empty(path)
    with locked_output(path):
        remove_partial_folders(path)
        partial = make_partial_folder(path)
        try:
            yield partial
            check_absent_or_empty(path)
            rename_to(partial, path)
        except BaseException:
            if tf.io.gfile.exists(partial):
                tf.io.gfile.rmtree(partial)
            raise


@contextlib.contextmanager
def locked_output(path: str, *, name: str = "path") -> Iterator[None]:
    """Keeps other processes from writing the same output; object stores know no locks, and there nobody is kept out.

    Args:
        path: folder that will be created.
        name: what it is called in an error.

    Yields:
        Nothing.

    Raises:
        BlockingIOError: if another process is writing it now.
    """
    if not has_locks(path):
        yield
        return
    parent, base = os.path.split(os.path.abspath(path))
    rule = f"`{name}` must be written by one process at a time; got {path!r}"
    with process_lock(os.path.join(parent, f".{base}.lock"), rule=rule):
        yield


def make_partial_folder(path: str) -> str:
    """Makes a hidden sibling of a folder to be.

    Args:
        path: the folder to be.

    Returns:
        Path of the new, empty sibling.
    """
    partial = f"{_partial_prefix(path)}{uuid.uuid4().hex[:12]}"
    tf.io.gfile.makedirs(partial)
    return partial


def partial_folders(path: str) -> list[str]:
    """Lists what processes have left, or are writing, beside a folder.

    Args:
        path: the folder, which need not exist.

    Returns:
        Paths of hidden siblings, sorted.
    """
    parent, prefix = os.path.split(_partial_prefix(path))
    if not tf.io.gfile.exists(parent or "."):
        return []
    names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(parent or "."))
    return [os.path.join(parent, name) for name in names if name.startswith(prefix)]


def remove_partial_folders(path: str) -> None:
    """Removes what dead processes have left beside a folder.

    On an object store nobody can tell the dead from the living, so there all of it stays.

    Args:
        path: the folder, whose `locked_output` the caller holds: who had begun to write it is dead.
    """
    if has_locks(path):
        for partial in partial_folders(path):
            tf.io.gfile.rmtree(partial)


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


def check_absent_or_empty(path: str, *, name: str = "path") -> None:
    """Refuses to write where files are already.

    Args:
        path: folder to create.
        name: what it is called in an error.

    Raises:
        FileExistsError: if `path` holds files.
    """
    if tf.io.gfile.exists(path) and tf.io.gfile.listdir(path):
        raise FileExistsError(
            f"`{name}` must be absent or an empty folder; got {path!r}, which holds "
            f"{sorted(tf.io.gfile.listdir(path))[:3]}. Choose another folder or remove this one."
        )


def _partial_prefix(path: str) -> str:
    parent, base = os.path.split(path.rstrip("/"))
    return os.path.join(parent, f".{base}{PARTIAL_MARK}")
