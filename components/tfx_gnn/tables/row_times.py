"""When each row of a database came to be.

A row has the time of its own column of times; a table without one has the latest time of the rows that its foreign keys
name, because a row cannot be older than what it names. So order lines have the time of their order.

Of several columns of times, that of the row is the first: what is due, shipped or changed comes after it. A time may
also be in parts, in the columns year, month, day and hour.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.column_values import ColumnValues, as_texts, parse_times
from tfx_gnn.tables.keys.database import Database, ForeignKey, joined_key, key_texts
from tfx_gnn.tables.keys.table_roles import FoundTable
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_names import names_other_time, names_time, names_year, words_of
from tfx_gnn.tables.whole_blocks import whole_blocks

SECONDS, _MICROS = pa.timestamp("s"), pa.timestamp("us")
FIRST_SECOND, LAST_SECOND = 315_532_800, 4_102_444_800
"""The years 1980 and 2100, between which whole numbers that are named as times are seconds since 1970."""
_EPOCHS = {unit: LAST_SECOND * 1_000**power for power, unit in enumerate(("s", "ms", "us", "ns"))}
"""The year 2100 in units of time."""
_DAY = r"^((?:19|20)[0-9]{2})([0-9]{2})([0-9]{2})$"
_DAY_WORDS = frozenset({"date", "day", "dt", "ymd", "yyyymmdd"})
_LEAST_TO_ASK = 5
"""Different numbers that are days, below which they may be so by chance."""
_LEAST_OF_TIMES = 2
"""A column of one time in all rows tells nothing; one of a time in some rows, as when they were deleted, does."""
_LEAST_KNOWN = 0.5
"""Share of the rows that have a value in a column of their times."""
_FIRST_YEAR, _LAST_YEAR = 1800, 2100
_PARTS = {"year": (_FIRST_YEAR, _LAST_YEAR), "month": (1, 12), "day": (1, 31), "hour": (0, 23)}
"""Columns that together are a time, and the range of each; there need be no hour."""
_DAY_SECONDS = 86_400
_LEAST_FIRST = 0.99
"""Share of the rows in which the first of several times is not after the others."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowTimes:
    """When each row came to be.

    Attributes:
        columns: by table, its own column with the times of its rows.
        by_row: by table, the times of its rows, timestamp[s] [num_rows]; null where none is known. Tables that are not
            in it have no times: their rows are always there.
        in_parts: by table, the columns that together are the times of its rows.
        inherited: tables without a column of their own, and the tables that their rows have the times of.
        undecided: by table, its columns of times, where none of several comes first. Rows have the latest of them, but
            for those of the label's table, whose times stay open.
        remarks: what was decided, a sentence each.
    """

    columns: Mapping[str, str]
    by_row: Mapping[str, pa.Array]
    in_parts: Mapping[str, tuple[str, ...]]
    inherited: Mapping[str, tuple[str, ...]]
    undecided: Mapping[str, tuple[str, ...]]
    remarks: tuple[str, ...]
    _named: Mapping[ForeignKey, pa.Array]

    def of_edges(self, key: ForeignKey) -> pa.Array | None:
        """Tells when the edges of a foreign key came to be: with its row, or the row that it names if that is later.

        Returns:
            timestamp[s] [num_rows], null where the row's own time is not known; None if no table has times. A row that
            is named, and whose time is not known, was there when it was named.
        """
        return self._not_before(key.table, [self._named[key]] if key in self._named else [])

    def of_edge_table(self, name: str) -> pa.Array | None:
        """Tells when the edges of an edge table came to be: with their row, or a node that they join if that is later.

        Returns:
            timestamp[s] [num_rows], null where the row's own time is not known; None if no table has times.
        """
        return self._not_before(name, [times for key, times in self._named.items() if key.table == name])

    def _not_before(self, name: str, named: Sequence[pa.Array]) -> pa.Array | None:
        of_rows = self.by_row.get(name)
        if of_rows is None or not named:
            return of_rows
        return pc.if_else(of_rows.is_valid(), _latest([of_rows, *named]), pa.scalar(None, of_rows.type))

    def is_part(self, table: str) -> bool:
        """Whether a table without times of its own is named as a part of one that it names, as `order_items` is."""
        words = words_of(table)
        return any(
            len(words) > len(words_of(one)) and words[: len(words_of(one))] == words_of(one)
            for one in self.inherited.get(table, ())
        )


