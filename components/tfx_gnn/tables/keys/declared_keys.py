"""The keys that a database declares, kept in the schema metadata of a Parquet file.

The form is RelBench's, JSON by key: `pkey_col` is the column of the primary key or null, `fkey_col_to_pkey_table` the
table by column, and `time_col` the column with the time of each row or null. What that form cannot say is under
`composite_keys`: {"primary_key": ["a", "b"], "foreign_keys": [{"columns": ["c", "d"], "table": "t"}]}, with the columns
of a foreign key in the order of the primary key to which they refer.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tfx_gnn.tables.data_files import TableBytes

_PRIMARY = "pkey_col"
_FOREIGN = "fkey_col_to_pkey_table"
_TIME = "time_col"
_COMPOSITE = "composite_keys"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeclaredForeignKey:
    """Columns of a table whose values are declared to be keys of another one.

    Attributes:
        columns: the columns, in the order of the other table's primary key.
        table: name of the other table: its file without the suffix.
        is_given: whether a user says so, rather than the source of the table.
    """

    columns: tuple[str, ...]
    table: str
    is_given: bool = False

    @property
    def reason(self) -> str:
        """What speaks for it besides the values."""
        return "given" if self.is_given else "declared by the database"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeclaredKeys:
    """What a table's source, or a user, declares of its keys; nothing if neither does.

    Attributes:
        primary_key: the columns of the primary key.
        foreign_keys: what refers to which table.
        time_column: the column with the time of each row, or "".
        no_keys: columns that are no keys, whatever their values; files do not keep them.
        is_timeless: whether rows have no times, whatever the columns hold; files do not keep it.
        source_key: the columns of the primary key that the source declares, where a user gives others; files do not
            keep it.
    """

    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[DeclaredForeignKey, ...] = ()
    time_column: str = ""
    no_keys: tuple[str, ...] = ()
    is_timeless: bool = False
    source_key: tuple[str, ...] = ()

    def to_metadata(self) -> dict[str, str]:
        """Returns the metadata of the Parquet file's schema."""
        single = {key.columns[0]: key.table for key in reversed(self.foreign_keys) if len(key.columns) == 1}
        # A column may refer to several tables, and RelBench's form has one.
        others = [key for key in self.foreign_keys if single.get(key.columns[0]) != key.table or len(key.columns) > 1]
        is_composite = len(self.primary_key) > 1
        metadata = {
            _PRIMARY: json.dumps(self.primary_key[0] if len(self.primary_key) == 1 else None),
            _FOREIGN: json.dumps(dict(sorted(single.items()))),
            _TIME: json.dumps(self.time_column or None),
        }
        if is_composite or others:
            metadata[_COMPOSITE] = json.dumps(
                {
                    "primary_key": list(self.primary_key) if is_composite else [],
                    "foreign_keys": [{"columns": list(key.columns), "table": key.table} for key in others],
                }
            )
        return metadata


def read_declared_keys(path: str) -> DeclaredKeys:
    """Reads the keys that a Parquet file keeps; none if it keeps none.

    Raises:
        ValueError: if what it keeps is of another form, or names a column that the file does not have.
    """
    schema = pq.read_schema(pa.PythonFile(TableBytes(path), "r"))
    kept = {key.decode(errors="replace"): value for key, value in (schema.metadata or {}).items()}
    read = _Reader(path, kept)
    primary = read(_PRIMARY, None, lambda value: value is None or isinstance(value, str))
    single = read(_FOREIGN, {}, _are_texts)
    time = read(_TIME, None, lambda value: value is None or isinstance(value, str))
    composite = read(_COMPOSITE, {"primary_key": [], "foreign_keys": []}, _is_composite)
    keys = DeclaredKeys(
        primary_key=(primary,) if primary else tuple(composite["primary_key"]),
        foreign_keys=(
            *(DeclaredForeignKey(columns=(column,), table=table) for column, table in single.items()),
            *(
                DeclaredForeignKey(columns=tuple(key["columns"]), table=key["table"])
                for key in composite["foreign_keys"]
            ),
        ),
        time_column=time or "",
    )
    _check_columns(keys, schema.names, path)
    return keys


class _Reader:
    def __init__(self, path: str, kept: Mapping[str, bytes]) -> None:
        self._path = path
        self._kept = kept

    def __call__(self, key: str, default: Any, is_valid: Callable[[Any], bool]) -> Any:
        if key not in self._kept:
            return default
        try:
            value = json.loads(self._kept[key])
        except ValueError as error:
            raise self._malformed(key) from error
        if not is_valid(value):
            raise self._malformed(key)
        return value

    def _malformed(self, key: str) -> ValueError:
        text = self._kept[key].decode(errors="replace")
        return ValueError(
            f"`{key}` in the schema metadata of a Parquet file must be JSON that names columns and tables; got "
            f"{text[:80]!r} in {self._path}. Write the file again, with another value or without it."
        )


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(table, str) for table in value.values())


def _is_composite(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"primary_key", "foreign_keys"}
        and _is_list_of_texts(value["primary_key"])
        and isinstance(value["foreign_keys"], list)
        and all(
            isinstance(key, dict)
            and set(key) == {"columns", "table"}
            and isinstance(key["table"], str)
            and _is_list_of_texts(key["columns"])
            and key["columns"]
            for key in value["foreign_keys"]
        )
    )


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _check_columns(keys: DeclaredKeys, names: Collection[str], path: str) -> None:
    declared = [*keys.primary_key, *(column for key in keys.foreign_keys for column in key.columns)]
    declared += [keys.time_column] if keys.time_column else []
    for column in declared:
        if column not in names:
            raise ValueError(
                f"`{_PRIMARY}`, `{_FOREIGN}` and `{_TIME}` in the schema metadata of a Parquet file must name its "
                f"columns; got {column!r} in {path}, which has {sorted(names)[:10]}. Write the file again with all of "
                "its columns, or without this metadata."
            )
