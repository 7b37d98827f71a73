"""Reads from a graph schema what names its tables, without TensorFlow, which takes seconds to import."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE

_FILE = "tfx_gnn/planning/light_schema.proto"
_STRING, _MESSAGE = 9, 11
_MESSAGES: Mapping[str, tuple[tuple[str, int, str, bool], ...]] = {
    "Extra": (("key", 1, "", False), ("value", 2, "", False)),
    "Metadata": (("filename", 1, "", False), ("extra", 2, "Extra", True)),
    "Set": (("metadata", 1, "Metadata", False), ("source", 2, "", False), ("target", 3, "", False)),
    "Entry": (("key", 1, "", False), ("value", 2, "Set", False)),
    "Schema": (("node_sets", 1, "Entry", True), ("edge_sets", 2, "Entry", True)),
}
"""Messages that read the text of a `GraphSchema`. Of each field: name, number, its message, whether it is repeated."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SetTable:
    """The table of a node set or an edge set.

    Attributes:
        filename: file name or pattern, relative to the tables; "" if the set has no table.
        extra: `metadata.extra` by key.
        ends: node sets of the sources and the targets; empty for a node set.
    """

    filename: str
    extra: Mapping[str, str]
    ends: tuple[str, ...]

    def column(self, end: str) -> str:
        """Returns the name of the column "id", "source" or "target"."""
        if self.extra.get("edge_type") == "reversed" and end != "id":
            end = "target" if end == "source" else "source"
        return self.extra.get(f"{end}_column") or end


def read_light_schema(tables_dir: str) -> tuple[dict[str, SetTable], dict[str, SetTable]]:
    """Reads the tables of the node sets and of the edge sets.

    Raises:
        FileNotFoundError: if the folder has no schema.
        ValueError: if the schema is malformed.
    """
    path = os.path.join(tables_dir, GRAPH_SCHEMA_FILE)
    schema: Any = _schema_class()()
    with open(path, encoding="utf-8") as file:
        try:
            text_format.Parse(file.read(), schema, allow_unknown_field=True)
        except text_format.ParseError as error:
            raise ValueError(
                f"`{path}` must be a graph schema in text format; got an error: {error}. Correct it there; "
                "`tfx-gnn check` shows the line."
            ) from error
    return _tables(schema.node_sets), _tables(schema.edge_sets)


def _tables(entries: Any) -> dict[str, SetTable]:
    return {
        entry.key: SetTable(
            filename=entry.value.metadata.filename,
            extra={extra.key: extra.value for extra in entry.value.metadata.extra},
            ends=tuple(filter(None, (entry.value.source, entry.value.target))),
        )
        for entry in entries
    }


@functools.cache
def _schema_class() -> Any:
    """Makes the message: the generated one imports TensorFlow, whose types its features have."""
    file = descriptor_pb2.FileDescriptorProto(name=_FILE, package="tfx_gnn.planning", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, is_repeated in fields:
            message.field.add(
                name=field,
                number=number,
                label=3 if is_repeated else 1,
                type=_MESSAGE if kind else _STRING,
                type_name=f".tfx_gnn.planning.{kind}" if kind else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("tfx_gnn.planning.Schema")
    factory: Any = message_factory
    if hasattr(factory, "GetMessageClass"):
        return factory.GetMessageClass(descriptor)
    # protobuf 3.20.
    return factory.MessageFactory(pool).GetPrototype(descriptor)
