"""Finds the keys of a database's tables: primary keys, foreign keys, and entities without a table.

What the source of a table declares, as databases do, comes first. Where nothing is declared, values and names decide
together. A foreign key may be null in some rows, which then have no edge, and may name rows
that are not there. Small integers are ids of any table by chance, so a column of integers refers to a table only if its
name says so; where a name is missing and the values would fit, a question is asked instead.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.column_values import ColumnValues, as_texts
from tfx_gnn.tables.database import LEAST_BY_VALUES, Database, ForeignKey, holders_of, joined_key, key_texts
from tfx_gnn.tables.declared_keys import DeclaredForeignKey
from tfx_gnn.tables.schema_inference import read_all_columns, undeclared_layout
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_names import (
    ends_with,
    named_ends,
    names_entity,
    names_role_within,
    says_id,
    says_key,
    words_of,
)
from tfx_gnn.tables.table_roles import EdgeRole, FoundTable, name_of_file

_LEAST_NAMED = 0.5
"""Share of the values that are keys, from which on a column refers to the table that it is named after."""
_MOST_DISTINCT = 0.9
"""Ids of entities without a table repeat: there are at most so many different ones by row."""
_FEW_ENTITIES = 20
"""Fewer different values are a category, such as a status, unless the name says what has ids."""
_MOST_SHARED_NAMES = 8
_PANDAS_INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__|index")
_GENERIC_KEYS = (["code"], ["id"], ["key"], ["name"], ["no"], ["number"], ["uuid"])


def find_keys(
    tables: Mapping[str, FoundTable],
    tables_dir: str,
    *,
    label: tuple[str, str] = ("", ""),
    access: TableAccess | None = None,
) -> Database:
    """Finds the keys of tables.

    Args:
        tables: the tables by name.
        tables_dir: their folder.
        label: table and column of the label; the table holds nodes whatever it refers to, and the column is no key.
        access: the largest record, and whether links may lead out of the folder.

    Returns:
        What refers to what.
    """
    return _Finder(tables, tables_dir, label, access or TableAccess()).find()


class _Finder:
    def __init__(
        self, tables: Mapping[str, FoundTable], tables_dir: str, label: tuple[str, str], access: TableAccess
    ) -> None:
        self._tables = {
            name: dataclasses.replace(table, columns={one: _as_keys(of_one) for one, of_one in table.columns.items()})
            for name, table in tables.items()
        }
        self._respelled = {
            (name, one)
            for name, table in tables.items()
            for one, values in table.columns.items()
            if not values.values.equals(self._tables[name].columns[one].values)
        }
        self._tables_dir = tables_dir
        self._label = label
        self._access = access
        self._keys: dict[str, tuple[str, ...]] = {}
        self._foreign_keys: dict[tuple[str, tuple[str, ...]], ForeignKey] = {}
        self._edges: dict[str, EdgeRole] = {}
        self._entities: dict[str, list[tuple[str, str]]] = {}
        self._questions: list[str] = []
        self._asked: set[tuple[str, str]] = set()
        self._unclear: list[str] = []
        self._left_out = {
            name: dict.fromkeys(_row_numbers(table), "it numbers the rows, as pandas writes it")
            for name, table in tables.items()
        }

    def find(self) -> Database:
        """Finds keys that names and values tell, then foreign keys, then what only these can tell."""
        tables = self._tables.values()
        self._take_declared_keys()
        is_open = [table for table in tables if not table.declared.primary_key]
        self._keys.update({table.name: (key,) for table in is_open if (key := self._key_of(table))})
        for name in [table.name for table in is_open if self._is_link(table)]:
            del self._keys[name]
        self._take_declared_foreign_keys()
        for table in tables:
            if table.name not in self._keys and not table.declared.foreign_keys and self._names_ends(table):
                self._add_edges(table)
        for table in tables:
            if table.name not in self._edges and table.name not in self._unclear:
                self._find_foreign_keys(table)
                self._find_entities(table)
        for table in tables:
            if table.name not in self._keys and table.name not in self._edges:
                self._find_role(table)
        for name in [name for name, key in self._keys.items() if not key]:
            self._find_composite_key(self._tables[name])
        return Database(
            tables=self._tables,
            keys=self._keys,
            entities={name: tuple(columns) for name, columns in self._entities.items()},
            foreign_keys=tuple(self._foreign_keys[key] for key in sorted(self._foreign_keys)),
            edges=self._edges,
            left_out={name: of_table for name, of_table in self._left_out.items() if of_table},
            questions=tuple(self._questions),
            unclear=tuple(self._unclear),
            respelled=frozenset(self._respelled),
        )

    def _take_declared_keys(self) -> None:
        """Takes declared primary keys, but for those of tables of edges."""
        named = self._declared_foreign_keys()
        for table in self._tables.values():
            key = table.declared.primary_key
            ends = [one for owner, one, _ in named if owner is table and len(one.columns) == 1]
            # Two foreign keys that make up a key, to which nothing refers, are the ends of an edge.
            is_link = len(ends) == 2 and {one.columns[0] for one in ends} <= {*key}
            is_referred_to = table.name == self._label[0] or any(target == table.name for _, _, target in named)
            if key and (len(key) == 1 or not is_link or is_referred_to):
                self._keys[table.name] = key

    def _take_declared_foreign_keys(self) -> None:
        """Takes declared foreign keys; how many values are null or unknown is counted all the same."""
        for table, one, target in self._declared_foreign_keys():
            if len(self._keys.get(target, ())) != len(one.columns):
                self._questions.append(
                    f"{table.name}.{'+'.join(one.columns)} names {one.table} by its declaration, whose rows have no "
                    "such key here: it is no edge set. Add the table, if it is missing."
                )
            elif (table.name, one.columns) in self._foreign_keys:
                self._questions.append(
                    f"{table.name}.{'+'.join(one.columns)} is declared to name {target}, and another table before it: "
                    "it is one edge set. Copy the column under another name to have both."
                )
            elif len(one.columns) == 1:
                self._add(table, one.columns[0], target, "declared by the database")
            else:
                self._add_composite(table, one.columns, target)

    def _declared_foreign_keys(self) -> list[tuple[FoundTable, DeclaredForeignKey, str]]:
        """Lists what is declared, with the table that it refers to; a label is no key."""
        return [
            (table, one, name_of_file(f"{one.table}.parquet"))
            for table in self._tables.values()
            for one in table.declared.foreign_keys
            if (table.name, *one.columns) != self._label
        ]

    def _add_composite(self, table: FoundTable, columns: tuple[str, ...], target: str) -> None:
        mine, theirs = self._texts(table, columns), self._texts(self._tables[target], self._keys[target])
        refer = joined_key([mine[name] for name in columns])
        keys = joined_key([theirs[name] for name in self._keys[target]])
        self._foreign_keys[table.name, columns] = ForeignKey(
            table=table.name,
            columns=columns,
            node_set=target,
            num_rows=len(refer),
            num_null=refer.null_count,
            num_known=int(pc.sum(pc.is_in(refer.drop_null(), value_set=keys)).as_py() or 0),
            reason="declared by the database",
        )

    def _find_role(self, table: FoundTable) -> None:
        """Takes a table without a key for edges if it has two foreign keys, or nothing but ids, otherwise for nodes."""
        if len(table.columns) == 2 and not self._ends_of(table):
            holders = {name: holders_of(column, self._ids()) for name, column in table.columns.items()}
            if all(len(of_column) == 1 and not names_entity(name) for name, of_column in holders.items()):
                for name, (node_set,) in holders.items():
                    self._add(table, name, node_set, "there is nothing else in the table")
        ends = self._ends_of(table)
        if len(ends) != 2 or table.name == self._label[0]:
            self._keys[table.name] = ()
            return
        (source_column, source), (target_column, target) = ends
        self._edges[table.name] = EdgeRole(
            table=table.name, source_column=source_column, source=source, target_column=target_column, target=target
        )

    def _columns(self, table: FoundTable) -> dict[str, ColumnValues]:
        """Lists the columns with values that may be keys."""
        left_out = {*self._left_out[table.name], *(self._label[1:] if table.name == self._label[0] else ())}
        return {
            name: column
            for name, column in table.columns.items()
            if name and name not in left_out and column.num_distinct
        }

    def _key_of(self, table: FoundTable) -> str:
        """Finds the one column of a table that tells its rows apart and is named so, or comes first; "" if none."""
        if "id" in table.columns or "#id" in table.columns:
            # Where two rows have the same, reading them says so.
            return "id" if "id" in table.columns else "#id"
        if self._names_ends(table):
            return ""
        found = [
            name
            for position, (name, column) in enumerate(self._columns(table).items())
            if column.is_key
            and not column.holds_times
            and (says_key(name) or not _are_numbers(column) or (position == 0 and _are_integers(column)))
        ]
        owner = words_of(table.name)
        return next((name for name in found if ends_with(owner, words_of(name))), next(iter(found), ""))

    def _is_link(self, table: FoundTable) -> bool:
        """Whether a table's key is one of two columns of keys of others, each of which occurs only once by chance."""
        (own,) = self._keys.get(table.name, ("id",))
        if own in ("id", "#id"):
            return False
        others = {name: known for name, known in self._ids().items() if name != table.name}
        ends = [
            name
            for name, column in self._columns(table).items()
            if not column.holds_times
            and any(
                not _are_numbers(column)
                or ends_with(words_of(name), words_of(one))
                or self._is_named_after_key(name, one)
                for one in holders_of(column, others)
            )
        ]
        return own in ends and len(ends) >= 2

    def _names_ends(self, table: FoundTable) -> bool:
        return table.name != self._label[0] and named_ends(list(table.columns)) is not None

    def _ids(self) -> dict[str, ColumnValues]:
        return {name: self._tables[name].columns[key[0]] for name, key in self._keys.items() if len(key) == 1}

    def _add_edges(self, table: FoundTable) -> None:
        """Takes a table for edges whose columns are named source and target, or so, if both hold ids of one table."""
        ids, ends = self._ids(), named_ends(list(table.columns))
        assert ends is not None, table
        found = []
        for end in ends:
            holders = holders_of(table.columns[end], ids)
            named = [one for one in holders if ends_with(words_of(end), words_of(one))]
            found += [named or holders]
        if not all(len(holders) == 1 for holders in found):
            self._unclear.append(table.name)
            return
        ((source,), (target,)), (source_column, target_column) = found, ends
        self._edges[table.name] = EdgeRole(
            table=table.name, source_column=source_column, source=source, target_column=target_column, target=target
        )
        for column, node_set in ((source_column, source), (target_column, target)):
            self._add(table, column, node_set, "an end of edges")

    def _add(self, table: FoundTable, column: str, node_set: str, reason: str) -> None:
        values = table.columns[column]
        self._foreign_keys[table.name, (column,)] = ForeignKey(
            table=table.name,
            columns=(column,),
            node_set=node_set,
            num_rows=values.num_rows,
            num_null=values.num_rows - values.num_filled,
            num_known=values.count_in(self._ids()[node_set]),
            reason=reason,
        )

    def _find_foreign_keys(self, table: FoundTable) -> None:
        own = self._keys.get(table.name, ())
        own = own if len(own) == 1 else ()
        for name, column in self._columns(table).items():
            if (table.name, (name,)) in self._foreign_keys:
                continue
            if column.holds_times or (_are_numbers(column) and not _are_integers(column)):
                continue
            if name in own:
                self._find_owner(table, name)
            else:
                self._find_foreign_key(table, name, column)

    def _find_foreign_key(self, table: FoundTable, name: str, column: ColumnValues) -> None:
        shares = {
            node_set: column.count_in(known) / column.num_filled
            for node_set, known in self._ids().items()
            if node_set != table.name or names_role_within(name)
        }
        known = [one for one in shares if shares[one] >= _LEAST_NAMED]
        named = [one for one in known if ends_with(words_of(name), words_of(one))]
        named = named or [one for one in known if self._is_named_after_key(name, one)]
        # `sales_person_id` is of the sales persons, where there are persons too.
        longest = max((len(words_of(one)) for one in named), default=0)
        named = [one for one in named if len(words_of(one)) == longest]
        fitting = [one for one, share in shares.items() if share >= LEAST_BY_VALUES]
        if len(named) == 1:
            self._add(table, name, named[0], "named after it")
        elif table.name in fitting and names_role_within(name):
            self._add(table, name, table.name, "named after a role in the table itself")
        elif named:
            self._ask(table.name, name, named)
        elif not _are_integers(column) and len(fitting) == 1:
            self._add(table, name, fitting[0], "by its values")
        elif fitting and column.num_distinct > 1 and self._is_open(name, column):
            self._ask(table.name, name, fitting)

    def _is_open(self, name: str, column: ColumnValues) -> bool:
        """Whether a column may name one of the tables that its values fit: small integers fit all by chance."""
        if not _are_integers(column):
            return True
        return says_key(name) and not names_entity(name)

    def _find_owner(self, table: FoundTable, name: str) -> None:
        """Finds the one table after which the key of another one is named, as `user_id` of profiles is after users."""
        if ends_with(words_of(table.name), words_of(name)) or ends_with(words_of(name), words_of(table.name)):
            return
        column = table.columns[name]
        owners = [
            one
            for one, known in self._ids().items()
            if one != table.name
            and ends_with(words_of(name), words_of(one))
            and column.count_in(known) >= _LEAST_NAMED * column.num_filled
        ]
        if len(owners) == 1:
            self._add(table, name, owners[0], "its key, named after it")

    def _ask(self, table: str, column: str, node_sets: Sequence[str]) -> None:
        self._asked.add((table, column))
        self._questions.append(
            f"Does {table}.{column} name {' or '.join(sorted(node_sets))}? Its values would fit by chance too, so it "
            f"is no edge set: name it after the table, as in {words_of(sorted(node_sets)[0])[-1]}_id, if it does."
        )

    def _is_named_after_key(self, column: str, node_set: str) -> bool:
        key = words_of(self._keys[node_set][0])
        return key not in _GENERIC_KEYS and ends_with(words_of(column), key)

    def _find_entities(self, table: FoundTable) -> None:
        """Takes ids that repeat, and that no table has, for nodes without a table."""
        known = [words_of(name) for name in self._tables]
        for name, column in self._columns(table).items():
            place = (table.name, name)
            is_taken = (table.name, (name,)) in self._foreign_keys or name in self._keys.get(table.name, ())
            least = 2 if names_entity(name) else _FEW_ENTITIES
            if (
                is_taken
                or place in self._asked
                or column.holds_times
                or not says_id(name)
                or (_are_numbers(column) and not _are_integers(column))
                or not least <= column.num_distinct <= _MOST_DISTINCT * column.num_filled
                or words_of(name) in known
            ):
                continue
            entity = "_".join(words_of(name))
            self._entities.setdefault(entity, []).append(place)
            self._foreign_keys[table.name, (name,)] = ForeignKey(
                table=table.name,
                columns=(name,),
                node_set=entity,
                num_rows=column.num_rows,
                num_null=column.num_rows - column.num_filled,
                num_known=column.num_filled,
                reason="its name says that it holds ids",
            )

    def _ends_of(self, table: FoundTable) -> list[tuple[str, str]]:
        keys = {key.columns[0]: key.node_set for (name, _), key in self._foreign_keys.items() if name == table.name}
        return [(column, keys[column]) for column in table.columns if column in keys]

    def _find_composite_key(self, table: FoundTable) -> None:
        """Finds two or three columns that tell the rows of a table apart, and to which another table refers by name."""
        for other in self._tables.values():
            if other.name == table.name or other.name not in self._keys:
                continue
            mine = self._columns(table)
            shared = [
                name
                for name, column in self._columns(other).items()
                if name in mine and not (_are_numbers(column) and not _are_integers(column))
            ][:_MOST_SHARED_NAMES]
            if len(shared) < 2:
                continue
            num_rows = max(column.num_rows for column in mine.values())
            tried = [
                columns
                for size in (2, 3)
                for columns in itertools.combinations(shared, size)
                if math.prod(mine[name].num_distinct for name in columns) >= num_rows
            ]
            if not tried:
                continue
            here, there = self._texts(table, shared), self._texts(other, shared)
            found: list[ForeignKey] = []
            for columns in tried:
                keys = joined_key([here[name] for name in columns])
                if keys.null_count or len(pc.unique(keys)) < len(keys):
                    continue
                refer = joined_key([there[name] for name in columns])
                num_known = int(pc.sum(pc.is_in(refer.drop_null(), value_set=keys)).as_py() or 0)
                if num_known >= LEAST_BY_VALUES * max(len(refer) - refer.null_count, 1):
                    found.append(
                        ForeignKey(
                            table=other.name,
                            columns=columns,
                            node_set=table.name,
                            num_rows=len(refer),
                            num_null=refer.null_count,
                            num_known=num_known,
                            reason="columns of the same names, which tell its rows apart",
                        )
                    )
            if found:
                best = max(found, key=lambda key: (key.num_known, -len(key.columns)))
                if self._keys[table.name] in ((), best.columns):
                    self._keys[table.name] = best.columns
                    self._foreign_keys[other.name, best.columns] = best

    def _texts(self, table: FoundTable, columns: Sequence[str]) -> dict[str, pa.Array]:
        layout = undeclared_layout("node", table.name, self._tables_dir, table.filename, self._access)
        parts: dict[str, list[pa.Array]] = {name: [] for name in columns}
        for block in read_all_columns(layout):
            for name in columns:
                parts[name].append(as_texts(block.columns.column(name), f"{table.filename}, column {name!r}"))
        return {name: pa.concat_arrays(found) for name, found in parts.items()}


def _as_keys(column: ColumnValues) -> ColumnValues:
    values = key_texts(column.values)
    is_filled = values.is_valid()
    return dataclasses.replace(column, values=values.filter(is_filled), counts=column.counts.filter(is_filled))


def _row_numbers(table: FoundTable) -> list[str]:
    """Lists the columns that pandas writes for the number of a row."""
    found = []
    for name, column in table.columns.items():
        if _PANDAS_INDEX.fullmatch(name) and column.is_key and _are_integers(column):
            numbers = column.numbers()
            if numbers is not None and pc.min(numbers).as_py() == 0 and pc.max(numbers).as_py() == column.num_rows - 1:
                found.append(name)
    return found


def _are_numbers(column: ColumnValues) -> bool:
    return column.numbers() is not None


def _are_integers(column: ColumnValues) -> bool:
    """Whether all values are integers; also floats without a fraction, as pandas writes integers with nulls."""
    numbers = column.numbers()
    return numbers is not None and bool(pc.all(pc.equal(numbers, pc.floor(numbers))).as_py())
