"""Takes a snapshot of a source: one Parquet file a table, all of one moment, with the keys that the source declares."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

import tfx_gnn
from tfx_gnn.io.fingerprint import hash_file
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.snapshot.snapshot_manifest import SnapshotManifest, TableEntry, write_snapshot_manifest
from tfx_gnn.snapshot.source import Source, SourceForeignKey, SourceTable
from tfx_gnn.snapshot.table_file import write_table_file
from tfx_gnn.tables.keys.declared_keys import DeclaredForeignKey, DeclaredKeys


def take_snapshot(
    source: Source,
    folder: str,
    *,
    schemas: Sequence[str] = (),
    tables: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> SnapshotManifest:
    """Writes tables and, at the end, the manifest.

    Args:
        source: an open source.
        folder: an empty folder on a local disk.
        schemas: schemas whose tables are taken; empty for all.
        tables: tables and views to take, as TABLE or SCHEMA.TABLE; empty for all tables and no view.
        exclude: tables to leave out.

    Returns:
        The manifest.

    Raises:
        ValueError: if a name is unknown, two tables would have one file, a table has no columns or may not be read, or
            the source fails or changes meanwhile.
    """
    chosen = _choose(source, schemas, tables, exclude)
    names = _name_files(chosen, source)
    source.hold(chosen)
    primary = _primary_keys(chosen)
    entries: dict[str, TableEntry] = {}
    for table in chosen:
        keys, notes = _declared_keys(table, names, primary)
        reading = source.read_table(table)
        name = names[table.schema, table.name]
        path = os.path.join(folder, f"{name}.parquet")
        num_rows = write_table_file(path, reading, keys)
        if num_rows != reading.num_rows:
            raise ValueError(
                f"`source` must keep one moment while it is read; got {num_rows:,} rows of {table.place} where "
                f"{reading.num_rows:,} had been counted. Take the snapshot again when nothing writes the table."
            )
        entries[name] = TableEntry(
            table=table.place,
            file=os.path.basename(path),
            query=reading.query,
            rows=num_rows,
            sha256=hash_file(path),
            notes=(*reading.notes, *notes),
        )
    source.check_unchanged()
    manifest = SnapshotManifest(
        source=source.address,
        taken_at=source.taken_at(),
        library_version=tfx_gnn.__version__,
        tables=entries,
    )
    write_snapshot_manifest(manifest, folder)
    return manifest


def _choose(source: Source, schemas: Sequence[str], tables: Sequence[str], exclude: Sequence[str]) -> list[SourceTable]:
    found = source.list_tables()
    known = sorted({one.schema for one in found})
    for schema in schemas:
        if schema not in known:
            raise ValueError(
                f"`schemas` must name schemas with tables; got {schema!r}, where there are {known}. "
                f"{did_you_mean(schema, known)}"
            )
    found = tuple(one for one in found if not schemas or one.schema in schemas)
    wanted = {place for name in tables for place in _places(name, found, "tables")}
    unwanted = {place for name in exclude for place in _places(name, found, "exclude")}
    chosen = [
        one for one in found if one.place not in unwanted and (one.place in wanted or (not tables and not one.is_view))
    ]
    if not chosen:
        raise ValueError(
            f"`source` must have tables to take; got none of {[one.place for one in found][:10]} in {source.address}. "
            "Name views by `tables`, or correct the names."
        )
    unreadable = [one.place for one in chosen if not one.is_readable]
    if unreadable:
        raise ValueError(
            f"`source` must have tables that this user may read; got no right to read {', '.join(unreadable)} in "
            f"{source.address}. Get it (GRANT SELECT), or leave them out by `exclude`."
        )
    return chosen


def _places(name: str, found: Sequence[SourceTable], option: str) -> list[str]:
    """Finds the tables that a name means: one with its schema, or all of that name."""
    places = [one.place for one in found if one.place == name] or [one.place for one in found if one.name == name]
    if not places:
        known = [one.place for one in found] + [one.name for one in found]
        raise ValueError(
            f"`{option}` must name tables of the source; got {name!r}, which is none of its {len(found)}. "
            f"{did_you_mean(name, known)}"
        )
    return places


def _name_files(chosen: Sequence[SourceTable], source: Source) -> dict[tuple[str, str], str]:
    """Names the file of each table, as node sets are named: by letters, digits and underscores."""
    names = {(one.schema, one.name): re.sub(r"\W+", "_", one.name).strip("_") or "table" for one in chosen}
    taken: dict[str, SourceTable] = {}
    for table in chosen:
        name = names[table.schema, table.name]
        other = taken.setdefault(name, table)
        if other is not table:
            raise ValueError(
                f"`source` must have tables of different names; got {other.place!r} and {table.place!r} in "
                f"{source.address}, which would both be {name}.parquet. Choose by `schemas`, or leave one out by "
                "`exclude`."
            )
    return names


def _primary_keys(chosen: Sequence[SourceTable]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Finds the key of each table: the declared one, or the one set of columns to which others refer."""
    referenced: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for table in chosen:
        for key in table.foreign_keys:
            referenced.setdefault((key.schema, key.table), set()).add(tuple(sorted(key.referenced)))
    keys = {}
    for table in chosen:
        others = referenced.get((table.schema, table.name), set())
        keys[table.schema, table.name] = table.primary_key or (next(iter(others)) if len(others) == 1 else ())
    return keys


def _declared_keys(
    table: SourceTable,
    names: Mapping[tuple[str, str], str],
    primary: Mapping[tuple[str, str], tuple[str, ...]],
) -> tuple[DeclaredKeys, list[str]]:
    """Takes what is declared of a table in terms of the files, and says what cannot be said so."""
    keys: list[DeclaredForeignKey] = []
    notes = []
    for key in table.foreign_keys:
        place = (key.schema, key.table)
        other = f"{key.schema}.{key.table}" if key.schema else key.table
        if place not in names:
            notes.append(f"{_columns(table, key)} refers to {other}, which is not in the snapshot: no key is kept")
        elif sorted(key.referenced) != sorted(primary[place]):
            notes.append(
                f"{_columns(table, key)} refers to {', '.join(key.referenced)} of {other}, which is not its primary "
                "key: no key is kept"
            )
        else:
            of_referenced = dict(zip(key.referenced, key.columns, strict=True))
            columns = tuple(of_referenced[column] for column in primary[place])
            declared = DeclaredForeignKey(columns=columns, table=names[place])
            if declared not in keys:
                keys.append(declared)
    declared_keys = DeclaredKeys(
        primary_key=primary[table.schema, table.name], foreign_keys=tuple(keys), time_column=table.time_column
    )
    return declared_keys, notes


def _columns(table: SourceTable, key: SourceForeignKey) -> str:
    return f"{table.place}.{'+'.join(key.columns)}"
