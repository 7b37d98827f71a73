"""Finds the newest of several folders of one kind, which replace each other while they are served."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.versions import version_names

_LOG = logging.getLogger(__name__)


class WatchedFolder:
    """Follows a place where folders of one kind appear, and passes over those that cannot be served."""

    def __init__(self, path: str, manifest_file: str, *, what: str, metrics: ServerMetrics) -> None:
        """Takes a place, see `folders_newest_first`, and the name of what is in a folder, for the log."""
        self._path, self._manifest_file, self._what, self._metrics = path, manifest_file, what, metrics
        self._taken: object = None
        self._passed_over: dict[str, str] = {}

    def take_newest(self, take: Callable[[str], None]) -> int:
        """Takes the newest folder that can be served, unless it is the one that was taken last.

        Args:
            take: takes a folder; raises any exception if it cannot be served, and then has changed nothing.

        Returns:
            How many newer ones were passed over. Each is counted, and the log says once why.
        """
        passed_over = {}
        try:
            folders = folders_newest_first(self._path, self._manifest_file)
        except Exception as error:  # noqa: BLE001 - whatever the file system raises, the server goes on.
            folders, passed_over = [], {self._path: str(error)}
        for folder, identity in folders:
            try:
                if identity != self._taken:
                    take(folder)
            except Exception as error:  # noqa: BLE001 - whatever a damaged folder raises, an older one may be whole.
                passed_over[folder] = str(error)
            else:
                self._taken = identity
                break
        self._metrics.watch_failures.inc(len(passed_over))
        for folder, reason in passed_over.items():
            if self._passed_over.get(folder) != reason:
                _LOG.error("`%s` holds no %s that can be served, and is passed over: %s", folder, self._what, reason)
        self._passed_over = passed_over
        return len(passed_over)


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
