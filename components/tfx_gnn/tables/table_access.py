"""How a tables folder may be read: its schema file, other files, and the largest record."""

from __future__ import annotations

import dataclasses
import os

from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE

_MAX_MIB = 1024  # Arrow counts the bytes of a block of text in a signed 32-bit integer


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableAccess:
    """Which schema of a tables folder is read, and which files its tables may consist of.

    Attributes:
        schema_file: file name of the schema, relative to the tables folder.
        allow_outside_files: whether the files that a schema names may be outside the
            tables folder: by an absolute path, by `..`, or by a symbolic link. By default
            they must not, so that a schema from elsewhere cannot pull other files of the
            machine into the data.
        max_record_mib: maximum size of one record of a table, in MiB, in [1, 1024]. It
            bounds the memory that reading takes, even for compressed files. For Parquet
            it applies to the average record of a row group, before dictionary decoding.
    """

    schema_file: str = GRAPH_SCHEMA_FILE
    allow_outside_files: bool = False
    max_record_mib: int = 16

    def __post_init__(self) -> None:
        if not isinstance(self.schema_file, str) or not self.schema_file:
            raise ValueError(
                f"`schema_file` must name a file of the tables folder; got {self.schema_file!r}. "
                f"Leave it out for {GRAPH_SCHEMA_FILE}."
            )
        if not isinstance(self.allow_outside_files, bool):
            raise TypeError(
                f"`allow_outside_files` must be True or False; got {self.allow_outside_files!r}. Leave it out."
            )
        size = self.max_record_mib
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= _MAX_MIB:
            raise ValueError(
                f"`max_record_mib` must be a whole number of MiB in [1, {_MAX_MIB}]; got {size!r}. "
                "Split larger records into several columns or rows."
            )

    @property
    def max_record_bytes(self) -> int:
        """Maximum size of a record in bytes."""
        return self.max_record_mib << 20

    def schema_path(self, tables_dir: str) -> str:
        """Returns the path of the schema."""
        # A whole path replaces the folder, and so does a URI.
        return self.schema_file if "://" in self.schema_file else os.path.join(tables_dir, self.schema_file)
