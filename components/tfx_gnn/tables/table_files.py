"""Reads tables as blocks of typed columns in bounded memory, or whole."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables import row_rules
from tfx_gnn.tables.column_types import convert_column
from tfx_gnn.tables.row_rules import RowProblem, RowRules, TableReport, check_dropped_share
from tfx_gnn.tables.table_format import RawBlock, TableFormat, table_format
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY, CellProblem, TableColumn, TableLayout

_NO_ROWS = np.zeros(0, np.int64)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableUnit:
    """A part of a table that one worker reads alone.

    Attributes:
        path: file.
        part: number of the unit in that file, as numbered by the format.
        index: position among the units of the table; rows are counted in this order.
    """

    path: str
    part: int
    index: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableBlock:
    """Some rows of a unit, converted to their types; each row is checked by itself.

    Attributes:
        columns: by key of the layout, arrays of `TableColumn.arrow_type`, shape
            [num_rows], without nulls.
        unit: `TableUnit.index`.
        rows: int64 array, shape [num_rows]: positions in the unit, ascending.
        num_rows_read: records of the block: `num_rows` and one per problem.
        problems: rows that were left out.
    """

    columns: Mapping[str, pa.Array]
    unit: int
    rows: npt.NDArray[np.int64]
    num_rows_read: int
    problems: tuple[RowProblem, ...] = ()

    @property
    def num_rows(self) -> int:
        """Number of rows that can be used."""
        return len(self.rows)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """A whole table in memory.

    Attributes:
        layout: what was read.
        columns: by key of the layout, arrays of `TableColumn.arrow_type`, shape
            [num_rows], without nulls.
        rows: int64 array, shape [num_rows]: positions over all files, counting every
            record, including dropped ones.
        units: units in the order of their rows.
        unit_starts: int64 array, shape [num_units + 1]: row at which each unit begins.
        report: counts of rows read, used and dropped.
        problems: rows that were dropped.
    """

    layout: TableLayout
    columns: Mapping[str, pa.Array]
    rows: npt.NDArray[np.int64]
    units: tuple[TableUnit, ...]
    unit_starts: npt.NDArray[np.int64]
    report: TableReport
    problems: tuple[RowProblem, ...]

    @property
    def num_rows(self) -> int:
        """Number of rows that can be used."""
        return len(self.rows)

    def locate(self, rows: npt.NDArray[np.int64]) -> list[tuple[str, int]]:
        """Returns the file and the number in it, in `row_word`s, of rows at ascending positions as in `Table.rows`."""
        places: list[tuple[str, int]] = []
        reader = table_format(self.layout)
        bounds = np.searchsorted(rows, self.unit_starts)
        for unit, start, stop in zip(self.units, bounds[:-1], bounds[1:], strict=True):
            if start < stop:
                in_unit = (rows[start:stop] - self.unit_starts[unit.index]).tolist()
                places += [(unit.path, number) for number in reader.locate(unit.path, unit.part, in_unit)]
        return places


def list_units(layout: TableLayout) -> tuple[TableUnit, ...]:
    """Lists the units of a table in the order in which its rows are counted, at least one for each file."""
    reader = table_format(layout)
    # A BigQuery table has no files, only a name; its format refuses to list units.
    parts = [(path, part) for path in layout.files or (layout.declared_as,) for part in reader.list_units(path)]
    return tuple(TableUnit(path=path, part=part, index=index) for index, (path, part) in enumerate(parts))


def read_unit(layout: TableLayout, unit: TableUnit, rules: RowRules) -> Iterator[TableBlock]:
    """Reads a unit of a table in blocks of at most `MAX_BLOCK_ROWS` rows, converts types and checks each row by itself.

    Only `rules.invalid_rows` matters here: the caller adds up the dropped rows and checks their number. A block
    may have no rows. An error names the file, the row and the rule.
    """
    reader = table_format(layout)
    names = {
        key: reader.resolve_column(unit.path, column) for key, column in layout.columns.items() if not column.packed_in
    }
    for packed in layout.decoders:
        names[packed] = reader.resolve_column(unit.path, TableColumn(name=packed, dtype=pa.large_string()))
    for raw in reader.read_raw_blocks(unit.path, unit.part, sorted(set(names.values()))):
        yield type_block(layout, unit, rules, reader=reader, raw=raw, names=names)


def type_block(
    layout: TableLayout,
    unit: TableUnit,
    rules: RowRules,
    *,
    reader: TableFormat,
    raw: RawBlock,
    names: Mapping[str, str],
) -> TableBlock:
    """Converts the columns of a block to their types and checks each row by itself; see `read_unit`.

    `names` maps keys of the layout to column names in the file; the key of a decoder's column is its declared name.
    """
    problems: dict[int, CellProblem] = {}  # by position in the block; only the first problem of a row counts

    def note(found: Iterable[CellProblem]) -> None:
        for problem in found:
            problems.setdefault(problem.row, problem)

    def convert(array: pa.Array, column: TableColumn, name: str) -> pa.Array:
        values, found = convert_column(array, column, name=name, path=unit.path, missing_value=reader.missing_value)
        note(found)
        return values

    columns: dict[str, pa.Array] = {}
    unpacked: dict[tuple[str, str], pa.Array] = {}
    for packed, decoder in layout.decoders.items():
        text_column = TableColumn(name=packed, dtype=pa.large_string())
        texts = convert(raw.columns.column(names[packed]), text_column, names[packed])
        features, found = decoder.decode(texts.fill_null(""))
        note(found)
        unpacked.update({(packed, feature): array for feature, array in features.items()})
    for key, column in layout.columns.items():
        if column.packed_in:
            array, name = unpacked[column.packed_in, column.name], f"{column.packed_in}:{column.name}"
        else:
            array, name = raw.columns.column(names[key]), names[key]
        columns[key] = convert(array, column, name)
        if key in (ID_FEATURE, SOURCE_KEY, TARGET_KEY):
            note(_empty_ids(columns[key], name))
    rows = raw.rows
    if problems:
        is_good = np.ones(len(rows), np.bool_)
        is_good[list(problems)] = False
        columns = {key: array.filter(pa.array(is_good)) for key, array in columns.items()}
        rows = rows[is_good]
    cell_problems = [
        *raw.problems,
        *(dataclasses.replace(problem, row=int(raw.rows[row])) for row, problem in problems.items()),
    ]
    cell_problems.sort(key=lambda problem: problem.row)
    if cell_problems and rules.invalid_rows == "refuse":
        raise ValueError(_place_problems(layout, unit, reader, cell_problems[:1])[0].message)
    return TableBlock(
        columns=columns,
        unit=unit.index,
        rows=rows,
        num_rows_read=raw.num_rows_read,
        problems=_place_problems(layout, unit, reader, cell_problems),
    )


class TableScan:
    """Reads a table once, block by block in the order of its files, and counts its rows.

    Attributes:
        units: units in the order of their rows.
        problems: rows that were dropped so far.
    """

    def __init__(self, layout: TableLayout, rules: RowRules | None = None) -> None:
        """Lists the units; by default any row that breaks a rule is an error."""
        self._layout = layout
        self._rules = rules or RowRules()
        self.units = list_units(layout)
        self.problems: list[RowProblem] = []
        self._unit_sizes = np.zeros(len(self.units) + 1, np.int64)
        self._num_used = 0

    @property
    def unit_starts(self) -> npt.NDArray[np.int64]:
        """int64 array, shape [num_units + 1]: row at which each unit begins; correct up to the last block's unit."""
        return np.cumsum(self._unit_sizes)

    def blocks(self) -> Iterator[tuple[TableBlock, npt.NDArray[np.int64]]]:
        """Yields the blocks, with the positions of their rows over all files, counting every record."""
        for unit in self.units:
            start = int(self._unit_sizes.sum())
            for block in read_unit(self._layout, unit, self._rules):
                self._unit_sizes[unit.index + 1] += block.num_rows_read
                self._num_used += block.num_rows
                self.problems += block.problems
                yield block, block.rows + start

    def report(self) -> TableReport:
        """Counts the rows, after the last block; see `count_scanned`."""
        return count_scanned(
            self._layout,
            self._rules,
            num_read=int(self._unit_sizes.sum()),
            num_used=self._num_used,
            dropped=collections.Counter(problem.rule for problem in self.problems),
            first_problem=self.problems[0].message if self.problems else "",
        )


