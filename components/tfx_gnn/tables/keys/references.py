"""Decides to which table a column refers, by its name and values together."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import pyarrow.compute as pc

from tfx_gnn.tables.keys.key_columns import LEAST_BY_VALUES, LEAST_NAMED, KeyColumn, spelled_alike
from tfx_gnn.tables.table_names import (
    ends_with,
    entity_name,
    names_entity,
    names_role_within,
    says_category,
    says_id,
    says_reference,
    words_of,
)

_LEAST_OF_REFERENCES = 2
_MOST_SHOWN = 4
_LEAST_TO_ASK = 0.1
"""Share of the values that are keys, from which on it is asked about what a column is named after."""
_KIND_WORDS = frozenset({"clas", "class", "kind", "model", "table", "type"})
_MOST_KINDS = 1_000
"""Values that are looked at to see whether they name tables, or may be keys."""
_LEAST_GAIN = 0.05
"""Share of the rows, from which on it is worth a word that other spellings would be keys."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reference:
    """What a column refers to.

    Attributes:
        node_set: the table; empty if none is known.
        target_column: the column of that table whose values these are, if it is not the primary key.
        reason: what speaks for it besides the values.
        question: what is open, a sentence; empty if nothing is.
    """

    node_set: str = ""
    target_column: str = ""
    reason: str = ""
    question: str = ""


def ask_about_kinds(column: KeyColumn, others: Mapping[str, KeyColumn], tables: Mapping[str, Sequence[str]]) -> str:
    """Asks about ids of several tables, of which another column says the table in each row, as `owner_type` does.

    Args:
        column: the column that may hold such ids, as `owner_id`.
        others: the columns of its table.
        tables: the words of the names of all tables.

    Returns:
        The question; empty if there is no such column.
    """
    if not says_id(column.name):
        return ""
    for other in others.values():
        is_beside = len(other.words) > 1 and other.words[-1] in _KIND_WORDS and other.words[:-1] == column.words
        if not is_beside or other.is_number:
            continue
        kinds = other.values.values[:_MOST_KINDS].to_pylist()
        named = {name: kind for kind in kinds for name, words in tables.items() if words_of(kind)[-1:] == words[-1:]}
        if named:
            shown = ", ".join(f"{name} where it is {kind!r}" for name, kind in [*named.items()][:_MOST_SHOWN])
            return (
                f"{column.table}.{column.name} names rows of the table that {column.table}.{other.name} says, such as "
                f"{shown}: it is no edge set. To have edges, give each of these tables a column of its own, empty "
                "where another one is meant, and run this again."
            )
    return ""


