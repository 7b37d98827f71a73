"""The command `snapshot`: copies the tables of a database or a folder to Parquet files."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.option_flags import flags_of_options
from tfx_gnn.components.table_snapshot_gen.options import TableSnapshotGenOptions


@flags_of_options(TableSnapshotGenOptions, into="options", shown=None)
def snapshot(
    source: Annotated[
        str,
        typer.Argument(
            help="URL of a database, such as postgresql://USER@HOST/DATABASE, with its password in PGPASSWORD or "
            "PGPASSFILE; or the path of a SQLite file, a DuckDB file, or a folder of CSV, Parquet or JSON lines files.",
            metavar="SOURCE",
        ),
    ],
    *,
    snapshot_dir: Annotated[
        str, typer.Option("--to", help="Folder to create, for `tfx-gnn new --tables`.", metavar="FOLDER")
    ],
    options: TableSnapshotGenOptions,
) -> None:
    """Copy the tables of a database, all as of one moment, to Parquet files that keep their types and keys."""
    from tfx_gnn.components.table_snapshot_gen.stage import snapshot_tables

    manifest = snapshot_tables(source=source, snapshot_dir=snapshot_dir, options=options)
    shown = Table("table", "rows", "file", title=escape(f"{manifest.source}, {manifest.taken_at}"))
    shown.columns[1].justify = "right"
    for entry in manifest.tables.values():
        shown.add_row(escape(entry.table), f"{entry.rows:,}", escape(entry.file))
    arguments.console.print(shown)
    for entry in manifest.tables.values():
        for note in entry.notes:
            arguments.console.print(f"{note}.", markup=False, soft_wrap=True)
    arguments.say_written(snapshot=snapshot_dir)