def count_scanned(
    layout: TableLayout,
    rules: RowRules,
    *,
    num_read: int,
    num_used: int,
    dropped: Mapping[str, int],
    first_problem: str,
) -> TableReport:
    """Returns the counts of a table whose rows were checked by themselves; `first_problem` is a message.

    It is an error if more rows were dropped than the rules allow, or all of them.
    """
    if not num_read and layout.kind not in ("node", "edge"):
        raise no_records(layout)
    report = TableReport(table=layout.label, rows_read=num_read, rows_used=num_used, dropped=dict(dropped))
    check_dropped_share(report, rules)
    if report.rows_read and not num_used:
        raise ValueError(
            f"`{layout.label}` must have at least one usable row; got none, after {report.rows_read} were "
            f"dropped: {dict(report.dropped)}. The first: {first_problem}"
        )
    return report


def read_table(layout: TableLayout, rules: RowRules | None = None) -> Table:
    """Reads a whole table in the order of its files; by default any row that breaks a rule is an error.

    It is also an error if more rows are dropped than the rules allow, or all of them.
    """
    scan = TableScan(layout, rules)
    blocks = list(scan.blocks())
    report = scan.report()
    return Table(
        layout=layout,
        columns={
            key: _concatenate([block.columns[key] for block, _ in blocks], column.arrow_type)
            for key, column in layout.columns.items()
        },
        rows=np.concatenate([_NO_ROWS, *(rows for _, rows in blocks)]),
        units=scan.units,
        unit_starts=scan.unit_starts,
        report=report,
        problems=tuple(scan.problems),
    )