def find_reference(column: KeyColumn, keys: Mapping[str, KeyColumn], tables: Mapping[str, Sequence[str]]) -> Reference:
    """Finds the table to whose rows a column refers.

    Small integers are ids of any table by chance, so a column of integers refers to a table only if its name says so;
    where it does not and the values would fit, a question is asked instead.

    Args:
        column: the column, which may be the key of its own table.
        keys: the primary keys of one column, by table.
        tables: the words of the names of all tables.
    """
    own = keys.get(column.table)
    is_key = own is not None and own.name == column.name
    is_own = says_reference(column.name) and column.is_named_after(tables[column.table])
    is_inner = is_key or is_own or names_role_within(column.name)
    keys = {
        name: key
        for name, key in keys.items()
        if (name != column.table or is_inner) and key.values.holds_times == column.values.holds_times
    }
    shares = {name: column.share_in(key) for name, key in keys.items()}
    named = _named(column, keys, tables)
    found = _best([name for name in named if shares[name] >= LEAST_NAMED], column, keys, tables)
    if is_key or (own is not None and column.is_own_key):
        # A key refers to the table to which it rather belongs, as `user_id` of profiles does to users.
        is_other = is_key and len(found) == 1 and found != [column.table]
        return Reference(node_set=found[0], reason="its key, named after it") if is_other else Reference()
    if len(found) == 1 and not column.may_be_other_than(keys[found[0]]):
        (node_set,) = found
        spelled = _other_spellings(column, keys[node_set], shares[node_set])
        return Reference(node_set=node_set, reason="named after it", question=spelled)
    fitting = [name for name, share in shares.items() if share >= LEAST_BY_VALUES]
    if column.table in fitting and names_role_within(column.name):
        return Reference(node_set=column.table, reason="named after a role in the table itself")
    spellings = (_other_spellings(column, keys[name], shares[name]) for name in named)
    few = (_few_known(column, name, shares[name]) for name in named if not column.is_vague)
    question = _which(column, found) if found else next(filter(None, (*spellings, *few)), "")
    if question:
        return Reference(question=question)
    found_by_values = _by_values(column, fitting, tables)
    if not found_by_values.node_set and not found_by_values.question:
        found_by_values = Reference(question=_spelled_otherwise(column, keys, shares))
    if own is None or is_inner or found_by_values.node_set or not says_reference(column.name):
        return found_by_values
    # An accepted answer may be another row of the table itself.
    is_possible = column.values.num_distinct >= _LEAST_OF_REFERENCES and column.share_in(own) >= LEAST_BY_VALUES
    return Reference(question=_ask_of_own(column, fitting, tables)) if is_possible else found_by_values


def _few_known(column: KeyColumn, table: str, share: float) -> str:
    """Asks about a column that is named after a table whose keys some of its values are; "" if hardly any, or most."""
    if not _LEAST_TO_ASK <= share < LEAST_NAMED:
        return ""
    return (
        f"{column.table}.{column.name} is named after {table}, but only {share:.1%} of its values are there: it is no "
        f"edge set. If it is to be one, give --foreign-key {column.table}.{column.name}={table}."
    )


def find_alternate(column: KeyColumn, table: str, words: Sequence[str], candidates: Sequence[KeyColumn]) -> Reference:
    """Finds the column of a table that is not its primary key, but whose values tell rows apart and occur in a column.

    Args:
        column: the column that may refer to the table.
        table: name of the table.
        words: words of its name.
        candidates: columns of the table in which no value repeats.
    """
    for key in candidates:
        if key.is_small and not says_reference(key.name):
            continue
        is_named = column.is_named_after(words) or column.is_named_after_key(key)
        if is_named and column.is_number == key.is_number and column.share_in(key) >= LEAST_BY_VALUES:
            return Reference(node_set=table, target_column=key.name, reason="named after it")
    return Reference()


def _named(column: KeyColumn, keys: Mapping[str, KeyColumn], tables: Mapping[str, Sequence[str]]) -> list[str]:
    """Lists the tables after which, or after whose key, a column is named; the longest names only."""
    lengths = {name: len(tables[name]) for name in keys if column.is_named_after(tables[name])}
    of_keys = {name: len(key.key_words) for name, key in keys.items() if column.is_named_after_key(key)}
    for name, length in of_keys.items():
        lengths[name] = max(length, lengths.get(name, 0))
    longest = max(lengths.values(), default=0)
    return [name for name, length in lengths.items() if length == longest]


def _best(
    found: Sequence[str], column: KeyColumn, keys: Mapping[str, KeyColumn], tables: Mapping[str, Sequence[str]]
) -> list[str]:
    """Of tables whose rows are one to one, takes the one that bears the name of the key, or has most rows."""
    if len(found) <= 1:
        return list(found)
    bearing = [name for name in found if column.is_named_after(tables[name])]
    if len(bearing) == 1:
        return bearing
    if len({keys[name].key_words for name in found}) > 1 or keys[found[0]].is_generic:
        return list(found)
    return [max(sorted(found), key=lambda name: (name in bearing, keys[name].values.num_distinct))]


