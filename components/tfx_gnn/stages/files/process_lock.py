"""Locks that go free when their process ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from typing import TextIO


def has_locks(path: str) -> bool:
    """Tells whether a path is on a file system, where files can be locked; object stores know no locks.

    Args:
        path: a folder or file.

    Returns:
        False for an object store, as in "gs://bucket/folder".
    """
    return "://" not in path


@contextlib.contextmanager
def process_lock(path: str, *, rule: str) -> Iterator[None]:
    """Holds a lock file, which is removed at the end.

    The lock is on the file system, so processes of other machines that mount it are kept out, too, if it has locks
    between machines, as NFS has.

    Args:
        path: the lock file, on a file system. Its folder is made if need be.
        rule: what an error begins with: "`name` must <rule>; got <value>".

    Yields:
        Nothing.

    Raises:
        BlockingIOError: if another process holds it. The message tells which one, and what to do.
        OSError: if the file system has no locks.
    """
    lock = _acquire(path, rule)
    try:
        yield
    finally:
        if _is_at(lock, path):
            os.remove(path)
        lock.close()


def _acquire(path: str, rule: str) -> TextIO:
    while True:
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        with contextlib.ExitStack() as stack:
            try:
                lock = stack.enter_context(open(path, "a+", encoding="utf-8"))
            except FileNotFoundError:
                if os.path.isdir(folder):
                    raise
                # Its last holder removed the folder after we had made sure of it.
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BlockingIOError(
                    f"{rule}, which {_holder(lock)} holds. Wait for its end, or end it, and start again; or name "
                    "another folder."
                ) from error
            except OSError as error:
                raise OSError(
                    f"{rule}, and be on a file system with locks; {os.path.dirname(path)!r} has none: "
                    f"{error.strerror}. Mount it with locks, or name a folder elsewhere."
                ) from error
            # Else its last holder removed it between our opening and locking, and others would lock another file.
            if _is_at(lock, path):
                lock.truncate(0)
                since = time.strftime("%Y-%m-%d %H:%M:%S")
                lock.write(f"process {os.getpid()} on {socket.gethostname()} since {since}")
                lock.flush()
                stack.pop_all()
                return lock


def _is_at(lock: TextIO, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(lock.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(lock: TextIO) -> str:
    lock.seek(0)
    # Whoever has just locked it has yet to write its name.
    return lock.read() or "another process"
