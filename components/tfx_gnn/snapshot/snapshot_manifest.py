"""The manifest of a snapshot: where the tables come from, when they were read, and what is in each file."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping

from tfx_gnn.io import options_json
from tfx_gnn.io.whole_files import write_whole

SNAPSHOT_FILE = "snapshot.json"
"""File of the manifest, which is written last."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableEntry:
    """What is known of the file of a table.

    Attributes:
        table: the table in its source, with its schema.
        file: the file in the snapshot.
        query: what the source was asked.
        rows: number of rows.
        sha256: hash of the file.
        notes: what could not be kept as it is, a sentence each.
    """

    table: str
    file: str
    query: str
    rows: int
    sha256: str
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class SnapshotManifest:
    """What is in a snapshot.

    Attributes:
        source: where the tables come from, without passwords.
        taken_at: the moment of which they are, in ISO 8601 and UTC.
        library_version: version of this library that took the snapshot.
        tables: the tables, by the names that node sets and edge sets get.
    """

    source: str
    taken_at: str
    library_version: str
    tables: Mapping[str, TableEntry]


def write_snapshot_manifest(manifest: SnapshotManifest, folder: str) -> None:
    """Writes the manifest into the folder of a snapshot."""
    write_whole(os.path.join(folder, SNAPSHOT_FILE), json.dumps(dataclasses.asdict(manifest), indent=2) + "\n")


def read_snapshot_manifest(folder: str) -> SnapshotManifest:
    """Reads the manifest of a snapshot.

    Raises:
        ValueError: if the file is no manifest.
    """
    with open(os.path.join(folder, SNAPSHOT_FILE), encoding="utf-8") as file:
        return options_json.from_json(file.read(), SnapshotManifest, name=SNAPSHOT_FILE)
