"""Streams Parquet files, row group by row group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tfx_gnn.tables.data_files import TableBytes
from tfx_gnn.tables.table_format import MAX_BLOCK_ROWS, RawBlock, TableFormat, too_large_record
from tfx_gnn.tables.table_layout import TableLayout

_MAGIC = b"PAR1"


class ParquetFormat(TableFormat):
    """Parquet files; a unit is a row group, and rows are counted over the file from 0."""

    def __init__(self, layout: TableLayout) -> None:
        """Prepares to read a table; see `TableFormat`."""
        super().__init__(layout)
        self._metadata: dict[str, pq.FileMetaData] = {}

    def list_units(self, path: str) -> tuple[int, ...]:
        """Lists the row groups; see `TableFormat`."""
        return tuple(range(self._read_metadata(path).num_row_groups))

    def column_names(self, path: str) -> Sequence[str]:
        """Lists the top-level columns; see `TableFormat`."""
        try:
            return tuple(self._read_metadata(path).schema.to_arrow_schema().names)
        except pa.ArrowException as error:
            raise _broken(path, str(error)) from error

    def column_types(self, path: str) -> Mapping[str, pa.DataType]:
        """Lists the declared types; see `TableFormat`."""
        fields = self._read_metadata(path).schema.to_arrow_schema()
        return {
            field.name: field.type
            for field in fields
            if not (pa.types.is_nested(field.type) or field.type == pa.null())
        }

    def read_raw_blocks(self, path: str, unit: int, column_names: Sequence[str]) -> Iterator[RawBlock]:
        """Reads a row group; see `TableFormat`."""
        metadata = self._read_metadata(path)
        self._check_sizes(path, unit, column_names)
        start = 0
        try:
            file = pq.ParquetFile(pa.PythonFile(TableBytes(path), "r"), metadata=metadata)
            for batch in file.iter_batches(
                batch_size=MAX_BLOCK_ROWS, row_groups=[unit], columns=list(column_names), use_threads=False
            ):
                rows = np.arange(start, start + batch.num_rows, dtype=np.int64)
                start += batch.num_rows
                yield RawBlock(columns=batch, rows=rows, num_rows_read=batch.num_rows)
        except (pa.ArrowException, OSError) as error:
            raise _broken(path, f"{error} in row group {unit}") from error

    def locate(self, path: str, unit: int, rows: Sequence[int]) -> list[int]:
        """Counts rows over the whole file, including earlier row groups; see `TableFormat`."""
        metadata = self._read_metadata(path)
        first = sum(metadata.row_group(earlier).num_rows for earlier in range(unit))
        return [first + int(row) for row in rows]

    def _check_sizes(self, path: str, unit: int, column_names: Sequence[str]) -> None:
        """Refuses a row group whose records are too large on average, by the column sizes in the file's metadata."""
        group = self._read_metadata(path).row_group(unit)
        columns = [group.column(index) for index in range(group.num_columns)]
        starts = tuple(f"{name}." for name in column_names)  # parts of nested columns follow the name and a dot
        size = sum(
            column.total_uncompressed_size for column in columns if f"{column.path_in_schema}.".startswith(starts)
        )
        if size > max(group.num_rows, 1) * self.layout.max_record_bytes:
            raise ValueError(too_large_record(path, self.layout, f"row {self.locate(path, unit, [0])[0]}"))

    def _read_metadata(self, path: str) -> pq.FileMetaData:
        if path not in self._metadata:
            file = TableBytes(path)
            start = file.read(len(_MAGIC))
            if start != _MAGIC:
                raise _broken(path, "a file that does not begin as one")
            file.seek(0)
            try:
                self._metadata[path] = pq.read_metadata(pa.PythonFile(file, "r"))
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                raise _broken(path, str(error)) from error
        return self._metadata[path]


def _broken(path: str, cause: str) -> ValueError:
    cause = " ".join(cause.split()).removesuffix(".")
    return ValueError(
        f"`{path}` must be a whole Parquet file; got {cause}. Write or copy the file again, or correct its suffix."
    )
