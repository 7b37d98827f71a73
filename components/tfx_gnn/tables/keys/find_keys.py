"""Finds the keys of a database's tables: primary keys, foreign keys, and entities without a table.

What the source of a table declares, as databases do, comes first. Where nothing is declared, values and names decide
together. A foreign key may be null in some rows, which then have no edge, and may name rows
that are not there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.column_values import ColumnValues, as_texts
from tfx_gnn.tables.keys.database import Database, ForeignKey, as_keys, holders_of, joined_key
from tfx_gnn.tables.keys.declared_keys import DeclaredForeignKey
from tfx_gnn.tables.keys.key_columns import LEAST_BY_VALUES, LEAST_NAMED, KeyColumn, key_columns
from tfx_gnn.tables.keys.primary_keys import (
    ask_about_repeated_key,
    choose_primary_key,
    find_composite_key,
    find_rival_keys,
)
from tfx_gnn.tables.keys.references import Reference, ask_about_kinds, find_alternate, find_reference
from tfx_gnn.tables.keys.row_numbers import row_numbers
from tfx_gnn.tables.keys.table_roles import EdgeRole, FoundTable, name_of_file
from tfx_gnn.tables.null_spellings import drop_null_spellings
from tfx_gnn.tables.schema_inference import read_all_columns, undeclared_layout
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_names import (
    ends_with,
    entity_name,
    named_ends,
    names_entity,
    says_id,
    says_key,
    without_key_word,
    words_of,
    words_of_tables,
)

_MOST_DISTINCT = 0.9
"""Ids of entities without a table repeat: there are at most so many different ones by row."""
_FEW_ENTITIES = 20
"""Fewer different values are a category, such as a status, unless the name says what has ids."""
_MOST_OF_LINK = 2
"""A table whose key is one of two foreign keys joins their tables if it has at most so many other columns."""
_PLAIN_KEYS = ("id", "#id")


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

    Raises:
        ValueError: if the label is named as the key of its table, and is one.
    """
    return _Finder(tables, tables_dir, label, access or TableAccess()).find()


