"""Keys, times and missing values of tables that their user gives, before any are found."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.tables.keys.declared_keys import DeclaredForeignKey, DeclaredKeys
from tfx_gnn.tables.keys.table_roles import FoundTable
from tfx_gnn.tables.null_spellings import take_given
from tfx_gnn.tables.table_names import words_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class GivenKeys:
    """What a user says of tables; the rest is found.

    Attributes:
        primary_keys: by table, the columns of its key.
        foreign_keys: by table and columns of it, the table that they name, or a name for entities without a table;
            empty if they name nothing.
        time_columns: by table, the column with the times of its rows; empty if they have none.
        missing_values: by table and column, what stands for no value there.
    """

    primary_keys: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    foreign_keys: Mapping[tuple[str, tuple[str, ...]], str] = dataclasses.field(default_factory=dict)
    time_columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    missing_values: Mapping[tuple[str, str], tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.primary_keys or self.foreign_keys or self.time_columns or self.missing_values)

    def declare(self, tables: Mapping[str, FoundTable]) -> dict[str, FoundTable]:
        """Declares the keys in tables, where they replace what their source declares.

        Args:
            tables: the tables by name.

        Raises:
            ValueError: if a table or column is not there, a column is no key of its table, or has no such value.
        """
        tables = {name: self._without_missing(table) for name, table in tables.items()}
        for name, column in self.missing_values:
            _check_columns("missing_values", name, (column,), tables)
        for name, columns in self.primary_keys.items():
            _check_columns("primary_keys", name, columns, tables)
            (only, *others) = columns
            values = tables[name].columns[only]
            if not others and not values.is_key:
                raise ValueError(
                    f"`primary_keys` must name a column with another value in each row; got {name}.{only}, with "
                    f"{values.num_distinct:,} different values in {values.num_rows:,} rows. Name another, or several."
                )
        for (name, columns), target in self.foreign_keys.items():
            _check_columns("foreign_keys", name, columns, tables)
            _check_target(name, columns, target, tables)
            num_named = len(self.primary_keys.get(target, columns[:1]))
            if len(columns) > 1 and not target:
                places = " and ".join(f"{name}.{column}=" for column in columns)
                raise ValueError(
                    f"`foreign_keys` must say of one column at a time that it is no key; got {name}."
                    f"{','.join(columns)} for no table. Write {places}."
                )
            if len(columns) > 1 and (target not in tables or len(columns) != num_named):
                raise ValueError(
                    f"`foreign_keys` must have the columns of a key of another table; got {name}.{','.join(columns)} "
                    f"for {target!r}. Give the key of that table, too, with as many columns."
                )
        for name, column in self.time_columns.items():
            _check_columns("time_columns", name, (column,) if column else (), tables)
        return {name: dataclasses.replace(table, declared=self._declared(table)) for name, table in tables.items()}

    def _without_missing(self, table: FoundTable) -> FoundTable:
        columns = dict(table.columns)
        for (name, column), given in self.missing_values.items():
            if name == table.name and column in columns:
                try:
                    columns[column] = take_given(columns[column], given)
                except ValueError as error:
                    raise ValueError(
                        f"`missing_values` must be values of the column; for {name}.{column} got {error}. Write one "
                        "as it is there."
                    ) from error
        return dataclasses.replace(table, columns=columns)

    def _declared(self, table: FoundTable) -> DeclaredKeys:
        declared = table.declared
        given = {columns: target for (name, columns), target in self.foreign_keys.items() if name == table.name}
        time = self.time_columns.get(table.name, declared.time_column)
        return DeclaredKeys(
            primary_key=self.primary_keys.get(table.name, declared.primary_key),
            foreign_keys=(
                *(key for key in declared.foreign_keys if key.columns not in given),
                *(
                    DeclaredForeignKey(columns=columns, table=target, is_given=True)
                    for columns, target in given.items()
                    if target
                ),
            ),
            time_column=time,
            no_keys=tuple(columns[0] for columns, target in given.items() if not target),
            is_timeless=table.name in self.time_columns and not time,
            source_key=declared.primary_key if table.name in self.primary_keys else (),
        )


def read_given_keys(
    primary_keys: Iterable[str] = (),
    foreign_keys: Iterable[str] = (),
    time_columns: Iterable[str] = (),
    missing_values: Iterable[str] = (),
) -> GivenKeys:
    """Reads keys and times as a user writes them.

    Args:
        primary_keys: such as "weather=origin,time_hour".
        foreign_keys: such as "orders.party_id=buyers", or "orders.party_id=" for no key.
        time_columns: such as "orders=placed", or "orders=" for no time.
        missing_values: such as "orders.rating=-1"; a column may have several.

    Raises:
        ValueError: if one has another form, or a place is given twice.
    """
    foreign = {}
    for place, target in _pairs("foreign_keys", "TABLE.COLUMN=TABLE", foreign_keys):
        name, _, columns = place.partition(".")
        if not name or not all(columns.split(",")):
            _refuse("foreign_keys", "TABLE.COLUMN=TABLE", f"{place}={target}")
        foreign[name, tuple(columns.split(","))] = target
    primary = {}
    for name, columns in _pairs("primary_keys", "TABLE=COLUMN", primary_keys):
        if not name or not all(columns.split(",")):
            _refuse("primary_keys", "TABLE=COLUMN", f"{name}={columns}")
        primary[name] = tuple(columns.split(","))
    times = dict(_pairs("time_columns", "TABLE=COLUMN", time_columns))
    missing: dict[tuple[str, str], tuple[str, ...]] = {}
    for text in missing_values:
        place, _, value = text.partition("=")
        name, _, column = place.partition(".")
        if not name or not column or not value:
            _refuse("missing_values", "TABLE.COLUMN=VALUE", text)
        missing[name, column] = (*missing.get((name, column), ()), value)
    return GivenKeys(primary_keys=primary, foreign_keys=foreign, time_columns=times, missing_values=missing)


def _pairs(field: str, form: str, given: Iterable[str]) -> list[tuple[str, str]]:
    pairs: dict[str, str] = {}
    for text in given:
        place, equals, value = text.partition("=")
        if not equals:
            _refuse(field, form, text)
        if pairs.setdefault(place, value) != value:
            raise ValueError(
                f"`{field}` must say once what {place!r} is; got {pairs[place]!r} and {value!r}. Keep one."
            )
    return list(pairs.items())


def _refuse(field: str, form: str, text: str) -> NoReturn:
    raise ValueError(f"`{field}` must have the form {form}; got {text!r}. Write it so.")


def _check_target(name: str, columns: Sequence[str], target: str, tables: Mapping[str, FoundTable]) -> None:
    """Refuses names for entities without a table that are meant to be those of tables."""
    if not target or target in tables:
        return
    meant = next((table for table in tables if words_of(table) == words_of(target)), "")
    meant = meant or (target.partition(".")[0] if target.partition(".")[0] in tables else "")
    place = f"{name}.{','.join(columns)}"
    if meant:
        raise ValueError(
            f"`foreign_keys` must name a table, or entities that have none; got {target!r} for {place}, where there is "
            f"a table {meant}. Write {place}={meant}; or, if other entities are meant, another name."
        )
    if not re.fullmatch(r"\w+", target):
        raise ValueError(
            f"`foreign_keys` must name entities without a table by letters, digits and underscores; got {target!r} for "
            f"{place}, and tables {', '.join(tables)}. {did_you_mean(target, tables, otherwise='Write another name.')}"
        )


def _check_columns(field: str, name: str, columns: Sequence[str], tables: Mapping[str, FoundTable]) -> None:
    if name not in tables:
        raise ValueError(
            f"`{field}` must name a table; got {name!r} where there are {', '.join(tables)}. "
            f"{did_you_mean(name, tables)}"
        )
    known = tables[name].columns
    for column in columns:
        if column not in known:
            # Commas and equals signs part the columns that are given.
            is_cut = any("," in one or "=" in one for one in known)
            advice = "Rename the column first if its name has a comma or an equals sign." if is_cut else ""
            raise ValueError(
                f"`{field}` must name a column of its table; got {column!r} of {name}, which has {', '.join(known)}. "
                f"{advice or did_you_mean(column, known)}"
            )
    if len(set(columns)) < len(columns):
        raise ValueError(
            f"`{field}` must name each column once; got {', '.join(columns)} of {name}. Leave out what is repeated."
        )
