"""CSV files as typed columns, with errors that name file, line and column."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import tensorflow as tf

_BLOCK_BYTES = 1 << 24  # Arrow refuses a record that does not fit into one block
_PROBE = "end of table"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CsvColumn:
    """What to read from one column.

    Attributes:
        name: name of the column in the header line.
        dtype: Arrow type to give its cells.
        default: what an empty cell stands for, spelled as in the file. None: every
            row must have a value. In a text column `""` with its quotes is the
            empty text, not an empty cell.
    """

    name: str
    dtype: pa.DataType
    default: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class CsvTable:
    """Columns of a CSV file.

    Attributes:
        path: where the file is.
        columns: one Arrow array a requested column, all of `num_rows` values, no nulls.
        num_rows: number of records, the header not counted; at least 1.
    """

    path: str
    columns: Mapping[str, pa.Array]
    num_rows: int

    def place_of(self, row: int) -> str:
        """Says where a record stands in the file, for error messages.

        Args:
            row: position of the record, from 0.

        Returns:
            Text of the form "/data/nodes.csv, line 12".
        """
        return f"{self.path}, line {_line_of(self.path, row)}"


def read_csv_table(path: str, columns: Mapping[str, CsvColumn]) -> CsvTable:
    """Reads the requested columns of a UTF-8, comma-separated file with a header line.

    Args:
        path: the file, on any file system that TensorFlow reads.
        columns: what to read, under the names that the result shall use.

    Returns:
        The table; other columns of the file are left alone.

    Raises:
        ValueError: if the file is missing, empty or malformed, a column is missing, or a
            cell is empty without a default or not of its type. The message names file, line and column.
    """
    data = _read(path)
    header = next((record for _, record in _records(data)), None)
    if header is None:
        raise ValueError(f"`{path}` must start with a header line; got an empty file. Write the column names first.")
    wanted = sorted({column.name for column in columns.values()})
    for name in wanted:
        if header.count(name) != 1:
            _check_encoding(path, data)
            count = "none" if name not in header else f"{header.count(name)} of that name"
            raise ValueError(
                f"`{name}` must be one column of the table; got {count} among {header} in {path}. "
                "Correct the header line, or the names in the graph schema."
            )
    # Arrow takes a quote that is never closed for one long last cell, and the records in it for text.
    is_probed = b'"' in data
    try:
        texts = pa_csv.read_csv(
            io.BytesIO(b"%b\n%b\n" % (data, ",".join([_PROBE] * len(header)).encode()) if is_probed else data),
            read_options=pa_csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                include_columns=wanted,
                column_types={name: pa.large_string() for name in wanted},
                strings_can_be_null=True,
                null_values=[""],
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        _check_encoding(path, data)
        place, cause = _first_uneven_record(path, data, len(header)) or (path, str(error))
        raise ValueError(
            f"`{path}` must be a UTF-8 CSV file with {len(header)} cells in every record; got {cause} in {place}. "
            "Correct or quote the cells."
        ) from error
    if is_probed:
        texts = _without_probe(path, texts)
    if texts.num_rows == 0:
        raise ValueError(
            f"`{path}` must hold at least one record; got a header line only. "
            "Fill the table, or remove its set from the graph schema."
        )
    table = CsvTable(path=path, columns={}, num_rows=texts.num_rows)
    typed = {key: _typed(table, column, texts.column(column.name)) for key, column in columns.items()}
    return dataclasses.replace(table, columns=typed)


def _typed(table: CsvTable, column: CsvColumn, cells: pa.ChunkedArray) -> pa.Array:
    texts = cells.combine_chunks()
    if texts.null_count:
        if column.default is None:
            row = pc.index(texts.is_null(), True).as_py()
            raise ValueError(
                f"`{column.name}` must have a value in every record; got an empty cell in {table.place_of(row)}. Fill "
                'it in; for a feature, metadata { extra { key: "default.<feature>" value: "..." } } can declare '
                "what it stands for."
            )
        texts = texts.fill_null(column.default)
    if column.dtype == texts.type:
        return texts
    try:
        values = texts.cast(column.dtype)
    except pa.ArrowInvalid as error:
        row = _first_uncastable(texts, column.dtype)
        raise _cell_error(table, column, texts, row) from error
    if pa.types.is_floating(column.dtype):
        finite = pc.is_finite(values)
        if not pc.all(finite).as_py():
            raise _cell_error(table, column, texts, pc.index(finite, False).as_py())
    return values


def _cell_error(table: CsvTable, column: CsvColumn, texts: pa.Array, row: int) -> ValueError:
    rule = (
        f"be a finite number ({column.dtype})" if pa.types.is_floating(column.dtype) else f"be of type {column.dtype}"
    )
    return ValueError(
        f"`{column.name}` must {rule}; got {texts[row].as_py()!r} in {table.place_of(row)}. "
        "Correct the cell, or the dtype in the graph schema."
    )


def _first_uncastable(texts: pa.Array, dtype: pa.DataType) -> int:
    good, bad = 0, len(texts)  # the first `good` cells are castable, the first `bad` are not all
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            texts.slice(good, middle - good).cast(dtype)
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    return good


def _without_probe(path: str, texts: pa.Table) -> pa.Table:
    """Removes the record that was put behind the last one, and was not found if a quote is open there."""
    row = texts.num_rows - 1
    if any(column[row].as_py() != _PROBE for column in texts.columns):
        raise ValueError(
            f"`{path}` must close every quote; got one that is open at the end of the file, in the record that begins "
            f"in line {_line_of(path, row)}. Close it, or write a quote inside of a quoted cell twice."
        )
    return texts.slice(0, row)


def _check_encoding(path: str, data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"`{path}` must be a UTF-8 CSV file; got byte 0x{data[error.start]:02x} in {path}, line {line}, which is "
            "no UTF-8. Save the table as UTF-8."
        ) from error


def _read(path: str) -> bytes:
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        raise ValueError(
            f"`path` must be a CSV file; got {path!r}, which is no file. Correct the name or put the file there."
        )
    with tf.io.gfile.GFile(path, "rb") as file:
        data: bytes = file.read()
    return data


def _first_uneven_record(path: str, data: bytes, width: int) -> tuple[str, str] | None:
    for line, record in _records(data):
        if len(record) != width:
            return f"{path}, line {line}", f"{len(record)} cells"
    return None


def _line_of(path: str, row: int) -> int:
    for position, (line, _) in enumerate(_records(_read(path))):
        if position == row + 1:
            return line
    raise ValueError(
        f"`row` must be a record of the file; got {row} in {path}, which has fewer. Has the file been changed?"
    )


def _records(data: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yields the line where each record starts, from 1, and its cells; blank lines are no records."""
    # Python's reader refuses what Arrow takes: before Python 3.11 zero bytes, and by default long cells.
    text = io.BytesIO(data.replace(b"\0", b"?"))
    reader = csv.reader(io.TextIOWrapper(text, encoding="utf-8-sig", errors="replace", newline=""))
    limit = csv.field_size_limit(max(len(data), csv.field_size_limit()))
    try:
        start = 1
        for record in reader:
            if record:
                yield start, record
            start = reader.line_num + 1
    finally:
        csv.field_size_limit(limit)
