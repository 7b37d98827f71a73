"""Distinguishes files that this user's runs made next to outputs from other users' files with such names.

If several users write into one folder, each of them can make a link, a pipe or a file with the name of a journal, a
lock or a hidden folder. So the functions here follow no links, never block, and check the owner.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile

_NO_FILE = {errno.ELOOP: "a link", errno.ENXIO: "a socket", errno.EISDIR: "a folder"}
_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFDIR: "a folder"}
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def open_regular(path: str, flags: int, mode: int = 0o666) -> int:
    """Opens a file like `os.open`; raises ValueError for anything but a regular file with one name."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        raise ValueError(_refusal(path, "a regular file", _NO_FILE[error.errno])) from error
    found = os.fstat(descriptor)
    # With a second name, it may be any file of this user to which somebody made a hard link.
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    kind = (
        "one with several names" if stat.S_ISREG(found.st_mode) else _KINDS.get(stat.S_IFMT(found.st_mode), "a device")
    )
    raise ValueError(_refusal(path, "a regular file", kind))


def is_own(found: os.stat_result, folder: str, *, private: bool = False) -> bool:
    """Returns whether this user made what was found in a folder; `private`: and nobody else can write to it."""
    if found.st_uid == os.geteuid() and not (private and found.st_mode & _OTHERS_WRITE):
        return True
    try:
        # Some mounts (CIFS, gcsfuse, NFS with squashed users) show the same owner and mode for everyone's files.
        with tempfile.TemporaryFile(dir=folder) as probe:
            new = os.fstat(probe.fileno())
    except OSError:
        return False
    others_write = found.st_mode & _OTHERS_WRITE if private else 0
    return found.st_uid in (new.st_uid, os.geteuid()) and not others_write & ~new.st_mode


def is_own_folder(path: str) -> bool:
    """Returns whether a path is a folder made by this user, and not a link to one."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and is_own(found, os.path.dirname(os.path.abspath(path)))


def check_own_folder(path: str) -> None:
    """Refuses to resume work in a hidden folder that this user's runs did not make; it may be absent."""
    if os.path.lexists(path) and not is_own_folder(path):
        kind = "a link" if os.path.islink(path) else "that of another user" if os.path.isdir(path) else "a file"
        raise ValueError(_refusal(path, "a folder that a run of this user has made", kind))


def _refusal(path: str, rule: str, found: str) -> str:
    return f"`{path}` must be {rule}; got {found}. Find out who put it there, remove it, and start again."