def find_row_times(
    database: Database, tables_dir: str, *, label: tuple[str, str] = ("", ""), access: TableAccess | None = None
) -> RowTimes:
    """Finds when each row came to be.

    Takes memory for the times of all rows, and for the ids of tables that others name, one foreign key at a time.

    Args:
        database: how the tables refer to each other.
        tables_dir: their folder.
        label: table and column of the label, which is no time of its rows.
        access: the largest record, and whether links may lead out of the folder.

    Raises:
        ValueError: if a table cannot be read.
    """
    finder = _Finder(database, tables_dir, label, access or TableAccess())
    return finder.find()


class _Finder:
    def __init__(self, database: Database, tables_dir: str, label: tuple[str, str], access: TableAccess) -> None:
        self._database = database
        self._label = label
        self._tables_dir = tables_dir
        self._access = access
        self._columns: dict[str, str] = {}
        self._by_row: dict[str, pa.Array] = {}
        self._in_parts: dict[str, tuple[str, ...]] = {}
        self._inherited: dict[str, tuple[str, ...]] = {}
        self._undecided: dict[str, tuple[str, ...]] = {}
        self._remarks: list[str] = []
        self._named: dict[ForeignKey, pa.Array] = {}
        self._visited: set[str] = set()

    def find(self) -> RowTimes:
        """Reads the times that tables have, then finds those of tables that name them."""
        graph_tables = {**self._database.keys, **self._database.edges}
        for name in graph_tables:
            self._find_own(self._database.tables[name])
        for name in graph_tables:
            self._inherit(name)
        return RowTimes(
            columns=self._columns,
            by_row=self._by_row,
            in_parts=self._in_parts,
            inherited=self._inherited,
            undecided=self._undecided,
            remarks=tuple(self._remarks),
            _named=self._named,
        )

    def _find_own(self, table: FoundTable) -> None:
        self._remarks += _day_remarks(table)
        label = self._label[1] if table.name == self._label[0] else ""
        names = row_time_columns(table, label=label)
        if not names:
            parts = time_parts(table, label=label)
            if parts:
                self._in_parts[table.name] = parts
                self._by_row[table.name] = _joined_parts(self._read(table.name, parts, texts_of))
                self._remarks.append(f"{', '.join(parts)} of {table.name} are the time of its rows, in parts.")
            return
        is_of_label = table.name == self._label[0]
        exact = self._read(table.name, names, _as_times)
        times = {name: as_seconds(one, is_of_label=is_of_label) for name, one in exact.items()}
        self._remarks += _fraction_remarks(table.name, exact, is_of_label=is_of_label)
        first = first_time(names, lambda name, other: _compare(times[name], times[other]))
        if not first:
            self._undecided[table.name] = tuple(names)
            if not is_of_label:
                # Nothing of a row is seen too early.
                self._by_row[table.name] = _latest(list(times.values()))
            return
        if len(names) > 1:
            self._remarks.append(describe_first_time(table.name, first, names))
        self._columns[table.name] = first
        self._by_row[table.name] = times[first]

    def _inherit(self, name: str) -> None:
        """Finds the times of the rows that the keys of a table name, and of its own rows if it has none."""
        if name in self._visited:
            return
        self._visited.add(name)
        keys = [key for key in self._database.foreign_keys if key.table == name]
        for key in keys:
            if key.node_set in self._database.keys:
                self._inherit(key.node_set)
        timed = [key for key in keys if key.node_set in self._by_row]
        for key in timed:
            self._named[key] = self._times_of_named(key)
        if timed and name not in self._by_row:
            self._by_row[name] = _latest([self._named[key] for key in timed])
            self._inherited[name] = tuple(dict.fromkeys(key.node_set for key in timed))
            self._remarks.append(
                f"{name} has no time of its own: a row of it is there as soon as what it names, of "
                f"{' and '.join(self._inherited[name])}."
            )

    def _times_of_named(self, key: ForeignKey) -> pa.Array:
        own = (key.target_column,) if key.target_column else self._database.keys[key.node_set]
        ids = self._joined(key.node_set, own)
        positions = pc.index_in(self._joined(key.table, key.columns), value_set=ids)
        return self._by_row[key.node_set].take(positions)

    def _joined(self, name: str, columns: Sequence[str]) -> pa.Array:
        found = self._read(name, columns, texts_of)
        return key_texts(found[columns[0]]) if len(columns) == 1 else joined_key(list(found.values()))

    def _read(self, name: str, columns: Sequence[str], spell: Callable[[pa.Array], pa.Array]) -> dict[str, pa.Array]:
        parts: dict[str, list[pa.Array]] = {column: [] for column in columns}
        for block in whole_blocks(self._database.tables[name], self._tables_dir, self._access):
            for column, of_column in parts.items():
                of_column.append(spell(block[column]))
        return {column: pa.concat_arrays(of_column) for column, of_column in parts.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TimeOrder:
    """How the times of one column lie beside those of another.

    Attributes:
        num_unknown: rows that have only the other one.
        num_both: rows that have both.
        num_not_after: those of them in which this one is not after the other.
    """

    num_unknown: int
    num_both: int
    num_not_after: int

    @property
    def is_first(self) -> bool:
        """Whether the times are hardly ever after the others, and known wherever the others are."""
        return not self.num_unknown and self.num_not_after >= _LEAST_FIRST * self.num_both


def first_time(names: Sequence[str], compare: Callable[[str, str], TimeOrder]) -> str:
    """Finds the column, of several with times, that is the time of the rows; "" if none comes first.

    Args:
        names: the columns, each with several times.
        compare: counts how the times of one of them lie beside those of another.
    """
    return next((name for name in names if all(name == other or compare(name, other).is_first for other in names)), "")


def describe_first_time(table: str, first: str, names: Sequence[str]) -> str:
    """Says which of several columns is the time of the rows, and why."""
    later = ", ".join(name for name in names if name != first)
    return (
        f"{table}.{first} is the time of its rows: it is not after {later} in {_LEAST_FIRST:.0%} of them. Of a time "
        "that comes after its own, a seed sees nothing but that."
    )


def _joined_parts(parts: Mapping[str, pa.Array]) -> pa.Array:
    """Joins years, months, days and maybe hours to times, timestamp[s] [num_rows]."""
    year, month, day, *hours = (key_texts(one).cast(pa.int64()).to_numpy() for one in parts.values())
    first = ((year - 1970) * 12 + month - 1).astype("datetime64[M]").astype("datetime64[s]")
    seconds = first.astype(np.int64) + (day - 1) * _DAY_SECONDS + sum(3_600 * hour for hour in hours)
    return pa.array(seconds).cast(SECONDS)


def _compare(times: pa.Array, other: pa.Array) -> TimeOrder:
    is_not_after = pc.less_equal(times, other).drop_null()
    return TimeOrder(
        num_unknown=int(pc.sum(pc.and_(other.is_valid(), times.is_null())).as_py() or 0),
        num_both=len(is_not_after),
        num_not_after=int(pc.sum(is_not_after).as_py() or 0),
    )


def _latest(times: Sequence[pa.Array]) -> pa.Array:
    return times[0] if len(times) == 1 else pc.max_element_wise(*times)


def texts_of(array: pa.Array) -> pa.Array:
    """Spells the values of a column that holds keys, large_string [num_rows]."""
    texts = as_texts(array, "a key")
    assert texts is not None, array.type
    return texts


def as_seconds(times: pa.Array, *, is_of_label: bool) -> pa.Array:
    """Leaves out zones (none is UTC) and fractions; only the label's table is not rounded up: nothing is early."""
    exact = _as_times(times)
    return _full_seconds(exact) if is_of_label else _next_seconds(exact)


def _full_seconds(times: pa.Array) -> pa.Array:
    return times.cast(SECONDS, safe=False)


def _next_seconds(times: pa.Array) -> pa.Array:
    """Takes the next full second instead of a fraction, so that nothing is seen too early."""
    seconds = _full_seconds(times)
    is_after = pc.greater(times, seconds.cast(times.type))
    return pc.add(seconds.cast(pa.int64()), is_after.cast(pa.int64())).cast(SECONDS)


def _fraction_remarks(table: str, exact: Mapping[str, pa.Array], *, is_of_label: bool) -> Iterator[str]:
    """Says what becomes of fractions of seconds, which graphs do not have."""
    for name, times in exact.items():
        if num_rows := pc.sum(pc.not_equal(_full_seconds(times), _next_seconds(times))).as_py():
            becomes = f"left out: rows of {table} in one second see each other" if is_of_label else "rounded up"
            yield f"{table}.{name} has fractions of seconds in {num_rows:,} rows, which are {becomes}."


def _as_times(times: pa.Array) -> pa.Array:
    if not pa.types.is_temporal(times.type):
        texts = key_texts(texts_of(times))
        parsed = parse_times(texts)
        parsed = _parse_days(texts) if parsed is None else parsed
        times = _since_1970(texts) if parsed is None else parsed
    return times.cast(_MICROS, safe=False)


def _parse_days(texts: pa.Array) -> pa.Array | None:
    """Reads days that are spelled as 20240131; None if one text is something else."""
    known = texts.drop_null()
    if not len(known) or not pc.all(pc.match_substring_regex(known, _DAY)).as_py():
        return None
    return parse_times(pc.replace_substring_regex(texts, _DAY, r"\1-\2-\3"))


def _are_days(column: ColumnValues) -> bool:
    return _parse_days(key_texts(column.values)) is not None


def _names_day(name: str) -> bool:
    return names_time(name) or not _DAY_WORDS.isdisjoint(words_of(name))


def _day_remarks(table: FoundTable) -> Iterator[str]:
    """Says which integers are taken for days."""
    for name, evidence in _evidence_of_days(table):
        if _names_day(name):
            yield f"{table.name}.{name} holds dates: {evidence}."


def day_questions(table: FoundTable) -> Iterator[str]:
    """Asks about integers that may be days and are not named so."""
    for name, evidence in _evidence_of_days(table):
        if not _names_day(name) and table.columns[name].num_distinct >= _LEAST_TO_ASK:
            yield (
                f"{table.name}.{name} holds numbers, but {evidence}. Are they dates? Then name the column "
                f"{name}_date, and run this again."
            )


def _evidence_of_days(table: FoundTable) -> Iterator[tuple[str, str]]:
    for name, column in table.columns.items():
        if column.num_distinct >= _LEAST_OF_TIMES and _are_days(column):
            example = column.values[0].as_py()
            yield name, f"all {column.num_distinct:,} different numbers are days of the calendar, as {example}"


def _since_1970(texts: pa.Array) -> pa.Array:
    """Reads whole numbers as seconds, as milliseconds or microseconds, which are larger, or as years, which are not."""
    exact = texts.cast(pa.float64())
    numbers = pc.floor(exact).cast(pa.int64())
    bounds = pc.min_max(numbers).as_py()
    if bounds["max"] is not None and bounds["min"] >= _FIRST_YEAR and bounds["max"] <= _LAST_YEAR:
        days = pc.binary_join_element_wise(numbers.cast(pa.string()), "01-01", "-")
        return pc.strptime(days, format="%Y-%m-%d", unit="s")
    largest = bounds["max"] or 0
    unit = next(unit for unit, end in _EPOCHS.items() if largest < end)
    return (
        pc.floor(pc.multiply(exact, 1e6)).cast(pa.int64()).cast(_MICROS)
        if unit == "s"
        else numbers.cast(pa.timestamp(unit))
    )


def time_columns(table: FoundTable, *, label: str = "") -> tuple[str, ...]:
    """Lists the columns of a table that hold times: dates, time stamps, and numbers that are named so.

    Numbers are times since 1970, or days spelled as 20240131. A year is one if nothing else tells when the rows came to
    be, and it is not the label.
    """
    found = clock_columns(table)
    return (*found, *(name for name in row_time_columns(table, label=label) if name not in found))


def clock_columns(table: FoundTable) -> tuple[str, ...]:
    """Lists the columns that hold dates or time stamps, without years; all rows with the same tell nothing."""
    return tuple(
        name
        for name, column in table.columns.items()
        if column.num_distinct > 0
        and (column.num_distinct >= _LEAST_OF_TIMES or column.num_filled < column.num_rows)
        and (
            column.holds_times or (names_time(name) and _are_epochs(column)) or (_names_day(name) and _are_days(column))
        )
    )


def row_time_columns(table: FoundTable, *, label: str = "") -> tuple[str, ...]:
    """Lists the columns that may hold the time of each row, but for the label.

    It is the declared one. Others must be known in half of the rows: what is not, such as when an order was canceled,
    came later. Nor may they be named after another time, such as a birth. Without any, a year is the best there is.
    """
    if table.declared.is_timeless:
        return ()
    if table.declared.time_column:
        return (table.declared.time_column,)
    times = tuple(name for name in clock_columns(table) if _is_of_rows(table, name))
    if not times and not time_parts(table, label=label):
        times = _years(table)
    return tuple(name for name in times if name != label)


def time_parts(table: FoundTable, *, label: str = "") -> tuple[str, ...]:
    """Lists the columns year, month, day and, if there is one, hour, which together are the times of rows.

    Every row has all of them. Empty if they are not there, one is the label, or a column has the times.
    """
    by_name = {name.casefold(): name for name in table.columns}
    parts = tuple(by_name[part] for part in _PARTS if part in by_name)
    is_known = table.declared.is_timeless or bool(table.declared.time_column)
    has_others = any(_is_of_rows(table, name) for name in clock_columns(table))
    if is_known or has_others or label in parts or not {*_PARTS} - {"hour"} <= {*by_name}:
        return ()
    columns = {name: table.columns[name] for name in parts}
    are_parts = all(
        column.num_filled == column.num_rows and _are_whole(column, *_PARTS[name.casefold()])
        for name, column in columns.items()
    )
    return parts if are_parts and any(column.num_distinct > 1 for column in columns.values()) else ()


def _are_whole(column: ColumnValues, first: int, last: int) -> bool:
    """Whether all values are whole numbers in a range."""
    numbers = column.numbers()
    if numbers is None or not len(numbers):
        return False
    bounds = pc.min_max(numbers).as_py()
    return (
        bool(pc.all(pc.equal(numbers, pc.floor(numbers))).as_py()) and first <= bounds["min"] <= bounds["max"] <= last
    )


def _is_of_rows(table: FoundTable, name: str) -> bool:
    column = table.columns[name]
    is_known = column.num_filled >= _LEAST_KNOWN * column.num_rows
    return is_known and column.num_distinct >= _LEAST_OF_TIMES and not names_other_time(name)


def _years(table: FoundTable) -> tuple[str, ...]:
    found = [
        name
        for name, column in table.columns.items()
        if names_year(name)
        and _is_of_rows(table, name)
        and column.num_distinct >= _LEAST_OF_TIMES
        and _are_years(column)
    ]
    return (found[0],) if found else ()


def _are_years(column: ColumnValues) -> bool:
    return _are_whole(column, _FIRST_YEAR, _LAST_YEAR)


def may_be_times(column: ColumnValues) -> bool:
    """Whether values can be times: dates, time stamps, seconds since 1970, days such as 20240131, or years."""
    return column.holds_times or _are_epochs(column) or _are_days(column) or _are_years(column)


def _are_epochs(column: ColumnValues) -> bool:
    """Whether all values are times since 1970, none before 1980, in one unit."""
    numbers = column.numbers()
    if numbers is None:
        return False
    bounds = pc.min_max(numbers).as_py()
    return any(end * FIRST_SECOND // LAST_SECOND <= bounds["min"] and bounds["max"] < end for end in _EPOCHS.values())
