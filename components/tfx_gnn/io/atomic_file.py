"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os

import tensorflow as tf

from tfx_gnn.io.disk_sync import sync_path
from tfx_gnn.io.process_lock import has_locks

_PARTIAL = ".{name}.writing"


def write_whole_file(path: str, text: str) -> None:
    """Writes a text file, replacing it if it exists, so that a killed run or a full disk leaves the old one or none.

    On a local disk the text is written to a hidden sibling, which then takes the name; where a killed run left one, the
    next run writes over it. A link stays, and the file that it leads to is replaced. Object stores show a file
    only when it is whole, and pipes and devices cannot be replaced: these are written as they are.
    """
    place = os.path.realpath(path) if has_locks(path) else path
    folder, name = os.path.split(place)
    is_replaceable = has_locks(path) and os.path.isdir(folder) and (os.path.isfile(place) or not os.path.exists(place))
    if not is_replaceable:
        with tf.io.gfile.GFile(path, "w") as file:
            file.write(text)
        return
    partial = os.path.join(folder, _PARTIAL.format(name=name))
    try:
        with open(partial, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        sync_path(partial)
        os.replace(partial, place)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)
        if isinstance(error, OSError):
            # The user knows the file by its name.
            raise OSError(error.errno, error.strerror, path) from error
        raise
    sync_path(folder)
