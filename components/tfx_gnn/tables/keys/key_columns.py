"""A column that may be a key or refer to one: what its values and the words of its name tell."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.column_values import ColumnValues
from tfx_gnn.tables.table_names import ends_with, says_count, says_key, short_prefix, without_key_word, words_of

LEAST_NAMED = 0.5
"""Share of the values that are keys, from which on a column refers to the table that it is named after."""
LEAST_BY_VALUES = 0.9
"""Share of a column's values that are keys of a table, from which on it may refer to it whatever its name."""
_LEAST_OF_VAGUE = 0.5
"""Integers whose name does not say that they are keys refer to a table if so large a share of its keys occurs."""
_LEAST_LENGTH = 3
"""Shorter texts, such as Y and N or codes of two letters, are keys of any table by chance."""
_GENERIC_WORDS = frozenset({"code", "id", "index", "key", "name", "no", "nr", "num", "number", "row", "title", "uuid"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeyColumn:
    """A column of a table, whose values are spelled as keys are.

    Attributes:
        table: name of the table.
        name: name of the column.
        values: its values.
        key_words: stems of the words of its name, without the short prefix that all columns of the table share.
    """

    table: str
    name: str
    values: ColumnValues
    key_words: tuple[str, ...]

    @functools.cached_property
    def words(self) -> list[str]:
        """Stems of the words of its name."""
        return words_of(self.name)

    @functools.cached_property
    def is_number(self) -> bool:
        """Whether all values are numbers."""
        return self.values.numbers() is not None

    @functools.cached_property
    def is_integer(self) -> bool:
        """Whether all values are integers; also floats without a fraction, as pandas writes integers with nulls."""
        numbers = self.values.numbers()
        return numbers is not None and bool(pc.all(pc.equal(numbers, pc.floor(numbers))).as_py())

    @property
    def may_be_key(self) -> bool:
        """Whether there are values, and no fractions or times among them."""
        return self.has_key_values and not self.values.holds_times

    @property
    def has_key_values(self) -> bool:
        """Whether there are values, and no fractions among them."""
        return self.values.num_distinct > 0 and (not self.is_number or self.is_integer)

    @functools.cached_property
    def is_telling(self) -> bool:
        """Whether the values alone can show what they refer to: no numbers, and texts that are not very short."""
        if self.is_number or not self.values.num_distinct:
            return False
        return pc.mean(pc.utf8_length(self.values.values)).as_py() >= _LEAST_LENGTH

    @functools.cached_property
    def is_small(self) -> bool:
        """Whether these are integers from about 0 or 1, as positions and counts are too."""
        numbers = self.values.numbers()
        return numbers is not None and pc.min(numbers).as_py() < self.values.num_distinct

    @functools.cached_property
    def plain_values(self) -> pa.Array:
        """The values without blanks, case and leading zeros."""
        return _plain(self.values.values)

    @property
    def is_own_key(self) -> bool:
        """Whether it is named as the key of its own table, or of any, and is one; it names no other rows."""
        is_named = says_key(self.name) and (self.is_generic or without_key_word(self.key_words) == words_of(self.table))
        return is_named and self.values.is_key

    @property
    def is_vague(self) -> bool:
        """Whether these are integers whose name does not say that they are keys."""
        return self.is_number and not says_key(self.name)

    def share_in(self, key: KeyColumn) -> float:
        """Returns the share of the rows with a value whose value another column has too."""
        return self.values.count_in(key.values) / max(self.values.num_filled, 1)

    def is_named_after(self, words: Sequence[str]) -> bool:
        """Whether the name ends with the words of a table's; a number of things does not count."""
        return ends_with(self.words, words) and not (self.is_number and says_count(self.name))

    def is_named_after_key(self, key: KeyColumn) -> bool:
        """Whether the name ends with that of a key that is not named as any key may be."""
        return not key.is_generic and ends_with(self.words, key.key_words)

    @property
    def is_generic(self) -> bool:
        """Whether the name says nothing about the table."""
        return _GENERIC_WORDS.issuperset(self.key_words)

    def may_be_other_than(self, key: KeyColumn) -> bool:
        """Whether a name that does not say key, and few of the keys, leave open whether integers are keys at all."""
        is_rare = self.values.num_distinct < _LEAST_OF_VAGUE * key.values.num_distinct
        return self.is_vague and (is_rare or self.share_in(key) < LEAST_BY_VALUES)


def key_columns(table: str, columns: Mapping[str, ColumnValues]) -> dict[str, KeyColumn]:
    """Describes the columns of a table by name."""
    prefix = short_prefix([name for name in columns if name])
    found = {}
    for name, values in columns.items():
        words = words_of(name)
        has_prefix = bool(prefix) and words[0] == prefix and len(words) > 1
        found[name] = KeyColumn(table=table, name=name, values=values, key_words=tuple(words[has_prefix:]))
    return found


def spelled_alike(column: KeyColumn, key: KeyColumn) -> tuple[float, str, str]:
    """Compares values without blanks, case and leading zeros.

    Returns:
        The share of the rows with a value that then are keys; and a value that is none as it is spelled, with the
        spelling of its key.
    """
    mine, theirs = column.plain_values, key.plain_values
    is_known = pc.is_in(mine, value_set=theirs)
    share = (pc.sum(column.values.counts.filter(is_known)).as_py() or 0) / max(column.values.num_filled, 1)
    differs = pc.and_(is_known, pc.invert(pc.is_in(column.values.values, value_set=key.values.values)))
    first = pc.index(differs, value=True).as_py()
    if first < 0:
        return share, "", ""
    other = pc.index(theirs, mine[first]).as_py()
    return share, column.values.values[first].as_py(), key.values.values[other].as_py()


def _plain(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(pc.utf8_lower(pc.utf8_trim_whitespace(texts)), r"^0+(.)", r"\1")
