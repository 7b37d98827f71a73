"""A fingerprint of tables, so that caching sees edited data behind an unchanged path."""

from __future__ import annotations

from tfx_gnn.stages.fingerprint import fingerprint_files
from tfx_gnn.tables.graph_tables import list_table_files


def fingerprint_tables(tables_dir: str) -> str:
    """Hashes the graph schema of a tables folder and every file of every table that it names.

    Tables in BigQuery are not looked at: a change there must be told in another way.

    Args:
        tables_dir: folder with `graph_schema.pbtxt` and the files that it names.

    Returns:
        SHA-256 as 64 hexadecimal digits.

    Raises:
        ValueError: if the schema is missing or invalid, or names an absent file.
    """
    return fingerprint_files(list_table_files(tables_dir))
