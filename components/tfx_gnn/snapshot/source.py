"""The interface of a source: which tables it has, and their rows as batches of Arrow."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Sequence

import pyarrow as pa


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceForeignKey:
    """Columns of a table that refer to columns of another one.

    Attributes:
        columns: the columns.
        schema: schema of the other table, or "".
        table: name of the other table.
        referenced: its columns, in the same order.
    """

    columns: tuple[str, ...]
    schema: str
    table: str
    referenced: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceTable:
    """A table or view of a source, and what the source declares of it.

    Attributes:
        schema: the schema that it lies in, or "" where a source has none.
        name: its name.
        primary_key: the columns of its primary key; none if it declares none.
        foreign_keys: what refers to which table.
        time_column: the column that is declared to hold the time of each row, or "".
        is_view: whether it is read only where it is asked for by name.
        is_readable: whether this user may read it.
    """

    schema: str
    name: str
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[SourceForeignKey, ...] = ()
    time_column: str = ""
    is_view: bool = False
    is_readable: bool = True

    @property
    def place(self) -> str:
        """The name with the schema."""
        return f"{self.schema}.{self.name}" if self.schema else self.name


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableReading:
    """A table that is being read.

    Attributes:
        query: what was asked.
        schema: columns and types.
        batches: the rows, to be read once.
        num_rows: rows that the source has counted.
        notes: what could not be kept as it is, a sentence each.
    """

    query: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    num_rows: int
    notes: tuple[str, ...] = ()


class Source(abc.ABC):
    """A database or a folder, open within a `with` block; all of its tables are of one moment.

    Attributes:
        address: where it is, without passwords.
    """

    address: str

    def __enter__(self) -> Source:
        """Opens it, and closes what is open already if that fails."""
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abc.abstractmethod
    def open(self) -> None:
        """Opens it at the moment of which all tables are.

        Raises:
            ValueError: if it cannot be read.
        """

    @abc.abstractmethod
    def list_tables(self) -> tuple[SourceTable, ...]:
        """Lists tables and views, in the order of their names."""

    @abc.abstractmethod
    def read_table(self, table: SourceTable) -> TableReading:
        """Starts to read a table; the rows must be read before the next call.

        Raises:
            ValueError: if the table has no columns, or cannot be read.
        """

    @abc.abstractmethod
    def taken_at(self) -> str:
        """Returns the moment of which the tables are, in ISO 8601 and UTC."""

    def hold(self, tables: Sequence[SourceTable]) -> None:  # noqa: B027 - few sources need it.
        """Keeps others from changing the form of tables, or from emptying them at once, where a source can do so."""

    def check_unchanged(self) -> None:  # noqa: B027 - few sources need it.
        """Raises a ValueError if the source has changed since it was opened, where it cannot keep one moment."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the reading and lets go of the source, which may be open in part or not at all."""
