"""Primary keys: the column, or the columns together, that tell the rows of a table apart, and are meant to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.keys.database import ForeignKey, joined_key
from tfx_gnn.tables.keys.key_columns import LEAST_BY_VALUES, LEAST_NAMED, KeyColumn
from tfx_gnn.tables.table_names import ends_with, says_id, says_key, says_reference, without_key_word

_MOST_COLUMNS = 4
_MOST_SHARED_NAMES = 8
_LEAST_OF_RIVALS = 4
"""Evidence for a key, see `_evidence`, below which another column with as much is not worth a word."""

_LEAST_OF_KEY = 0.95
"""A column that is named as the key of its table, and has so many different values by row, was meant to be it."""

ReadTexts = Callable[[str, Sequence[str]], Mapping[str, pa.Array]]
"""Reads columns of a table, row by row, as texts."""


def choose_primary_key(
    table: str, columns: Iterable[KeyColumn], others: Iterable[KeyColumn], tables: Mapping[str, Sequence[str]]
) -> str:
    """Chooses the column whose values are the ids of the rows of a table.

    No two rows have the same value, and the column is named after the table, or columns of other tables refer to it by
    name and values, or its name says that it is a key. That no two values are equal is not enough: titles and amounts
    are so by chance. A column that is named after another table refers to that one.

    Args:
        table: name of the table.
        columns: its columns.
        others: the columns of all other tables.
        tables: the words of the names of all tables.

    Returns:
        The name of the column; "" if there is none.
    """
    others = tuple(others)
    best, least = "", (0, 0)
    for column in columns:
        if column.has_key_values and column.values.is_key and not _is_named_after_other(column, table, tables):
            evidence = _evidence(tables[table], column, others)
            if evidence > least:
                best, least = column.name, evidence
    return best


def find_rival_keys(
    key: str, table: str, columns: Iterable[KeyColumn], others: Iterable[KeyColumn], tables: Mapping[str, Sequence[str]]
) -> list[str]:
    """Lists the columns for which as much speaks as for the key that was chosen, because they are named as keys, too.

    Args:
        key: the column that was chosen.
        table: name of the table.
        columns: its columns.
        others: the columns of all other tables.
        tables: the words of the names of all tables.
    """
    others = tuple(others)
    evidence = {
        column.name: _evidence(tables[table], column, others)
        for column in columns
        if column.has_key_values and column.values.is_key and not _is_named_after_other(column, table, tables)
    }
    most = evidence.get(key, (0, 0))
    return [name for name, of_one in evidence.items() if name != key and of_one == most and most[0] >= _LEAST_OF_RIVALS]


def ask_about_repeated_key(column: KeyColumn) -> str:
    """Says so if few rows keep a column, which is named as the key of its table, from being it; "" otherwise."""
    values, place = column.values, f"{column.table}.{column.name}"
    is_meant = column.may_be_key and not values.is_sample and values.num_distinct < values.num_rows
    if not is_meant or values.num_distinct < _LEAST_OF_KEY * values.num_rows:
        return ""
    repeated = values.values.filter(pc.greater(values.counts, 1))
    example = f", such as {repeated[0].as_py()!r} in several" if len(repeated) else ""
    return (
        f"{place} is named as the key of {column.table}, but has only {values.num_distinct:,} different values in "
        f"{values.num_rows:,} rows{example}: nothing refers to {column.table} by it. Correct these rows if it should "
        "be the key."
    )


def find_composite_key(
    table: str,
    columns: Mapping[str, KeyColumn],
    others: Mapping[str, Mapping[str, KeyColumn]],
    read_texts: ReadTexts,
    known: tuple[str, ...] = (),
) -> tuple[ForeignKey, ...]:
    """Finds two to four columns that tell the rows of a table apart, and to which other tables refer by name.

    Args:
        table: name of the table.
        columns: its columns by name.
        others: the columns of the other tables that hold nodes.
        read_texts: reads columns of a table.
        known: the key's columns, if they are known: no others are tried.

    Returns:
        What refers to the key, whose columns are those of each; none if there is no such key.
    """
    found: list[ForeignKey] = []
    for other, theirs in others.items():
        shared = [
            name
            for name, column in columns.items()
            if column.has_key_values and name in theirs and theirs[name].has_key_values
        ][:_MOST_SHARED_NAMES]
        if known:
            shared = [name for name in known if name in shared]
        best = max(
            _told_by_fewest(table, columns, other, shared, read_texts),
            key=lambda key: (key.num_known, -len(key.columns)),
            default=None,
        )
        if best is not None and (not known or best.columns == known):
            known = best.columns
            found.append(best)
    return tuple(found)


def _is_named_after_other(column: KeyColumn, table: str, tables: Mapping[str, Sequence[str]]) -> bool:
    own = without_key_word(column.words)
    if not says_key(column.name) or ends_with(own, tables[table]):
        return False
    return any(ends_with(own, words) for name, words in tables.items() if name != table)


def _evidence(words: Sequence[str], column: KeyColumn, others: Iterable[KeyColumn]) -> tuple[int, int]:
    """Grades what speaks for a key; (0, 0) if nothing does. The first of equal columns wins."""
    num_references = sum(_refers(one, column, words) for one in others)
    if column.values.holds_times:
        return (1, num_references) if num_references else (0, 0)
    is_key, is_id = says_key(column.name), says_id(column.name)
    if is_key and without_key_word(column.key_words) == list(words):
        return 7, num_references
    if num_references and (is_key or not column.is_number):
        return 6, num_references
    if is_key and ends_with(words, without_key_word(column.key_words)):
        return 5, num_references
    if is_id and is_key:
        return 4, num_references
    # A small number, such as a position or a line, tells rows apart by chance.
    return (3, num_references) if is_key and not column.is_small else (2 * (num_references > 0), num_references)


def _refers(column: KeyColumn, key: KeyColumn, words: Sequence[str]) -> bool:
    """Whether a column of another table, in which values repeat, refers to a key by name, or by values that tell."""
    if not column.has_key_values or column.values.is_key or column.values.holds_times != key.values.holds_times:
        return False
    if column.values.holds_times:
        return column.is_named_after_key(key) and column.share_in(key) >= LEAST_BY_VALUES
    # Of small numbers, only those that are named as keys are meant.
    is_meant = not key.is_small or says_reference(key.name) or without_key_word(key.key_words) == list(words)
    if is_meant and (column.is_named_after_key(key) or column.is_named_after(words)):
        return column.share_in(key) >= LEAST_NAMED and not column.may_be_other_than(key)
    return column.is_telling and not key.is_number and column.share_in(key) >= LEAST_BY_VALUES


def _told_by_fewest(
    table: str, columns: Mapping[str, KeyColumn], other: str, shared: Sequence[str], read_texts: ReadTexts
) -> Iterator[ForeignKey]:
    """Yields the keys of the fewest columns that there are."""
    num_rows = max((column.values.num_rows for column in columns.values()), default=0)
    tried = [
        names
        for size in range(2, _MOST_COLUMNS + 1)
        for names in itertools.combinations(shared, size)
        if math.prod(columns[name].values.num_distinct for name in names) >= num_rows > 0
    ]
    if not tried:
        return
    here, there = read_texts(table, shared), read_texts(other, shared)
    fewest = _MOST_COLUMNS
    for names in tried:
        if len(names) > fewest:
            return
        keys = joined_key([here[name] for name in names])
        if keys.null_count or len(pc.unique(keys)) < len(keys):
            continue
        refer = joined_key([there[name] for name in names])
        num_known = int(pc.sum(pc.is_in(refer.drop_null(), value_set=keys)).as_py() or 0)
        if num_known < LEAST_BY_VALUES * max(len(refer) - refer.null_count, 1):
            continue
        fewest = len(names)
        yield ForeignKey(
            table=other,
            columns=names,
            node_set=table,
            num_rows=len(refer),
            num_null=refer.null_count,
            num_known=num_known,
            reason="columns of the same names, which tell its rows apart",
        )
