"""Flushes files and folders to disk before a rename makes them visible, in case of a power failure."""

from __future__ import annotations

import errno
import os

#: Errors of file systems that cannot flush a folder by itself, such as mounted object stores.
_NO_SYNC = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EBADF}


def sync_tree(folder: str) -> None:
    """Flushes a folder and everything in it to disk."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                sync_path(path)
        sync_path(parent)


def sync_path(path: str) -> None:
    """Flushes one file, or the list of names in one folder, to disk.

    Does nothing for a folder on a file system that cannot flush folders.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC or not os.path.isdir(path):
            raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(descriptor)
