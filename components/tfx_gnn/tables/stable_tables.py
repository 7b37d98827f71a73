"""Notices tables that change while they are read, or that are others than a pipeline was built with."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import tensorflow as tf

from tfx_gnn.io.fingerprint import describe_file_version, fingerprint_files


class StableTables:
    """Tables whose files must stay as they are while they are read.

    Attributes:
        versions: by path, the description of the file's version at the start.
    """

    def __init__(self, find_files: Callable[[], Iterable[str]], *, contents: str = "") -> None:
        """Notes the versions of the files.

        Args:
            find_files: lists the files; `check` calls it again, to notice files that were added.
            contents: the `fingerprint_files` that the files must have, or several with commas between, one of which
                they must have; any if it is empty.

        Raises:
            ValueError: if the files have other contents.
        """
        self._find_files = find_files
        self.versions = {path: describe_file_version(path) for path in find_files()}
        # Only after the versions: a file that changes while it is hashed must not count as unchanged later.
        if contents and (found := fingerprint_files(self.versions)) not in contents.split(","):
            raise ValueError(
                f"`tables_dir` must hold the tables that the pipeline was built with, fingerprint {contents[:12]}; got "
                f"fingerprint {found[:12]} of {list(self.versions)[:3]}. Build the pipeline again, or tell versions of "
                "the tables apart by a text of your own: `tables_fingerprint`, --tables-version, or the parameter "
                "`tables_version` of a compiled pipeline."
            )

    def check(self) -> None:
        """Raises a ValueError that names a file which has changed, is gone, or was added since the start."""
        for path, version in self.versions.items():
            if not tf.io.gfile.exists(path):
                raise _unstable(path, "is gone")
            if describe_file_version(path) != version:
                raise _unstable(path, "has changed")
        for path in self._find_files():
            if path not in self.versions:
                raise _unstable(path, "was added")


def _unstable(path: str, change: str) -> ValueError:
    return ValueError(
        f"`{path}` must stay as it is while the tables are read; got a file that {change} since the start. Start again "
        "when nothing writes the tables."
    )