def _by_values(column: KeyColumn, fitting: Sequence[str], tables: Mapping[str, Sequence[str]]) -> Reference:
    of_others = [name for name, words in tables.items() if name not in fitting and ends_with(column.words, words)]
    if not fitting or column.values.num_distinct < _LEAST_OF_REFERENCES or of_others or column.values.holds_times:
        return Reference()
    if len(fitting) == 1 and column.is_telling:
        return Reference(node_set=fitting[0], reason="by its values")
    if column.is_number and not says_reference(column.name):
        return Reference()
    # `user_id` may be of a table `auth_user`.
    alike = [name for name in fitting if ends_with(tables[name], column.words)]
    is_other = column.is_number and (names_entity(column.name) or says_category(column.name))
    if column.is_number and not alike and not is_other:
        return Reference(question=_which_or_none(column, fitting, tables))
    return Reference(question=_which(column, alike or fitting) if alike or not is_other else "")


def _which(column: KeyColumn, tables: Sequence[str]) -> str:
    # A table seldom refers to itself.
    named = sorted(tables, key=lambda name: (name == column.table, name))
    others = f" or {len(named) - _MOST_SHOWN} others" if len(named) > _MOST_SHOWN else ""
    return (
        f"Does {column.table}.{column.name} name {' or '.join(named[:_MOST_SHOWN])}{others}? Its values would fit by "
        f"chance too, so it is no edge set. If it does, give --foreign-key {column.table}.{column.name}={named[0]}."
    )


def _which_or_none(column: KeyColumn, tables: Sequence[str], known: Collection[str]) -> str:
    """Asks about ids of what no table is named after: a role of rows of one, or what has no table."""
    entity = entity_name(column.name)
    if not says_id(column.name) or column.is_generic or entity in known:
        return _which(column, tables)
    place = f"{column.table}.{column.name}"
    question = _which(column, tables)
    return (
        f"{question} If it holds ids of {entity}, which no table is named after, give --foreign-key {place}={entity}."
    )


def _spelled_otherwise(column: KeyColumn, keys: Mapping[str, KeyColumn], shares: Mapping[str, float]) -> str:
    """Asks about texts that are keys of a table without their blanks, case and leading zeros; "" if there are none."""
    if not column.is_telling or column.values.num_distinct < _LEAST_OF_REFERENCES or column.values.holds_times:
        return ""
    first = column.plain_values[:_MOST_KINDS]
    for name, key in keys.items():
        if name != column.table and key.is_telling and pc.mean(pc.is_in(first, value_set=key.plain_values)).as_py():
            alike = spelled_alike(column, key)[0]
            question = _other_spellings(column, key, shares[name]) if alike >= LEAST_BY_VALUES else ""
            if question:
                return question
    return ""


def _ask_of_own(column: KeyColumn, fitting: Sequence[str], tables: Mapping[str, Sequence[str]]) -> str:
    """Asks whether values that are ids of the column's own table are meant so, unless its name says another table."""
    meant = next(
        (name for name, words in tables.items() if name != column.table and ends_with(column.words, words)), ""
    )
    if not meant:
        return _which_or_none(column, [column.table, *fitting], tables)
    return (
        f"{column.table}.{column.name} is named after {meant}, but its values are no ids of {meant}: it is no edge "
        f"set. If another column of {meant} has them, give --primary-key {meant}=COLUMN; if its rows are yet to come, "
        "run this again with them."
    )


def _other_spellings(column: KeyColumn, key: KeyColumn, share: float) -> str:
    if share >= 1 - _LEAST_GAIN:
        return ""
    alike, mine, theirs = spelled_alike(column, key)
    if alike < max(LEAST_NAMED, share + _LEAST_GAIN) or not mine:
        return ""
    return (
        f"{column.table}.{column.name} has {mine!r} where {key.table}.{key.name} has {theirs!r}: so "
        f"{alike - share:.1%} of its rows have no edge. Spell both alike, if they are the same."
    )
