"""Atomic arrival of a model in a folder of versions.

A version is written and checked under a hidden name, then appears by one
rename. A lock file beside it is held by the process that writes; the lock dies
with the process, so a hidden folder whose lock is free is the leftover of a
dead one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterator

from tfx_gnn.serving.versions import list_versions

INCOMING_MARK = ".incoming-"
"""Begin of the names of versions that are still being written."""

_LOCK_SUFFIX = ".lock"
_TARGET_TAKEN = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}


@contextlib.contextmanager
def incoming_version(destination: str) -> Iterator[str]:
    """Yields a hidden, locked folder inside a push destination; removes it afterwards if it was not published.

    Leftovers of dead processes are removed first, those of living ones left alone.

    Args:
        destination: folder of versions on a local or mounted disk; made if missing.

    Yields:
        Path of the hidden folder, which exists and is empty.

    Raises:
        ValueError: if the destination is on an object store.
    """
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", destination):
        raise ValueError(
            "`destination` must be a folder of a local or mounted disk, where one rename publishes a version; got "
            f"{destination!r}. Push to a local folder and copy the new version from there."
        )
    os.makedirs(destination, exist_ok=True)
    remove_leftovers(destination)
    path, lock = _make_locked_folder(destination)
    try:
        yield path
    finally:
        if os.path.isdir(path):
            shutil.rmtree(path)
        _release(path, lock)


def publish_version(incoming: str, destination: str) -> int:
    """Renames a hidden folder to the next version number.

    Two processes never get the same number: the rename onto a folder with files
    fails, and the next number is tried. Nothing is ever overwritten.

    Args:
        incoming: folder that `incoming_version` gave, with the model in it.
        destination: the same destination.

    Returns:
        The version: one more than the highest there, or 1.

    Raises:
        OSError: if the disk refuses for another reason.
    """
    _sync_tree(incoming)
    version = max(list_versions(destination), default=0) + 1
    while True:
        try:
            os.rename(incoming, os.path.join(destination, str(version)))
        except OSError as error:
            if error.errno not in _TARGET_TAKEN:
                raise
            version += 1
        else:
            _sync(destination)
            return version


def remove_leftovers(destination: str) -> list[str]:
    """Removes hidden folders whose process is dead.

    Args:
        destination: folder of versions, which exists.

    Returns:
        Names of the folders that were removed, sorted.
    """
    removed = []
    for name in sorted(os.listdir(destination)):
        if not (name.startswith(INCOMING_MARK) and name.endswith(_LOCK_SUFFIX)):
            continue
        path = os.path.join(destination, name.removesuffix(_LOCK_SUFFIX))
        lock = _try_lock(path, os.O_RDWR)
        if lock is None:
            continue
        try:
            if os.path.isdir(path):
                shutil.rmtree(path)
                removed.append(os.path.basename(path))
        finally:
            _release(path, lock)
    return removed


def _make_locked_folder(destination: str) -> tuple[str, int]:
    while True:
        path = os.path.join(destination, INCOMING_MARK + uuid.uuid4().hex)
        # None: between creation and lock another pusher took the file for a leftover.
        lock = _try_lock(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        if lock is not None:
            os.mkdir(path)
            return path, lock


def _try_lock(path: str, flags: int) -> int | None:
    """Locks the lock file of a folder; None if another process has it, or has removed it."""
    lock_file = path + _LOCK_SUFFIX
    try:
        descriptor = os.open(lock_file, flags)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.stat(lock_file), os.fstat(descriptor)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _release(path: str, lock: int) -> None:
    """Removes the lock file, which must come after the folder is gone, and frees the lock."""
    os.unlink(path + _LOCK_SUFFIX)
    os.close(lock)


def _sync_tree(folder: str) -> None:
    """Puts every file on the disk: the rename must not be there before what it shows."""
    for parent, _, names in os.walk(folder):
        for name in names:
            _sync(os.path.join(parent, name))
        _sync(parent)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
