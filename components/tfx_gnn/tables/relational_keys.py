"""Finds out how the tables of a database refer to each other: primary keys, foreign keys, and entities without a table.

Values and names decide together. A foreign key may be null in some rows, which then have no edge, and may name rows
that are not there. Small integers are ids of any table by chance, so a column of integers refers to a table only if its
name says so; where a name is missing and the values would fit, a question is asked instead.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.column_values import ColumnValues, as_texts
from tfx_gnn.tables.schema_inference import read_all_columns, undeclared_layout
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_roles import EdgeRole, FoundTable, edge_role, ends_with, named_ends, named_id, words_of

_LEAST_NAMED = 0.5
"""Share of the values that are keys, from which on a column refers to the table that it is named after."""
_LEAST_BY_VALUES = 0.9
"""The same where the name does not say it."""
_MOST_DISTINCT = 0.9
"""Ids of entities without a table repeat: there are at most so many different ones by row."""
_MOST_SHARED_NAMES = 8
_PANDAS_INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__|index")
_ID_IN_NAME = re.compile(r"(?:^|_)(?:code|guid|id|key|no|nr|number|num|uuid)$|[a-z](?:I[dD]|Key|No)$", re.ASCII)
_ENTITY_WORDS = frozenset({"account", "client", "customer", "device", "member", "session", "user", "visitor"})
_SELF_WORDS = frozenset({"boss", "manager", "mentor", "parent", "predecessor", "supervisor"})
_GENERIC_KEYS = (["code"], ["id"], ["key"], ["name"], ["no"], ["number"], ["uuid"])
_SEPARATOR = "|"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForeignKey:
    """Columns of a table whose values are keys of a node set.

    Attributes:
        table: name of the table.
        columns: its columns, in the order of the key.
        node_set: the node set that they name.
        num_rows: rows of the table.
        num_null: rows without a value, which have no edge.
        num_known: rows that name a node that is there.
        reason: what speaks for it besides the values, such as "named after it".
    """

    table: str
    columns: tuple[str, ...]
    node_set: str
    num_rows: int
    num_null: int
    num_known: int
    reason: str

    @property
    def share(self) -> float:
        """Share of the rows with a value that name a node that is there."""
        return self.num_known / max(self.num_rows - self.num_null, 1)

    def describe(self) -> str:
        """Says in a sentence what refers to what, and how often it does not."""
        place = f"{self.table}.{'+'.join(self.columns)}"
        parts = [f"{place} names {self.node_set} in {self.num_known / max(self.num_rows, 1):.1%} of its rows"]
        if self.num_null:
            parts.append(f"{self.num_null:,} rows are empty and have no edge")
        if unknown := self.num_rows - self.num_null - self.num_known:
            parts.append(f"{unknown:,} name nothing that is there")
        return f"{'; '.join(parts)} ({self.reason})."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Database:
    """How tables refer to each other.

    Attributes:
        tables: the tables that hold nodes or edges, by name.
        keys: by node set with a table, the columns of its primary key; none where a row is its number.
        entities: by node set without a table, the columns, of tables, that hold its ids.
        foreign_keys: what refers to what, from tables of nodes and of edges.
        edges: tables of edges, with the columns of their ends.
        left_out: by table, columns that are no data of it, and why.
        questions: what the values leave open, a sentence each.
        unclear: tables of edges, by the names of their columns, whose ends are ids of no table or of several.
    """

    tables: Mapping[str, FoundTable]
    keys: Mapping[str, tuple[str, ...]]
    entities: Mapping[str, tuple[tuple[str, str], ...]]
    foreign_keys: tuple[ForeignKey, ...]
    edges: Mapping[str, EdgeRole]
    left_out: Mapping[str, Mapping[str, str]]
    questions: tuple[str, ...]
    unclear: tuple[str, ...]

    @property
    def is_as_it_should_be(self) -> bool:
        """Whether the tables can be read where they are: each node has an id, and each foreign key a value."""
        of_nodes = [key for key in self.foreign_keys if key.table in self.keys]
        return (
            not self.entities
            and all(len(key) == 1 for key in self.keys.values())
            and all(len(key.columns) == 1 and not key.num_null and key.share >= _LEAST_BY_VALUES for key in of_nodes)
            and not any(key.num_null for key in self.foreign_keys)
        )

    def describe(self) -> Iterator[str]:
        """Says what was decided, a sentence each."""
        for name, key in self.keys.items():
            if not key:
                yield f"{name} has no column of ids: a row's id is its number in the table, from 0."
            elif len(key) > 1:
                yield f"{name} has the key {' + '.join(key)}: its ids are their values, joined by {_SEPARATOR!r}."
        for name, columns in self.entities.items():
            places = ", ".join(f"{table}.{column}" for table, column in columns)
            yield f"{name} has no table: its nodes are the different values of {places}, without features."
        for foreign_key in self.foreign_keys:
            yield foreign_key.describe()
        for name, of_table in self.left_out.items():
            for column, reason in of_table.items():
                yield f"{name}.{column} is left out: {reason}."
        yield from self.questions


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
        self._tables_dir = tables_dir
        self._label = label
        self._access = access
        self._keys: dict[str, tuple[str, ...]] = {}
        self._foreign_keys: dict[tuple[str, tuple[str, ...]], ForeignKey] = {}
        self._edges: dict[str, EdgeRole] = {}
        self._entities: dict[str, list[tuple[str, str]]] = {}
        self._questions: list[str] = []
        self._unclear: list[str] = []
        self._left_out = {
            name: dict.fromkeys(_row_numbers(table), "it numbers the rows, as pandas writes it")
            for name, table in tables.items()
        }

    def find(self) -> Database:
        """Finds keys that names and values tell, then foreign keys, then what only these can tell."""
        tables = self._tables.values()
        for table in tables:
            if key := self._key_of(table):
                self._keys[table.name] = (key,)
        for table in tables:
            if table.name not in self._keys and named_ends(list(table.columns)) and table.name != self._label[0]:
                self._add_edges(table)
        for table in tables:
            if table.name not in self._edges:
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
        )

    def _find_role(self, table: FoundTable) -> None:
        """Takes a table without a key for edges if it has two foreign keys, otherwise for nodes."""
        ends = self._ends_of(table.name)
        if named_ends(list(table.columns)) and table.name != self._label[0]:
            self._unclear.append(table.name)
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
        if named_ends(list(table.columns)) and table.name != self._label[0]:
            return ""
        columns = self._columns(table)
        named = named_id(table)
        if named in ("id", "#id"):
            # Where two rows have the same, reading them says so.
            return named
        columns = {name: column for name, column in columns.items() if not column.holds_times}
        if named in columns and columns[named].is_key and self._may_be_id(named, columns[named]):
            return named
        for position, (name, column) in enumerate(columns.items()):
            if column.is_key and (self._may_be_id(name, column) or (position == 0 and _are_integers(column))):
                return name
        return ""

    @staticmethod
    def _may_be_id(name: str, column: ColumnValues) -> bool:
        """Whether a column may hold ids: of numbers, such as the salaries of salaries, only if its name says so."""
        return bool(_ID_IN_NAME.search(name)) or not _are_numbers(column)

    def _ids(self) -> dict[str, ColumnValues]:
        return {name: self._tables[name].columns[key[0]] for name, key in self._keys.items() if len(key) == 1}

    def _add_edges(self, table: FoundTable) -> None:
        role = edge_role(table, self._ids())
        if role is not None:
            self._edges[table.name] = role
            for column, node_set in ((role.source_column, role.source), (role.target_column, role.target)):
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
        for name, column in self._columns(table).items():
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
            if node_set != table.name or _is_role_within(name)
        }
        known = [one for one in shares if shares[one] >= _LEAST_NAMED]
        named = [one for one in known if ends_with(words_of(name), words_of(one))]
        named = named or [one for one in known if self._is_named_after_key(name, one)]
        fitting = [one for one, share in shares.items() if share >= _LEAST_BY_VALUES]
        if len(named) == 1:
            self._add(table, name, named[0], "named after it")
        elif table.name in fitting and _is_role_within(name):
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
        return bool(_ID_IN_NAME.search(name)) and words_of(name)[-1] not in _ENTITY_WORDS

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
        self._questions.append(
            f"Does {table}.{column} name {' or '.join(sorted(node_sets))}? Its values would fit by chance too, so it "
            f"is no edge set: name it after the table, as in {words_of(sorted(node_sets)[0])[-1]}_id, if it does."
        )

    def _is_named_after_key(self, column: str, node_set: str) -> bool:
        key = words_of(self._keys[node_set][0])
        return key not in _GENERIC_KEYS and ends_with(words_of(column), key)

    def _find_entities(self, table: FoundTable) -> None:
        for name, column in self._columns(table).items():
            words = words_of(name)
            is_id = _ID_IN_NAME.search(name) or words[-1] in _ENTITY_WORDS
            is_taken = (table.name, (name,)) in self._foreign_keys or name in self._keys.get(table.name, ())
            if is_taken or not is_id or (_are_numbers(column) and not _are_integers(column)):
                continue
            if not 2 <= column.num_distinct <= _MOST_DISTINCT * column.num_filled:
                continue
            if any(question.startswith(f"Does {table.name}.{name} ") for question in self._questions):
                continue
            entity = "_".join(words)
            if entity in self._tables or f"{entity}s" in self._tables:
                continue
            self._entities.setdefault(entity, [])
            if (table.name, name) not in self._entities[entity]:
                self._entities[entity].append((table.name, name))
                num_null = column.num_rows - column.num_filled
                self._foreign_keys[table.name, (name,)] = ForeignKey(
                    table=table.name,
                    columns=(name,),
                    node_set=entity,
                    num_rows=column.num_rows,
                    num_null=num_null,
                    num_known=column.num_filled,
                    reason="its name says that it holds ids",
                )

    def _ends_of(self, table: str) -> list[tuple[str, str]]:
        return [
            (key.columns[0], key.node_set)
            for key in (self._foreign_keys[place] for place in sorted(self._foreign_keys) if place[0] == table)
            if len(key.columns) == 1
        ]

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
            here, there = self._texts(table, shared), self._texts(other, shared)
            found: list[ForeignKey] = []
            for columns in itertools.chain(itertools.combinations(shared, 2), itertools.combinations(shared, 3)):
                keys = joined_key([here[name] for name in columns])
                if keys.null_count or len(pc.unique(keys)) < len(keys):
                    continue
                refer = joined_key([there[name] for name in columns])
                num_known = int(pc.sum(pc.is_in(refer.drop_null(), value_set=keys)).as_py() or 0)
                if num_known >= _LEAST_BY_VALUES * max(len(refer) - refer.null_count, 1):
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


def joined_key(columns: Sequence[pa.Array]) -> pa.Array:
    """Joins the values of the columns of a key to one text by row, large_string [num_rows]; null if one is null.

    A separator or backslash within a value is escaped, so that different values give different texts.
    """
    escaped = [
        pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), _SEPARATOR, f"\\{_SEPARATOR}")
        for column in columns
    ]
    return pc.binary_join_element_wise(*escaped, pa.scalar(_SEPARATOR, pa.large_string()))


def _is_role_within(column: str) -> bool:
    """Whether a name is that of a role of rows of the same table, such as `manager_id` or `ReportsTo`."""
    words = words_of(column)
    return bool(set(words) & _SELF_WORDS) or words[-2:] in (["reply", "to"], ["report", "to"])


def key_texts(texts: pa.Array) -> pa.Array:
    """Spells values as keys, of the shape of `texts`.

    Whole numbers are without a fraction, because pandas writes integers as 7.0 where the column has nulls; the empty
    text is null.
    """
    whole = pc.replace_substring_regex(texts, r"^(-?\d+)\.0+$", r"\1")
    return pc.if_else(pc.equal(whole, ""), pa.scalar(None, whole.type), whole)


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
