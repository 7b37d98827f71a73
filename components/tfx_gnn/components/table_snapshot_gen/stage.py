"""TableSnapshotGen: copies the tables of a database, or of a folder, to Parquet files."""

from __future__ import annotations

import tempfile

from tfx_gnn.components.table_snapshot_gen.options import TableSnapshotGenOptions
from tfx_gnn.io.atomic_folder import atomic_folder
from tfx_gnn.io.disk_sync import sync_tree
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.io.whole_files import copy_files
from tfx_gnn.snapshot.open_source import open_source
from tfx_gnn.snapshot.snapshot_manifest import SnapshotManifest
from tfx_gnn.snapshot.take_snapshot import take_snapshot


def snapshot_tables(*, source: str, snapshot_dir: str, options: TableSnapshotGenOptions) -> SnapshotManifest:
    """Copies tables to Parquet files, all as of one moment, with their types and the keys that the source declares.

    Memory holds some batches of rows, whatever the size of a table: see `write_table_file`. The folder appears whole or
    not at all. A snapshot that was killed starts anew, since tables read later would be of another moment.

    Args:
        source: URL of a database, or path of a SQLite file, a DuckDB file or a folder; see `parse_address`. Passwords
            are better left to the environment, as PGPASSWORD.
        snapshot_dir: folder to create, with one file for each table and `snapshot.json`.
        options: which tables.

    Returns:
        What is in the folder.

    Raises:
        ValueError: if the source cannot be read, or a name is unknown; see `take_snapshot`.
        FileNotFoundError: if there is no such file or folder.
        ModuleNotFoundError: if the source's driver is not installed.
        FileExistsError: if `snapshot_dir` already holds files.
    """
    with atomic_folder(snapshot_dir, name="snapshot_dir") as folder, tempfile.TemporaryDirectory() as local:
        place = folder if has_locks(folder) else local
        with open_source(source) as opened:
            manifest = take_snapshot(
                opened, place, schemas=options.schemas, tables=options.tables, exclude=options.exclude
            )
        if place == folder:
            sync_tree(folder)
        else:
            copy_files(local, folder)
    return manifest
