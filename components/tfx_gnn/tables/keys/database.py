"""How the tables of a database refer to each other, and the roles in a graph that follow."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.amounts import describe_amounts
from tfx_gnn.tables.column_values import ColumnValues
from tfx_gnn.tables.keys.key_columns import LEAST_BY_VALUES
from tfx_gnn.tables.keys.table_roles import EdgeRole, FoundTable, TableRoles

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
        target_column: the column of that table whose values these are, if it is not its primary key.
    """

    table: str
    columns: tuple[str, ...]
    node_set: str
    num_rows: int
    num_null: int
    num_known: int
    reason: str
    target_column: str = ""

    @property
    def share(self) -> float:
        """Share of the rows with a value that name a node that is there."""
        return self.num_known / max(self.num_rows - self.num_null, 1)

    def edge_set(self, taken: Collection[str]) -> str:
        """Names the edge set, other than the names that are taken."""
        name = re.sub(r"\W+", "_", "_".join((self.table, *self.columns)))
        while name in taken:
            name += "_edges"
        return name

    def describe(self) -> str:
        """Says in a sentence what refers to what, and how often it does not."""
        place = f"{self.table}.{'+'.join(self.columns)}"
        by = f"by {self.target_column} " if self.target_column else ""
        parts = [f"{place} names {self.node_set} {by}in {self.num_known / max(self.num_rows, 1):.1%} of its rows"]
        if self.num_null:
            parts.append(
                "1 row is empty and has no edge"
                if self.num_null == 1
                else f"{self.num_null:,} rows are empty and have no edge"
            )
        if unknown := self.num_rows - self.num_null - self.num_known:
            parts.append(f"{unknown:,} {'names' if unknown == 1 else 'name'} nothing that is there")
        return f"{'; '.join(parts)} ({self.reason})."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Database:
    """How tables refer to each other.

    Attributes:
        tables: all tables, by name; their values are spelled as keys are, see `key_texts`.
        keys: by node set with a table, the columns of its primary key; none where a row is its number.
        entities: by node set without a table, the columns, of tables, that hold its ids.
        foreign_keys: what refers to what, from tables of nodes and of edges.
        edges: tables of edges, with the columns of their ends.
        left_out: by table, columns that are no data of it, and why.
        questions: what the values leave open, a sentence each.
        unclear: tables of edges, by the names of their columns, whose ends are ids of no table or of several.
        named_by_label: the node set that the label names, whose edges are left out; empty if it names none.
        respelled: tables and columns whose values are spelled otherwise in the files, such as 7.0.
    """

    tables: Mapping[str, FoundTable]
    keys: Mapping[str, tuple[str, ...]]
    entities: Mapping[str, tuple[tuple[str, str], ...]]
    foreign_keys: tuple[ForeignKey, ...]
    edges: Mapping[str, EdgeRole]
    left_out: Mapping[str, Mapping[str, str]]
    questions: tuple[str, ...]
    unclear: tuple[str, ...]
    named_by_label: str = ""
    respelled: frozenset[tuple[str, str]]

    @property
    def is_tidy(self) -> bool:
        """Whether the tables can be read where they are: each node has an id, and each foreign key a value."""
        columns = {(name, key[0]) for name, key in self.keys.items() if key}
        columns |= {(key.table, key.columns[0]) for key in self.foreign_keys}
        return (
            not self.entities
            and not self.unclear
            and not self.left_out
            and self.respelled.isdisjoint(columns)
            and all(len(key) == 1 for key in self.keys.values())
            and all(len(key.columns) == 1 and not key.num_null for key in self.foreign_keys)
            and not any(key.target_column for key in self.foreign_keys)
            and all(key.share >= LEAST_BY_VALUES for key in self.foreign_keys)
        )

    @property
    def has_other_spellings(self) -> bool:
        """Whether texts stand for numbers or for no value, or items of lists do: a table must be written anew.

        So must one whose integers are written as 7.0.
        """
        columns = [column for table in self.tables.values() for column in table.columns.values()]
        if any(self.tables[name].columns[one].are_integers_with_gaps for name, one in self.respelled):
            return True
        return any(column.null_spellings or column.num_incomplete or column.amounts for column in columns)

    def roles(self, tables_dir: str) -> TableRoles:
        """Tells which tables hold nodes and which hold edges, if they can be read where they are.

        Args:
            tables_dir: their folder, for messages.

        Raises:
            ValueError: if they cannot; the message has the command that can say what a table is.
        """
        if not self.is_tidy:
            raise ValueError(self._refusal(tables_dir))
        edges = dict(self.edges)
        for key in self.foreign_keys:
            if key.table in self.keys:
                edges[key.edge_set({*self.tables, *edges})] = EdgeRole(
                    table=key.table,
                    source_column=self.keys[key.table][0],
                    source=key.table,
                    target_column=key.columns[0],
                    target=key.node_set,
                )
        return TableRoles(tables=self.tables, id_columns={name: key[0] for name, key in self.keys.items()}, edges=edges)

    def describe(self) -> Iterator[str]:
        """Says what was decided, a sentence each."""
        for name, key in self.keys.items():
            if not key:
                yield f"{name} has no column of ids: a row's id is its number in the table, from 0."
            elif len(key) == 1:
                yield f"{name} has the key {key[0]}."
            else:
                yield f"{name} has the key {' + '.join(key)}: its ids are their values, joined by {_SEPARATOR!r}."
        yield from self._describe_tables_without_data()
        for name, columns in self.entities.items():
            places = ", ".join(f"{table}.{column}" for table, column in columns)
            yield f"{name} has no table: its nodes are the different values of {places}, without features."
        for foreign_key in self.foreign_keys:
            yield foreign_key.describe()
        yield from self._describe_values()
        for name, of_table in self.left_out.items():
            for column, reason in of_table.items():
                place = f"{name}.{column}" if column else f"The column without a name of {name}"
                yield f"{place} is left out: {reason}."

    def _describe_tables_without_data(self) -> Iterator[str]:
        for name in self.tables:
            if name not in self.keys and name not in self.edges and name not in self.unclear:
                yield f"{name} is left out: it has no column but the numbers of its rows."
        joined = {name for key in self.foreign_keys for name in (key.table, key.node_set)}
        alone = [name for name in self.keys if name not in joined]
        if alone and len(self.keys) > 1:
            yield (
                f"{', '.join(alone)} {'has' if len(alone) == 1 else 'have'} no edges: no column was found that names "
                f"{'its' if len(alone) == 1 else 'their'} rows, nor one that names rows of another table. If there is "
                "one, give --foreign-key TABLE.COLUMN=TABLE."
            )
        empty = [name for name, table in self.tables.items() if not table.num_rows]
        if empty:
            yield f"{', '.join(empty)} {'has' if len(empty) == 1 else 'have'} no rows, and no columns as yet."

    def _describe_values(self) -> Iterator[str]:
        for name, table in self.tables.items():
            nulls = {one: column.null_spellings for one, column in table.columns.items() if column.null_spellings}
            if nulls:
                spelled = " and ".join(repr(text) for text in sorted(set().union(*nulls.values())))
                places = ", ".join(f"{one} ({sum(found.values()):,} rows)" for one, found in nulls.items())
                yield f"{name}: {spelled} stand{'' if ' and ' in spelled else 's'} for no value in {places}."
            yield from describe_amounts(name, table.columns)
            for one, column in table.columns.items():
                if column.num_incomplete:
                    what = "count as no value" if column.has_one_length else "are kept without these items"
                    yield f"{name}.{one}: {column.num_incomplete:,} lists with items that are null or NaN {what}."
            samples = [one for one, column in table.columns.items() if column.is_sample]
            if samples:
                yield f"{name}: of {', '.join(samples)}, a part of the rows was looked at, evenly over the table."

    def _ids(self) -> dict[str, ColumnValues]:
        return {name: self.tables[name].columns[key[0]] for name, key in self.keys.items() if len(key) == 1}

    def _refusal(self, tables_dir: str) -> str:
        ids = self._ids()
        open_tables = [name for name, key in self.keys.items() if len(key) != 1]
        name = next(iter((*self.unclear, *open_tables, *(key.table for key in self.foreign_keys), *self.tables)))
        table = self.tables[name]
        held = {column: holders_of(values, ids) for column, values in table.columns.items()}
        holding = ", ".join(f"{column} (of {' or '.join(held[column])})" for column in held if held[column])
        others = ", ".join(column for column in held if not held[column])
        known = ", ".join(f"{one} such as {of.values[0].as_py()!r}" for one, of in ids.items() if of.num_distinct)
        command = ["tfx-gnn", "tables", "infer-schema", "--tables-dir", tables_dir]
        for node_set in ids:
            (column,) = self.keys[node_set]
            command += ["--node", f"{node_set}={self.tables[node_set].filename}"]
            command += ["--id-column", f"{node_set}={column}"] if column not in ("id", "#id") else []
        for edge_set, role in self.edges.items():
            command += ["--edge", f"{edge_set}={role.source},{role.target},{self.tables[edge_set].filename}"]
            command += ["--source-column", f"{edge_set}={role.source_column}"]
            command += ["--target-column", f"{edge_set}={role.target_column}"]
        command += ["--edge", f"{name}=SET,SET,{table.filename}"]
        command += ["--source-column", f"{name}=COLUMN", "--target-column", f"{name}=COLUMN"]
        return (
            "`tables_dir` must show which tables hold nodes, by a column with another id in every row, and which hold "
            f"edges, by two columns of such ids; got {table.filename}, where ids of nodes are in "
            f"{holding or 'no column'} and not in {others or 'any other'}; the ids known are {known or 'none'}. Rename "
            "the columns to id, or to source and target; or write the schema, with SET and COLUMN filled in, or "
            f"without the last table: {shlex.join(command)}"
        )


