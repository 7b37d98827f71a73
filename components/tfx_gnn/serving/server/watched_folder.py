"""Finds the newest of several folders of one kind, which replace each other while they are served."""

from __future__ import annotations

import os

from tfx_gnn.serving.versions import version_names


def newest_folder(path: str, manifest_file: str) -> tuple[str, object]:
    """Finds the folder that is to be served: the first of `folders_newest_first`."""
    return folders_newest_first(path, manifest_file)[0]


def folders_newest_first(path: str, manifest_file: str) -> list[tuple[str, object]]:
    """Lists the folders of one kind.

    Args:
        path: a folder with a manifest, or a link to one, which may be replaced; or a folder of numbered ones, such as
            `1` and `2`, each of which appears whole.
        manifest_file: name of the file that makes a folder one of the kind.

    Returns:
        At least one folder without links, and what changes when it is another one.

    Raises:
        FileNotFoundError: if there is none.
    """
    numbered = [os.path.join(path, name) for _, name in sorted(version_names(path).items(), reverse=True)]
    folders: list[tuple[str, object]] = []
    for folder in map(os.path.realpath, (path, *numbered)):
        try:
            found = os.stat(os.path.join(folder, manifest_file))
        except (FileNotFoundError, NotADirectoryError):
            continue
        folders.append((folder, (folder, found.st_ino, found.st_mtime_ns, found.st_size)))
    if not folders:
        raise FileNotFoundError(
            f"`{path}` must hold {manifest_file}, or numbered folders that do; got none. Write one, or name another "
            "folder."
        )
    return folders
