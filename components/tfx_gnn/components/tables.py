"""A fingerprint of tables, so that caching sees edited data behind an unchanged path."""

from __future__ import annotations

import os

from tfx_gnn.graph import schema as graph_schema
from tfx_gnn.stages.examples_folder import graph_schema_path
from tfx_gnn.stages.fingerprint import fingerprint_files
from tfx_gnn.tables.graph_tables import read_tables_schema


def fingerprint_tables(tables_dir: str) -> str:
    """Hashes the graph schema of a tables folder and every table that it names.

    Args:
        tables_dir: folder with `graph_schema.pbtxt` and the files that it names.

    Returns:
        SHA-256 as 64 hexadecimal digits.

    Raises:
        ValueError: if the schema is missing or invalid, or names an absent file.
    """
    schema = read_tables_schema(tables_dir)
    names = [declared.metadata.filename for _, _, declared in graph_schema.iter_sets(schema)]
    return fingerprint_files(
        [graph_schema_path(tables_dir), *(os.path.join(tables_dir, name) for name in sorted(set(names)) if name)]
    )
