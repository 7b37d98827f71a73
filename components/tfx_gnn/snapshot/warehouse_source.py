"""Warehouses, which keep earlier states of their tables: all tables are read as of one time.

Tables, columns and keys are those that the driver lists in ADBC's own form, so one reader serves all drivers.
"""

from __future__ import annotations

import datetime as dt
import os
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfx_gnn.snapshot.adbc_source import AdbcSource
from tfx_gnn.snapshot.drivers import import_driver
from tfx_gnn.snapshot.source import SourceForeignKey, SourceTable
from tfx_gnn.snapshot.source_address import SourceAddress
from tfx_gnn.snapshot.sql_columns import Selected, SqlColumn

_EXTRA = "snapshot-warehouses"
_NO_TABLES = ("INDEX", "TRIGGER")


class WarehouseSource(AdbcSource):
    """Tables of a catalog and, if given, of a schema in it.

    Rows come in the batches of the driver, in no order: to sort a large table is more than a warehouse may do.
    """

    is_ordered = False
    _ADVICE = (
        (r"(?i)denied|forbidden|40[13]|credential|password|authent", "Check the credentials, and the right to read."),
        (r"", "Nothing was written: correct the address, or take it again."),
    )

    def __init__(
        self,
        address: SourceAddress,
        connect: Callable[[], Any],
        *,
        catalog: str,
        schema: str = "",
        quote: str = '"',
        as_of: str = "",
    ) -> None:
        """Notes where the tables are.

        Args:
            address: where the warehouse is.
            connect: makes the connection.
            catalog: the catalog: a project or a database.
            schema: the schema in it; all if it is empty.
            quote: what names are quoted by.
            as_of: what follows the name of a table that is read as of {time}; "" if it is always the newest state.
        """
        super().__init__(address)
        self._connect = connect
        self._catalog, self._schema, self._quote, self._as_of = catalog, schema, quote, as_of
        self._columns: dict[tuple[str, str], list[str]] = {}
        self._views: set[tuple[str, str]] = set()
        self._started = ""

    def connect(self) -> Any:
        """Connects to the warehouse."""
        return self._connect()

    def begin(self) -> None:
        """Asks for the time as of which tables are read."""
        super().begin()
        ((now,),) = self.ask("SELECT CURRENT_TIMESTAMP")
        self._started = _in_utc(now)

    def list_tables(self) -> tuple[SourceTable, ...]:
        """Lists tables and views with the keys that are declared; see `Source`."""
        with self.explained():
            catalogs = self._connection.adbc_get_objects(
                depth="all", catalog_filter=self._catalog, db_schema_filter=self._schema or None
            )
            found = catalogs.read_all().to_pylist()
        listed = {
            (schema["db_schema_name"] or "", table["table_name"]): table
            for catalog in found
            for schema in catalog["catalog_db_schemas"] or ()
            for table in schema["db_schema_tables"] or ()
            if (schema["db_schema_name"] or "").upper() != "INFORMATION_SCHEMA"
            and table["table_type"].upper() not in _NO_TABLES
        }
        self._columns = {
            place: [
                one["column_name"]
                for one in sorted(table["table_columns"] or (), key=lambda one: one["ordinal_position"])
            ]
            for place, table in listed.items()
        }
        self._views = {place for place, table in listed.items() if "VIEW" in table["table_type"].upper()}
        primary = {
            place: next((columns for kind, columns, _ in _constraints(table) if kind == "PRIMARY KEY"), ())
            for place, table in listed.items()
        }
        return tuple(
            SourceTable(
                schema=place[0],
                name=place[1],
                primary_key=primary[place],
                foreign_keys=tuple(
                    _foreign_key(columns, usage, primary)
                    for kind, columns, usage in _constraints(listed[place])
                    if kind == "FOREIGN KEY"
                ),
                is_view=place in self._views,
            )
            for place in sorted(listed)
        )

    def list_columns(self, table: SourceTable) -> Sequence[SqlColumn]:
        """Lists the columns; see `SqlSource`."""
        return [
            SqlColumn(name=name, select=lambda name=name: Selected(expression=self.quoted(name)))
            for name in self._columns[table.schema, table.name]
        ]

    def quoted(self, name: str) -> str:
        """Quotes a name."""
        return f"{self._quote}{name.replace(self._quote, 2 * self._quote)}{self._quote}"

    def place_in_sql(self, table: SourceTable) -> str:
        """Names a table, as of the beginning; views have no earlier states."""
        parts = [self._catalog, table.schema, table.name]
        place = ".".join(self.quoted(part) for part in parts if part)
        is_view = (table.schema, table.name) in self._views
        return place if is_view or not self._as_of else f"{place} {self._as_of.format(time=self.taken_at())}"

    def taken_at(self) -> str:
        """Returns the time as of which tables are read, by the warehouse's clock."""
        return self._started


