"""Chooses primary keys: a column that tells the rows of a table apart, and that its name or references call a key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tfx_gnn.tables.key_columns import LEAST_BY_VALUES, LEAST_NAMED, KeyColumn
from tfx_gnn.tables.table_names import ends_with, says_id, says_key, says_reference, without_key_word


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
