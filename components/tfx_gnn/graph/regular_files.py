"""Files that can be read from beginning to end: no pipes and no devices."""

from __future__ import annotations

import os
import stat

_LOCAL_SCHEME = "file://"
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_regular_file(path: str) -> None:
    """Refuses what would be waited for, or read, without end.

    A folder, or a path at which there is nothing, is left to whoever opens it.

    Args:
        path: path, or URL of a file system that `tf.io.gfile` knows. Only local ones are looked
            at: others hold nothing but files.

    Raises:
        ValueError: if it is a named pipe, a socket or a device, or a link to one.
    """
    local = path.removeprefix(_LOCAL_SCHEME)
    if "://" in local:
        return
    try:
        mode = os.stat(local).st_mode
    except (OSError, ValueError):  # the latter for a zero byte in the path
        return
    kind = _KINDS.get(stat.S_IFMT(mode))
    if kind:
        raise ValueError(
            f"`{path}` must be a regular file; got {kind}. Write what it gives to a file, and name that instead."
        )
