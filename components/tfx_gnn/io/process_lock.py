"""File locks that are released when their process ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from typing import TextIO

_POLL_SECONDS = 0.01
_MAX_TEXT = 1000
_TEXT = re.compile(r"process \d+ on (?P<host>.+) since \d+-\d\d-\d\d \d\d:\d\d:\d\d(?:, (?P<note>.*)|)", re.DOTALL)


def has_locks(path: str) -> bool:
    """Returns whether a path is on a file system, which has locks; object stores ("gs://bucket/...") have none."""
    return "://" not in path


@contextlib.contextmanager
def process_lock(path: str, *, rule: str, note: str = "", patience_seconds: float = 0.1) -> Iterator[None]:
    """Holds a lock file, which is removed at the end.

    The lock is on the file system, so processes of other machines that mount it are kept out, too, if it has locks
    between machines, as NFS has. `rule` begins the error "`name` must <rule>; got <value>" where another process holds
    the lock. `note` stands in the file behind the holder, to be read when the holder is dead. A process that only
    checks whether a holder is dead has the lock for a moment, so it is tried for `patience_seconds`.
    """
    lock = _acquire(path, rule, note, patience_seconds)
    try:
        yield
    finally:
        if _is_at(lock, path):
            os.remove(path)
        lock.close()


def left_by_this_machine(path: str) -> str | None:
    """Reads the note of a lock file whose holder, dead or alive, was a process of this machine and this user.

    None for a lock of another machine, which this one may be unable to see, for one of another user, and for what
    is no lock.
    """
    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_MAX_TEXT)
    except FileNotFoundError:
        return None
    parts = _TEXT.fullmatch(text)
    return (parts["note"] or "") if parts is not None and parts["host"] == socket.gethostname() else None


def _acquire(path: str, rule: str, note: str, patience_seconds: float) -> TextIO:
    deadline = time.monotonic() + patience_seconds
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
                if time.monotonic() < deadline:
                    time.sleep(_POLL_SECONDS)
                    continue
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
                lock.write(f"process {os.getpid()} on {socket.gethostname()} since {since}{note and ', '}{note}")
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
    # A process that has just locked it has not yet written its name.
    return lock.read() or "another process"
