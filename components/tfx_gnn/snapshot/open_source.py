"""Opens a source by its address."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfx_gnn.snapshot.source_address import parse_address

if TYPE_CHECKING:
    from tfx_gnn.snapshot.source import Source

_SOURCES = {
    "postgresql": "postgresql_source:PostgresqlSource",
    "sqlite": "sqlite_source:SqliteSource",
    "duckdb": "duckdb_source:DuckdbSource",
    "folder": "table_folder:TableFolder",
    "bigquery": "warehouse_source:open_bigquery",
    "snowflake": "warehouse_source:open_snowflake",
}
"""What opens a source, by its kind; imported when one is opened."""


@contextlib.contextmanager
def open_source(address: str) -> Iterator[Source]:
    """Opens a source, and closes it after the block.

    Args:
        address: a URL, or the path of a file or folder; see `parse_address`.

    Yields:
        The source.

    Raises:
        ValueError: if the address is of no known form, or the source cannot be opened.
        FileNotFoundError: if there is no such file or folder.
        ModuleNotFoundError: if the source's driver is not installed.
    """
    parsed = parse_address(address)
    module, _, name = _SOURCES[parsed.kind].partition(":")
    source: Source = getattr(importlib.import_module(f"tfx_gnn.snapshot.{module}"), name)(parsed)
    with source:
        yield source
