"""Folders that appear whole or not at all, and whose making can be taken up again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import tensorflow as tf

from tfx_gnn.stages.files.atomic_folder import commit_outputs, held_outputs
from tfx_gnn.stages.files.leftovers import remove_partial_folders, sweep_beside
from tfx_gnn.stages.files.output_paths import check_absent_or_empty, resolve_outputs
from tfx_gnn.stages.files.process_lock import has_locks, process_lock

UNFINISHED_MARK = ".unfinished-"
"""Beginning of the name of every folder whose making was begun and can be taken up again."""


@contextlib.contextmanager
def resumable_folder(path: str, *, fingerprint: str, name: str = "path") -> Iterator[str]:
    """Yields a hidden sibling of `path` to write into; renames it to `path` on success.

    Unlike that of `atomic_folder`, the hidden folder outlives an interruption if
    anything was written into it, and the next run of the same work is given it
    again: its name follows from the fingerprint, not from `path`, as the retry of
    a pipeline's component has another output folder. What is in it must therefore
    be files that were written whole.

    One run at a time may hold a hidden folder on a local disk; it goes free when
    its process ends, however it ends. Object stores know no such lock.

    Args:
        path: folder to create; it may exist already if it is empty.
        fingerprint: text that is equal for equal work, of letters and digits.
        name: what the user calls the folder.

    Yields:
        Path of the hidden folder, which exists; empty unless work is taken up.

    Raises:
        FileExistsError: if `path` is a file or holds files already.
        NotADirectoryError: if a file is where one of its parent folders should be.
        PermissionError: if the folder around it cannot be written.
        BlockingIOError: if another process is doing the same work there now, or writing `path`.
        ValueError: if `path` is no place for a folder: see `resolve_outputs`.
    """
    outputs = {name: os.fspath(path)}
    places = resolve_outputs(outputs)
    place = places[name]
    unfinished = unfinished_folder(place, fingerprint=fingerprint)
    with held_outputs(outputs, places), _locked(unfinished, name, path):
        check_absent_or_empty(path, name=name)
        remove_partial_folders(place)
        if has_locks(place):
            sweep_beside([place])
        tf.io.gfile.makedirs(unfinished)
        try:
            yield unfinished
            commit_outputs({name: unfinished}, places)
        except BaseException:
            if tf.io.gfile.exists(unfinished) and not tf.io.gfile.listdir(unfinished):
                tf.io.gfile.rmtree(unfinished)
            raise


def unfinished_folder(path: str, *, fingerprint: str) -> str:
    """Tells where `resumable_folder` lets a folder be made, whether anything is there or not.

    Args:
        path: the folder to create.
        fingerprint: as for `resumable_folder`.

    Returns:
        Path of the hidden folder.
    """
    return os.path.join(os.path.dirname(path.rstrip("/")), f"{UNFINISHED_MARK}{fingerprint[:24]}")


@contextlib.contextmanager
def _locked(unfinished: str, name: str, path: str) -> Iterator[None]:
    if not has_locks(unfinished):
        yield
        return
    rule = f"`{name}` must be made by one process at a time; got {path!r}, made in {unfinished!r}"
    # Beside the folder, whose renaming must happen under the lock.
    with process_lock(f"{os.path.abspath(unfinished)}.lock", rule=rule):
        yield