def holders_of(column: ColumnValues, ids: Mapping[str, ColumnValues]) -> list[str]:
    """Lists the node sets of whose ids nearly all values of a column are."""
    least = LEAST_BY_VALUES * column.num_filled
    return [name for name, known in ids.items() if column.num_filled and column.count_in(known) >= least]


def joined_key(columns: Sequence[pa.Array]) -> pa.Array:
    """Joins the values of the columns of a key to one text by row, large_string [num_rows]; null if one is null.

    A separator or backslash within a value is escaped, so that different values give different texts.
    """
    escaped = [
        pc.replace_substring(pc.replace_substring(key_texts(column), "\\", "\\\\"), _SEPARATOR, f"\\{_SEPARATOR}")
        for column in columns
    ]
    return pc.binary_join_element_wise(*escaped, pa.scalar(_SEPARATOR, pa.large_string()))


def key_texts(texts: pa.Array) -> pa.Array:
    """Spells values as keys, of the shape of `texts`.

    Whole numbers are without a fraction, because pandas writes integers as 7.0 where the column has nulls; the empty
    text is null.
    """
    whole = pc.replace_substring_regex(texts, r"^(-?\d+)\.0+$", r"\1")
    return pc.if_else(pc.equal(whole, ""), pa.scalar(None, whole.type), whole)


def as_keys(column: ColumnValues) -> ColumnValues:
    """Spells the values of a column as keys, see `key_texts`."""
    values = key_texts(column.values)
    if values.equals(column.values):
        return column
    is_filled = values.is_valid()
    num_empty = pc.sum(column.counts.filter(values.is_null())).as_py() or 0
    return dataclasses.replace(
        column,
        values=values.filter(is_filled),
        counts=column.counts.filter(is_filled),
        num_filled=column.num_filled - num_empty,
    )