class _Finder:
    def __init__(
        self, tables: Mapping[str, FoundTable], tables_dir: str, label: tuple[str, str], access: TableAccess
    ) -> None:
        self._tables = {
            name: dataclasses.replace(table, columns={one: as_keys(of_one) for one, of_one in table.columns.items()})
            for name, table in tables.items()
        }
        self._respelled = {
            (name, one)
            for name, table in tables.items()
            for one, values in table.columns.items()
            if values is not self._tables[name].columns[one]
        }
        self._tables_dir = tables_dir
        self._label = label
        self._access = access
        self._keys: dict[str, tuple[str, ...]] = {}
        self._foreign_keys: dict[tuple[str, tuple[str, ...]], ForeignKey] = {}
        self._edges: dict[str, EdgeRole] = {}
        self._entities: dict[str, list[tuple[str, str]]] = {}
        self._questions: dict[tuple[str, str], str] = {}
        self._rivals: dict[str, list[str]] = {}
        self._unclear: list[str] = []
        self._named_by_label = ""
        self._left_out = {
            name: dict.fromkeys(row_numbers(table), "it numbers the rows, as pandas writes it")
            for name, table in tables.items()
        }
        self._words = words_of_tables(tables)
        self._columns = {name: self._key_columns(table) for name, table in self._tables.items()}

    def find(self) -> Database:
        """Finds keys that names and values tell, then foreign keys, then what only these can tell."""
        tables = self._tables.values()
        self._take_declared_keys()
        is_open = [table for table in tables if not table.declared.primary_key]
        self._keys.update({table.name: (key,) for table in is_open if (key := self._key_of(table))})
        self._take_declared_foreign_keys()
        for table in tables:
            if table.name not in self._keys and not table.declared.foreign_keys and self._names_ends(table):
                self._add_edges(table)
        nodes = [table for table in tables if table.name not in self._edges and table.name not in self._unclear]
        for column in [column for table in nodes for column in self._columns[table.name].values()]:
            if column.has_key_values and (column.table, (column.name,)) not in self._foreign_keys:
                kinds = ask_about_kinds(column, self._columns[column.table], self._words)
                found = Reference(question=kinds) if kinds else find_reference(column, self._ids(), self._words)
                self._take(column, found)
        self._find_alternates()
        self._ask_about_label()
        for table in nodes:
            self._find_entities(table)
        for name in [table.name for table in nodes if table in is_open and self._is_link(table)]:
            del self._keys[name]
        for table in nodes:
            has_data = len(table.columns) > len(self._left_out[table.name])
            if table.name not in self._keys and has_data:
                self._find_role(table)
        named = {key.node_set for key in self._foreign_keys.values()}
        for name in [name for name, key in self._keys.items() if not key or (len(key) > 1 and name not in named)]:
            self._find_composite_key(name)
        self._ask_about_repeated_keys()
        self._ask_about_rivals()
        return Database(
            tables=self._tables,
            keys=self._keys,
            entities={name: tuple(columns) for name, columns in self._entities.items()},
            foreign_keys=tuple(self._foreign_keys[key] for key in sorted(self._foreign_keys)),
            edges=self._edges,
            left_out={name: of_table for name, of_table in self._left_out.items() if of_table},
            questions=tuple(self._questions.values()),
            unclear=tuple(self._unclear),
            named_by_label=self._named_by_label,
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
                if len(key) > 1:
                    self._check_composite(table.name, key)

    def _check_composite(self, table: str, columns: tuple[str, ...]) -> None:
        texts = self._texts(table, columns)
        values = joined_key([texts[name] for name in columns])
        num_distinct, num_rows = pc.count_distinct(values).as_py(), self._tables[table].num_rows
        if num_distinct < num_rows:
            counts = values.drop_null().value_counts()
            repeated = counts.filter(pc.greater(counts.field("counts"), 1))
            example = f", such as {repeated[0]['values'].as_py()!r} in several" if len(repeated) else ", some empty"
            raise ValueError(
                f"`primary_keys` must name columns with other values in each row; got {table}.{','.join(columns)}, "
                f"with {num_distinct:,} different values in {num_rows:,} rows{example}. Name another column, too, or "
                "correct the rows."
            )

    def _take_declared_foreign_keys(self) -> None:
        """Takes declared foreign keys; how many values are null or unknown is counted all the same."""
        for table, one, target in self._declared_foreign_keys():
            if one.is_given and target == table.name and one.columns == self._keys.get(target):
                raise ValueError(
                    f"`foreign_keys` must name other rows than their own; got {table.name}.{','.join(one.columns)}, "
                    f"the key of {target}, for {target!r}. Name another table, or leave it out."
                )
            if one.is_given and target not in self._tables:
                self._entities.setdefault(target, []).append((table.name, one.columns[0]))
                column = key_columns(table.name, table.columns)[one.columns[0]]
                self._take(column, Reference(node_set=target, reason=one.reason))
            elif len(self._keys.get(target, ())) != len(one.columns):
                if one.is_given:
                    raise ValueError(
                        f"`foreign_keys` must name a table with a key of as many columns; got "
                        f"{table.name}.{','.join(one.columns)} for {target!r}. Give the key of {target}, too."
                    )
                self._questions[table.name, one.columns[0]] = (
                    f"{table.name}.{'+'.join(one.columns)} names {one.table} by its declaration, whose rows have no "
                    "such key here: it is no edge set. Add the table, if it is missing."
                )
            elif (table.name, one.columns) in self._foreign_keys:
                self._questions[table.name, one.columns[0]] = (
                    f"{table.name}.{'+'.join(one.columns)} is declared to name {target}, and another table before it: "
                    "it is one edge set. Copy the column under another name to have both."
                )
            elif len(one.columns) == 1:
                column = key_columns(table.name, table.columns)[one.columns[0]]
                by = self._column_named_by(column, one, target)
                self._take(column, Reference(node_set=target, target_column=by, reason=one.reason))
            else:
                self._add_composite(table, one, target)
            if one.is_given:
                self._compare_given(table, one, target)

    def _column_named_by(self, column: KeyColumn, declared: DeclaredForeignKey, target: str) -> str:
        """Finds what a foreign key names, where a user gives another key of its table; "" if it names that key."""
        (key,), of_target = self._keys[target], self._columns[target]
        of_source = self._tables[target].declared.source_key
        if declared.is_given:
            is_known = key in of_target and column.share_in(of_target[key]) > 0
            own = [one for one in of_target.values() if one.is_own_key and column.share_in(one) >= LEAST_BY_VALUES]
            return own[0].name if own and not is_known else ""
        return of_source[0] if len(of_source) == 1 and of_source[0] != key and of_source[0] in of_target else ""

    def _compare_given(self, table: FoundTable, given: DeclaredForeignKey, target: str) -> None:
        """Refuses a given foreign key if no value is a key of its table, and says so if few are."""
        found, place = self._foreign_keys[table.name, given.columns], f"{table.name}.{','.join(given.columns)}"
        if found.num_known or found.num_null == found.num_rows:
            if found.share < LEAST_NAMED:
                self._questions[table.name, given.columns[0]] = (
                    f"{place} is given as the key of {target}, but only {found.share:.1%} of its values are there: "
                    "the other rows have no edge. Is another table meant, or are rows missing?"
                )
            return
        key = self._keys[target]
        examples = " and ".join(
            f"{one}.{name}, such as {self._tables[one].columns[name].values[:3].to_pylist()}"
            for one, columns in ((table.name, given.columns), (target, key))
            for name in columns
            if len(self._tables[one].columns[name].values)
        )
        raise ValueError(
            f"`foreign_keys` must name a table that has some of the column's values as keys; got {place} for "
            f"{target!r}, which has none of them: compare {examples}. Give another table, its key by another column "
            "with --primary-key, or spell both alike."
        )

    def _declared_foreign_keys(self) -> list[tuple[FoundTable, DeclaredForeignKey, str]]:
        """Lists what is declared, with the table that it refers to; a label is no key."""
        return [
            (table, one, name_of_file(f"{one.table}.parquet"))
            for table in self._tables.values()
            for one in table.declared.foreign_keys
            if (table.name, *one.columns) != self._label
        ]

    def _add_composite(self, table: FoundTable, declared: DeclaredForeignKey, target: str) -> None:
        columns = declared.columns
        mine, theirs = self._texts(table.name, columns), self._texts(target, self._keys[target])
        refer = joined_key([mine[name] for name in columns])
        keys = joined_key([theirs[name] for name in self._keys[target]])
        self._foreign_keys[table.name, columns] = ForeignKey(
            table=table.name,
            columns=columns,
            node_set=target,
            num_rows=len(refer),
            num_null=refer.null_count,
            num_known=int(pc.sum(pc.is_in(refer.drop_null(), value_set=keys)).as_py() or 0),
            reason=declared.reason,
        )

    def _key_columns(self, table: FoundTable) -> dict[str, KeyColumn]:
        """Describes the columns with values that may be keys."""
        left_out = {
            *self._left_out[table.name],
            *table.declared.no_keys,
            *(self._label[1:] if table.name == self._label[0] else ()),
        }
        return {
            name: column
            for name, column in key_columns(table.name, table.columns).items()
            if name and name not in left_out and column.values.num_distinct
        }

    def _key_of(self, table: FoundTable) -> str:
        """Finds the one column that holds the ids of a table's rows; "" if there is none."""
        # A column without values, or of values that are no texts or numbers, holds no ids.
        plain = next((one for one in _PLAIN_KEYS if one in table.columns and _may_hold_ids(table.columns[one])), "")
        # Where two rows have the same, reading them says so.
        if plain or self._names_ends(table):
            return plain
        others = [
            column for name, columns in self._columns.items() if name != table.name for column in columns.values()
        ]
        columns = self._columns[table.name].values()
        key = choose_primary_key(table.name, columns, others, self._words)
        self._rivals[table.name] = find_rival_keys(key, table.name, columns, others, self._words)
        return key

    def _names_ends(self, table: FoundTable) -> bool:
        ends = named_ends(list(table.columns))
        return table.name != self._label[0] and ends is not None and not {*ends} & {*table.declared.no_keys}

    def _ids(self) -> dict[str, KeyColumn]:
        return {
            name: self._columns[name][key[0]]
            for name, key in self._keys.items()
            if len(key) == 1 and key[0] in self._columns[name]
        }

    def _add_edges(self, table: FoundTable) -> None:
        """Takes a table for edges whose columns are named source and target, or so, if both hold ids of one table."""
        ids, ends = {name: key.values for name, key in self._ids().items()}, named_ends(list(table.columns))
        if ends is None:
            return
        found = []
        for end in ends:
            holders = holders_of(table.columns[end], ids)
            named = [one for one in holders if ends_with(words_of(end), self._words[one])]
            found += [named or holders]
        if not all(len(holders) == 1 for holders in found):
            self._unclear.append(table.name)
            return
        ((source,), (target,)), (source_column, target_column) = found, ends
        self._edges[table.name] = EdgeRole(
            table=table.name, source_column=source_column, source=source, target_column=target_column, target=target
        )
        for column, node_set in ((source_column, source), (target_column, target)):
            self._take(self._columns[table.name][column], Reference(node_set=node_set, reason="an end of edges"))

    def _take(self, column: KeyColumn, reference: Reference) -> None:
        """Notes what a column refers to, and what is open."""
        if reference.question:
            self._questions[column.table, column.name] = reference.question
        if not reference.node_set:
            return
        if not reference.question:
            self._questions.pop((column.table, column.name), None)
        values, of_target = column.values, self._columns.get(reference.node_set, {})
        target = reference.target_column or next(iter(self._keys.get(reference.node_set, ())), "")
        self._foreign_keys[column.table, (column.name,)] = ForeignKey(
            table=column.table,
            columns=(column.name,),
            node_set=reference.node_set,
            target_column=reference.target_column,
            num_rows=values.num_rows,
            num_null=values.num_rows - values.num_filled,
            num_known=values.count_in(of_target[target].values) if target else values.num_filled,
            reason=reference.reason,
        )

    def _find_alternates(self) -> None:
        """Finds what refers to another column than the primary key, where nothing else refers to the table."""
        for node_set, key in self._ids().items():
            candidates = [
                column
                for column in self._columns[node_set].values()
                if column.may_be_key
                and column.name != key.name
                and column.values.num_distinct == column.values.num_filled
                and (node_set, (column.name,)) not in self._foreign_keys
            ]
            referring = {one.table for one in self._foreign_keys.values() if one.node_set == node_set}
            for table, columns in self._columns.items() if candidates else ():
                if table in {node_set, *referring, *self._edges, *self._unclear}:
                    continue
                for column in columns.values():
                    is_open = column.may_be_key and not column.values.is_key
                    if is_open and (table, (column.name,)) not in self._foreign_keys:
                        self._take(column, find_alternate(column, node_set, self._words[node_set], candidates))

    def _ask_about_label(self) -> None:
        """Says so if the label is a foreign key: which row of another table it is. A given one is a class, unasked."""
        table, name = self._label
        columns = self._tables[table].columns if table in self._tables else {}
        if name not in columns:
            return
        column = key_columns(table, columns)[name]
        if column.values.is_key and self._is_named_as_key(column):
            raise ValueError(
                f"`label` must be a column with values to predict; got '{table}.{name}', whose values are the ids of "
                "the table's rows. Give another column."
            )
        declared = self._tables[table].declared
        given = next((one.table for one in declared.foreign_keys if one.is_given and one.columns == (name,)), "")
        if given or name not in declared.no_keys:
            self._named_by_label = given or find_reference(column, self._ids(), self._words).node_set
        found = self._named_by_label
        if found and not given:
            self._questions[self._label] = (
                f"{table}.{name}, the label, names {found}: should a model choose one of its rows? Then predict "
                "links, as docs/tutorials/predict_links.md shows. Otherwise each id that occurs is a class."
            )

    def _ask_about_repeated_keys(self) -> None:
        """Says so if few rows keep a column from being the key that its name makes it."""
        for table in [name for name, columns in self._keys.items() if not columns]:
            for name, column in self._columns[table].items():
                question = ask_about_repeated_key(column) if self._is_named_as_key(column) else ""
                if question:
                    self._questions[table, name] = question

    def _ask_about_rivals(self) -> None:
        """Says so if another column could be the key as well."""
        referred = {(key.node_set, key.target_column) for key in self._foreign_keys.values()}
        for table, rivals in self._rivals.items():
            for name in rivals if len(self._keys.get(table, ())) == 1 else ():
                if (table, (name,)) not in self._foreign_keys and (table, name) not in referred:
                    self._questions[table, name] = (
                        f"{table} has two columns that could be its key, {self._keys[table][0]} and {name}: the first "
                        f"is taken. If {name} is what other tables name, give --primary-key {table}={name}."
                    )

    def _is_named_as_key(self, column: KeyColumn) -> bool:
        return says_key(column.name) and without_key_word(column.key_words) == list(self._words[column.table])

    def _find_entities(self, table: FoundTable) -> None:
        """Takes ids that repeat, and that no table has, for nodes without a table."""
        known = [
            self._words[name]
            for name, columns in self._columns.items()
            # A table of several rows for each id does not tell what has the id.
            if all(self._words[name] != one.words or one.values.is_key for one in columns.values())
        ]
        for name, column in self._columns[table.name].items():
            is_taken = (table.name, (name,)) in self._foreign_keys or name in self._keys.get(table.name, ())
            least = 2 if names_entity(name) else _FEW_ENTITIES
            if (
                is_taken
                or (table.name, name) in self._questions
                or not (column.may_be_key and says_id(name))
                or not least <= column.values.num_distinct <= _MOST_DISTINCT * column.values.num_filled
                or column.words in known
            ):
                continue
            entity = entity_name(name)
            entity = f"{entity}_id" if entity in self._tables else entity
            self._entities.setdefault(entity, []).append((table.name, name))
            self._take(column, Reference(node_set=entity, reason="its name says that it holds ids"))

    def _ends_of(self, table: FoundTable) -> list[ForeignKey]:
        of_table = {key.columns[0]: key for (name, _), key in self._foreign_keys.items() if name == table.name}
        return [of_table[column] for column in table.columns if column in of_table]

    def _is_link(self, table: FoundTable) -> bool:
        """Whether a table's key is one of two foreign keys, in which each value occurs only once by chance."""
        ends, key = self._ends_of(table), self._keys.get(table.name, ())
        return (
            len(ends) == len({end.columns for end in ends} | {key})
            and len(ends) == 2
            and len(table.columns) <= len(ends) + _MOST_OF_LINK
            and table.name != self._label[0]
            and all(one.node_set != table.name for one in self._foreign_keys.values())
        )

    def _find_role(self, table: FoundTable) -> None:
        """Takes a table without a key for edges if it has two foreign keys, or nothing but ids, otherwise for nodes."""
        if len(table.columns) == len(self._columns[table.name]) == 2 and not self._ends_of(table):
            ids = {name: key.values for name, key in self._ids().items()}
            holders = {name: holders_of(column, ids) for name, column in table.columns.items()}
            if all(len(of_column) == 1 and not names_entity(name) for name, of_column in holders.items()):
                for name, (node_set,) in holders.items():
                    column = self._columns[table.name][name]
                    self._take(column, Reference(node_set=node_set, reason="there is nothing else in the table"))
        ends = self._ends_of(table)
        if len(ends) != 2 or table.name == self._label[0]:
            self._keys[table.name] = ()
            return
        source, target = ends
        self._edges[table.name] = EdgeRole(
            table=table.name,
            source_column=source.columns[0],
            source=source.node_set,
            target_column=target.columns[0],
            target=target.node_set,
        )

    def _find_composite_key(self, table: str) -> None:
        others = {name: self._columns[name] for name in self._keys if name != table}
        for key in find_composite_key(table, self._columns[table], others, self._texts, self._keys[table]):
            self._keys[table] = key.columns
            self._foreign_keys[key.table, key.columns] = key

    def _texts(self, table: str, columns: Sequence[str]) -> dict[str, pa.Array]:
        filename = self._tables[table].filename
        layout = undeclared_layout("node", table, self._tables_dir, filename, self._access)
        parts: dict[str, list[pa.Array]] = {name: [] for name in columns}
        for block in read_all_columns(layout):
            for name in columns:
                spellings = self._tables[table].columns[name].null_spellings
                column = drop_null_spellings(block.columns.column(name), spellings)
                parts[name].append(as_texts(column, f"{filename}, column {name!r}"))
        return {name: pa.concat_arrays(found) for name, found in parts.items()}


def _may_hold_ids(column: ColumnValues) -> bool:
    return column.num_distinct > 0 or column.num_rows == 0