def no_records(layout: TableLayout) -> ValueError:
    """Returns the error for a table without records; node and edge tables may be empty if nothing refers to them."""
    only_header = "a header line only" if layout.format == "csv" else "none"
    return ValueError(
        f"`{layout.files[0] if len(layout.files) == 1 else layout.declared_as}` must hold at least one record; "
        f"got {only_header}. Fill the table, or remove it from the graph schema."
    )


def _concatenate(arrays: Sequence[pa.Array], dtype: pa.DataType) -> pa.Array:
    filled = [array for array in arrays if len(array)]
    if not filled:
        return pa.array([], dtype)
    return filled[0] if len(filled) == 1 else pa.concat_arrays([array.cast(dtype) for array in filled])


def _place_problems(
    layout: TableLayout, unit: TableUnit, reader: TableFormat, problems: Sequence[CellProblem]
) -> tuple[RowProblem, ...]:
    if not problems:
        return ()
    numbers = reader.locate(unit.path, unit.part, [problem.row for problem in problems])
    return tuple(
        RowProblem(
            table=layout.label,
            file=unit.path,
            row=number,
            row_word=reader.row_word,
            rule=problem.rule,
            column=problem.column,
            requirement=problem.requirement,
            value=problem.value,
            advice=problem.advice,
        )
        for problem, number in zip(problems, numbers, strict=True)
    )


def _empty_ids(ids: pa.Array, name: str) -> Iterator[CellProblem]:
    if not pa.types.is_large_string(ids.type):
        return
    is_empty = pc.fill_null(pc.equal(ids, ""), fill_value=False).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(is_empty).tolist():
        yield CellProblem(
            row=row,
            rule=row_rules.EMPTY_ID,
            column=name,
            requirement="be an id",
            value="the empty text",
            advice="Give every node a name of its own.",
        )
