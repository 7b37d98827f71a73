"""File locks that are released when their process ends, however it ends.

Another user's lock file is locked like any other, so that users keep each other out, but it is neither written nor
removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator

from tfx_gnn.io.owned_files import is_own, open_regular

_POLL_SECONDS = 0.01
_MAX_TEXT = 1000
_TEXT = re.compile(r"process \d+ on (?P<host>.+) since \d+-\d\d-\d\d \d\d:\d\d:\d\d(?:, (?P<note>.*)|)", re.DOTALL)


def has_locks(path: str) -> bool:
    """Returns whether a path is on a file system with locks; object stores ("gs://bucket/...") have none."""
    return "://" not in path


@contextlib.contextmanager
def process_lock(path: str, *, rule: str, note: str = "", patience_seconds: float = 0.1) -> Iterator[None]:
    """Holds a lock file, which is removed at the end.

    The file system does the locking, so processes on other machines that mount it are also kept out if it supports
    locks between machines, as NFS does. `rule` begins the error "`name` must <rule>; got <value>" if another process
    holds the lock. `note` is written in the file after the holder, to be read when the holder is dead. A process that
    only checks whether a holder is dead takes the lock briefly, so this tries for `patience_seconds`.
    """
    lock = _acquire(path, rule, note, patience_seconds)
    try:
        yield
    finally:
        if _is_at(lock, path) and _is_own(lock, path):
            os.remove(path)
        os.close(lock)


def left_by_this_machine(path: str) -> str | None:
    """Reads the note of a lock file whose holder, dead or alive, is a process of this machine and this user.

    Returns None for a lock of another machine, whose processes this one may be unable to see, for a lock of another
    user, and for a file that is not a lock.
    """
    try:
        lock = open_regular(path, os.O_RDONLY)
    except (FileNotFoundError, PermissionError, ValueError):
        return None
    try:
        text = _read(lock) if os.fstat(lock).st_uid == os.geteuid() else ""
    finally:
        os.close(lock)
    parts = _TEXT.fullmatch(text)
    return (parts["note"] or "") if parts is not None and parts["host"] == socket.gethostname() else None


def _acquire(path: str, rule: str, note: str, patience_seconds: float) -> int:
    deadline = time.monotonic() + patience_seconds
    while True:
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        lock = _open(path)
        # Otherwise its last holder removed the file or the folder after `makedirs`.
        if lock is not None:
            with contextlib.ExitStack() as stack:
                stack.callback(os.close, lock)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    if time.monotonic() < deadline:
                        time.sleep(_POLL_SECONDS)
                        continue
                    raise BlockingIOError(
                        # A process that has just locked the file has not yet written its name.
                        f"{rule}, which {_read(lock) or 'another process'} holds. Wait for its end, or end it, and "
                        "start again; or name another folder."
                    ) from error
                except OSError as error:
                    raise OSError(
                        f"{rule}, and be on a file system with locks; {os.path.dirname(path)!r} has none: "
                        f"{error.strerror}. Mount it with locks, or name a folder elsewhere."
                    ) from error
                # Otherwise its last holder removed it between `_open` and `flock`, and others would lock another file.
                if _is_at(lock, path):
                    if _is_own(lock, path):
                        _write(lock, path, note)
                    stack.pop_all()
                    return lock


def _open(path: str) -> int | None:
    """Opens or creates a lock file; None if the file or its folder was removed in the meantime."""
    try:
        return open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    except FileNotFoundError:
        if os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise
        return None
    except FileExistsError:
        pass
    with contextlib.suppress(FileNotFoundError):
        try:
            # Without O_CREAT, with which systems refuse other users' files in folders such as /tmp.
            return open_regular(path, os.O_RDWR)
        except PermissionError:
            # A file need not be writable to be locked.
            return open_regular(path, os.O_RDONLY)
    return None


def _write(lock: int, path: str, note: str) -> None:
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    text = f"process {os.getpid()} on {socket.gethostname()} since {since}{note and ', '}{note}"
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, text.encode(), 0)
    except OSError as error:
        # The disk is full. No run would recognize an empty file as a lock that it may sweep.
        os.remove(path)
        raise OSError(error.errno, error.strerror, path) from error


def _is_own(lock: int, path: str) -> bool:
    return is_own(os.fstat(lock), os.path.dirname(os.path.abspath(path)))


def _is_at(lock: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), os.lstat(path))
    except FileNotFoundError:
        return False


def _read(lock: int) -> str:
    return os.pread(lock, _MAX_TEXT, 0).decode(errors="replace")
