"""Finds columns of tables that nothing reads: most likely misspelt, or forgotten in the graph schema."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.io.suggestions import closest_names
from tfx_gnn.tables.schema_layouts import try_layouts
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import TableLayout

_MOST_NAMES = 5
_WORD = re.compile(r"\w+")


def find_unread_columns(
    schema: GraphSchema, tables_dir: str, access: TableAccess, files: Sequence[str], options: object = None
) -> Iterator[str]:
    """Yields a line for each local table with columns that nothing reads.

    A column is read if the graph schema declares it, and is taken for known if its name is a word of the schema's file,
    where a comment may list what is left out, of the user's files, such as a time in a prediction task, or of the
    options of the examples, such as the column of splits.

    Args:
        schema: graph schema of the tables.
        tables_dir: folder of the tables.
        access: how they are read.
        files: the user's files, such as `project.yaml`.
        options: of the examples; its names and values are looked for in its text.
    """
    known = {word for path in (access.schema_path(tables_dir), *files) for word in _words_of(path)}
    known.update(_WORD.findall(repr(options)))
    layouts: dict[tuple[str, ...], list[TableLayout]] = {}
    for _, layout in try_layouts(schema, tables_dir, access):
        # A table that cannot be found is an error of another check.
        if isinstance(layout, TableLayout) and not layout.bigquery:
            # Several sets may be of one table.
            layouts.setdefault(layout.files, []).append(layout)
    for of_table in layouts.values():
        declared = {name for layout in of_table for name in _declared(layout)}
        names = [name for name in _column_names(of_table[0]) if name not in declared]
        unread = [name for name in names if not known.issuperset(_WORD.findall(name) or [name])]
        if unread:
            yield _line(os.path.basename(of_table[0].files[0]), unread, declared)


def _declared(layout: TableLayout) -> Iterator[str]:
    for column in layout.columns.values():
        yield from (column.name, *column.alternatives)
    yield from layout.decoders


def _line(table: str, unread: Sequence[str], declared: set[str]) -> str:
    if len(unread) > 1:
        shown = ", ".join(map(repr, unread[:_MOST_NAMES]))
        more = f" and {len(unread) - _MOST_NAMES} more" if len(unread) > _MOST_NAMES else ""
        return (
            f"{table}: {len(unread)} columns are read by nothing, {shown}{more}. Declare them in the graph schema, or "
            "name them there in a comment."
        )
    (name,) = unread
    alike = closest_names(name, declared)
    meant = f" (did you mean feature {alike[0]!r}?)" if alike else ""
    return (
        f"{table}: column {name!r} is read by nothing{meant}. Declare it in the graph schema, or name it there in a "
        "comment."
    )


def _column_names(layout: TableLayout) -> Sequence[str]:
    # The check of the rows names a file that cannot be read.
    with contextlib.suppress(ValueError, OSError):
        return table_format(layout).column_names(layout.files[0])
    return ()


def _words_of(path: str) -> list[str]:
    # Files of the user that are gone are an error of another check.
    with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
        return _WORD.findall(file.read())
    return []