def open_bigquery(address: SourceAddress) -> WarehouseSource:
    """Opens bigquery://PROJECT/DATASET with Google's default credentials, such as GOOGLE_APPLICATION_CREDENTIALS."""
    dbapi = import_driver("adbc_driver_bigquery.dbapi", _EXTRA)
    options = import_driver("adbc_driver_bigquery", _EXTRA).DatabaseOptions
    project, (dataset,) = _parts(address, "bigquery://PROJECT/DATASET", number=1)
    settings = {options.PROJECT_ID.value: project, options.DATASET_ID.value: dataset}
    return WarehouseSource(
        address,
        lambda: dbapi.connect(db_kwargs=settings, autocommit=True),
        catalog=project,
        schema=dataset,
        quote="`",
        as_of="FOR SYSTEM_TIME AS OF TIMESTAMP '{time}'",
    )


def open_snowflake(address: SourceAddress) -> WarehouseSource:
    """Opens snowflake://USER@ACCOUNT/DATABASE/SCHEMA?warehouse=NAME with the password in SNOWFLAKE_PASSWORD."""
    dbapi = import_driver("adbc_driver_snowflake.dbapi", _EXTRA)
    options = import_driver("adbc_driver_snowflake", _EXTRA).DatabaseOptions
    account, (database, schema) = _parts(address, "snowflake://USER@ACCOUNT/DATABASE/SCHEMA", number=2)
    split = urllib.parse.urlsplit(address.text)
    user, _, password = split.netloc.rpartition("@")[0].partition(":")
    parameters = dict(urllib.parse.parse_qsl(split.query))
    settings = {
        "username": urllib.parse.unquote(user),
        "password": urllib.parse.unquote(password) or os.environ.get("SNOWFLAKE_PASSWORD", ""),
        options.ACCOUNT.value: account,
        options.DATABASE.value: database,
        options.SCHEMA.value: schema,
        options.WAREHOUSE.value: parameters.get("warehouse", ""),
        options.ROLE.value: parameters.get("role", ""),
    }
    return WarehouseSource(
        address,
        lambda: dbapi.connect(db_kwargs={name: value for name, value in settings.items() if value}, autocommit=True),
        catalog=database,
        schema=schema,
        as_of="AT(TIMESTAMP => '{time}'::TIMESTAMP_TZ)",
    )


def _parts(address: SourceAddress, form: str, *, number: int) -> tuple[str, list[str]]:
    split = urllib.parse.urlsplit(address.text)
    parts = [urllib.parse.unquote(part) for part in split.path.split("/") if part]
    host = split.netloc.rpartition("@")[2]
    if not host or len(parts) != number:
        raise ValueError(f"`source` must be {form}; got {address.shown}. Name all of its parts.")
    return host, parts


def _constraints(table: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...], list[dict[str, Any]]]]:
    for one in table["table_constraints"] or ():
        yield one["constraint_type"], tuple(one["constraint_column_names"]), one["constraint_column_usage"] or []


def _foreign_key(
    columns: tuple[str, ...], usage: list[dict[str, Any]], primary: dict[tuple[str, str], tuple[str, ...]]
) -> SourceForeignKey:
    schema, table = usage[0]["fk_db_schema"] or "", usage[0]["fk_table"]
    referenced = tuple(one["fk_column_name"] for one in usage)
    # Some drivers name no columns where the primary key is meant.
    return SourceForeignKey(
        columns=columns,
        schema=schema,
        table=table,
        referenced=referenced if all(referenced) else primary.get((schema, table), ()),
    )


def _in_utc(now: Any) -> str:
    if isinstance(now, str):
        now = dt.datetime.fromisoformat(now)
    return (now if now.tzinfo else now.replace(tzinfo=dt.timezone.utc)).astimezone(dt.timezone.utc).isoformat()
