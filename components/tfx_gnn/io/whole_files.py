"""Writes files atomically, and copies folders; on local disks and object stores.

A text file is written to a local disk without TensorFlow.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator

from tfx_gnn.io.disk_sync import sync_path
from tfx_gnn.io.owned_files import open_regular
from tfx_gnn.io.process_lock import has_locks

_PARTIAL = ".{name}.writing"


def write_whole(path: str, text: str) -> None:
    """Writes or replaces a text file atomically: a killed run or a full disk leaves the old file, or none.

    On a local disk the text is written to a hidden sibling, which is then renamed; the next run overwrites a sibling
    that a killed run left. A link stays, and the file that it leads to is replaced; it keeps its permissions. Pipes and
    devices cannot be replaced, and are written directly. Only one process at a time may write a file.

    Raises:
        OSError: if the file cannot be written.
        ValueError: if the hidden sibling is a link, which somebody else may have made, or no file.
    """
    if not has_locks(path):
        import tensorflow as tf

        from tfx_gnn.io.renames import rename_file

        writing = f"{path}.writing"
        with tf.io.gfile.GFile(writing, "w") as file:
            file.write(text)
        rename_file(writing, path)
        return
    place = os.path.realpath(path)
    folder, name = os.path.split(place)
    is_replaceable = os.path.isdir(folder) and (os.path.isfile(place) or not os.path.exists(place))
    if not is_replaceable:
        import tensorflow as tf

        with tf.io.gfile.GFile(path, "w") as file:
            file.write(text)
        return
    partial = os.path.join(folder, _PARTIAL.format(name=name))
    try:
        # Not followed, if it is another user's link to a file of this one.
        descriptor = open_regular(partial, os.O_WRONLY | os.O_CREAT)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            os.ftruncate(descriptor, 0)
            _keep_permissions(place, descriptor)
            file.write(text)
        sync_path(partial)
        os.rename(partial, place)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)
        if isinstance(error, OSError):
            # Name the file that the user knows, not its sibling.
            raise OSError(error.errno, error.strerror, path) from error
        raise
    sync_path(folder)


def _keep_permissions(path: str, descriptor: int) -> None:
    """Gives an open file the permissions of the file that it will replace, if there is one."""
    if os.path.exists(path):
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if mode != stat.S_IMODE(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, mode)


def copy_files(folder: str, target: str) -> None:
    """Copies all files of a folder, which may be missing, even to another disk; existing files are replaced."""
    import tensorflow as tf

    from tfx_gnn.io.folder_listing import is_folder, list_entries

    if not is_folder(folder):
        return
    tf.io.gfile.makedirs(target)
    for name in list_entries(folder):
        path, place = os.path.join(folder, name), os.path.join(target, name)
        if is_folder(path):
            copy_files(path, place)
        else:
            tf.io.gfile.copy(path, place, overwrite=True)


@contextlib.contextmanager
def on_local_disk(folder: str) -> Iterator[str]:
    """Yields a folder on a local disk: itself, or a copy of one on an object store, which is removed afterwards."""
    if has_locks(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="copied-") as local:
        copy_files(folder, local)
        yield local
