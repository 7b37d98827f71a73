"""The layout of a graph index on disk: its manifest, and the names of its files.

A folder holds `graph_index.json`, `graph_schema.pbtxt` and raw files (see `column_files`). For each node set:

    nodes.<set>.#id.*               ids, ascending
    nodes.<set>.codes.values        `hash_ids` of each
    nodes.<set>.lookup.codes, .rows codes in ascending order and the row of each; only where ids are texts
    nodes.<set>.column.<name>.*     features

and for each edge set:

    edges.<set>.sources, .targets   rows of both ends, in the order of the table
    edges.<set>.table_rows          rows in the table as written; only where rows were dropped
    edges.<set>.column.<name>.*     features
    edges.<set>.forward.offsets     where the edges of each source begin
    edges.<set>.forward.neighbors   their targets, in the order of `edge_hash`
    edges.<set>.forward.rows        their rows in the table as written
    edges.<set>.backward.*          the same by target

Names of sets and columns are percent-encoded.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tfx_gnn.io.fingerprint import fingerprint_text
from tfx_gnn.io.json_shapes import Shape, read_shaped_json
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.sampling.index.column_files import FileRecord
from tfx_gnn.tables.row_rules import TableReport

MANIFEST_FILE = "graph_index.json"
"""File with the manifest, written last."""

FORMAT_VERSION = 2
DIRECTIONS = ("forward", "backward")

_SCALARS = (
    *(pa.bool_(), pa.float32(), pa.large_string()),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
)
_TYPE_NAMES = {str(dtype): dtype for dtype in _SCALARS}
_LIST = re.compile(r"(?P<scalar>\w+)\[(?P<size>\d*)\]")
_EDGE_KEYS = ("has_gaps", "edge_time", "duplicate_edges")
_TABLE_SHAPE: dict[str, Shape] = {"path": str, "num_rows": int, "columns": {"*": str}, "report": object}
_SHAPE: dict[str, Shape] = {
    "format_version": int,
    "checksum": str,
    "fingerprint": str,
    "node_sets": {"*": _TABLE_SHAPE},
    "edge_sets": {"*": {**_TABLE_SHAPE, "has_gaps": bool, "edge_time": str, "duplicate_edges": str}},
    "context": (_TABLE_SHAPE,),
    "files": {"*": {"dtype": str, "length": int, "sha256": str}},
    "overlay?": {"fingerprint": str, "num_entries": int, "num_bytes": int, "sha256": str},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableEntry:
    """What a manifest says of a table.

    Attributes:
        path: file, or pattern of files, that the table was read from.
        num_rows: nodes, edges, or rows of the context table.
        columns: Arrow types by key, in the order of the table; ids are not among them.
        report: counts of rows read, used and dropped.
        has_gaps: see `EdgeTable.has_gaps`; False for other tables.
        edge_time: integer feature of edges that tells repeated ones apart; "" for none.
        duplicate_edges: what was done with repeated edges, see `RowRules`.
    """

    path: str
    num_rows: int
    columns: Mapping[str, pa.DataType]
    report: TableReport
    has_gaps: bool = False
    edge_time: str = ""
    duplicate_edges: str = "keep"


@dataclasses.dataclass(frozen=True, kw_only=True)
class OverlayPosition:
    """A position in the log of an overlay: an index that was built from it contains the rows before.

    Attributes:
        fingerprint: of the index to which the log belongs.
        num_entries: entries before the position, the header not among them.
        num_bytes: the position in the file.
        sha256: of the bytes before, as hexadecimal digits, so that another log is not taken for this one.
    """

    fingerprint: str
    num_entries: int
    num_bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndexManifest:
    """What a graph index consists of.

    Attributes:
        node_sets: by name.
        edge_sets: by name.
        context: the context table; None if there is none.
        files: by name in the folder; all files except the manifest.
        overlay: which rows of an overlay it contains; None if it was built from tables.
    """

    node_sets: Mapping[str, TableEntry]
    edge_sets: Mapping[str, TableEntry]
    context: TableEntry | None
    files: Mapping[str, FileRecord]
    overlay: OverlayPosition | None = None

    @property
    def reports(self) -> dict[str, TableReport]:
        """Counts of rows read, used and dropped, by table label."""
        context = () if self.context is None else (self.context,)
        entries = (*self.node_sets.values(), *self.edge_sets.values(), *context)
        return {entry.report.table: entry.report for entry in entries}

    @property
    def fingerprint(self) -> str:
        """Hash of the graph, 64 hexadecimal digits: equal for equal schemas and tables, wherever they lay."""
        files = {name: record.sha256 for name, record in self.files.items()}
        return fingerprint_text(json.dumps({"format_version": FORMAT_VERSION, "files": files}, sort_keys=True))


def nodes_file(node_set: str, *parts: str) -> str:
    """Names a file of a node set, or the first part of the names of a column's files."""
    return ".".join(("nodes", _encoded(node_set), *map(_encoded, parts)))


def edges_file(edge_set: str, *parts: str) -> str:
    """Names a file of an edge set, or the first part of the names of a column's files."""
    return ".".join(("edges", _encoded(edge_set), *map(_encoded, parts)))


def context_file(*parts: str) -> str:
    """Names the first part of the names of a context column's files."""
    return ".".join(("context", *map(_encoded, parts)))


def _encoded(name: str) -> str:
    # A dot in a name would make two names of parts into one.
    return urllib.parse.quote(name, safe="#").replace(".", "%2E")


def write_manifest(folder: str, manifest: IndexManifest) -> None:
    """Writes the manifest."""
    content = {
        "format_version": FORMAT_VERSION,
        "fingerprint": manifest.fingerprint,
        "node_sets": {name: _entry_json(entry) for name, entry in manifest.node_sets.items()},
        "edge_sets": {
            name: _entry_json(entry) | {key: getattr(entry, key) for key in _EDGE_KEYS}
            for name, entry in manifest.edge_sets.items()
        },
        "context": None if manifest.context is None else _entry_json(manifest.context),
        "files": {name: dataclasses.asdict(record) for name, record in manifest.files.items()},
    }
    if manifest.overlay is not None:
        content["overlay"] = dataclasses.asdict(manifest.overlay)
    content["checksum"] = _checksum(content)
    with open(os.path.join(folder, MANIFEST_FILE), "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")


def read_manifest(index_dir: str) -> IndexManifest:
    """Reads the manifest of a graph index.

    Raises:
        ValueError: if the folder is no graph index, or one of another format, or the manifest is damaged.
    """
    path = os.path.join(index_dir, MANIFEST_FILE)
    if not has_locks(index_dir):
        raise ValueError(
            f"`index_dir` must be a folder on a local disk, whose files can be mapped into memory; got {index_dir!r}. "
            "Copy the graph index to one first."
        )
    if not os.path.isfile(path):
        raise ValueError(
            f"`index_dir` must be a graph index; got {index_dir!r}, which has no {MANIFEST_FILE}. Build it by "
            "`tfx-gnn index`, or correct the path."
        )
    content = read_shaped_json(path, {"format_version": int})
    if content["format_version"] != FORMAT_VERSION:
        raise ValueError(
            f"`format_version` must be {FORMAT_VERSION}; got {content['format_version']} in {path}. Build the graph "
            "index again by this version of the library."
        )
    content = read_shaped_json(path, _SHAPE)
    found, expected = content["checksum"], _checksum(content)
    if found != expected:
        raise ValueError(
            f"`checksum` must be {expected[:12]}, that of the other values; got {found[:12]} in {path}. The graph "
            "index is damaged: copy or build it again."
        )
    return IndexManifest(
        node_sets={name: _entry(found, path) for name, found in content["node_sets"].items()},
        edge_sets={name: _entry(found, path) for name, found in content["edge_sets"].items()},
        context=None if content["context"] is None else _entry(content["context"], path),
        files={name: FileRecord(**found) for name, found in content["files"].items()},
        overlay=OverlayPosition(**content["overlay"]) if "overlay" in content else None,
    )


def _checksum(content: Mapping[str, Any]) -> str:
    """Hashes a manifest: a damaged number of rows or type of a column would give another graph."""
    others = {key: value for key, value in content.items() if key != "checksum"}
    return fingerprint_text(json.dumps(others, sort_keys=True))


def _entry_json(entry: TableEntry) -> dict[str, Any]:
    columns = {key: _type_name(dtype) for key, dtype in entry.columns.items()}
    report = dataclasses.asdict(entry.report)
    return {"path": entry.path, "num_rows": entry.num_rows, "columns": columns, "report": report}


def _entry(found: Mapping[str, Any], path: str) -> TableEntry:
    return TableEntry(
        path=found["path"],
        num_rows=found["num_rows"],
        columns={key: _type_of(name, path) for key, name in found["columns"].items()},
        report=TableReport(**found["report"]),
        **{key: found[key] for key in _EDGE_KEYS if key in found},
    )


def _type_name(dtype: pa.DataType) -> str:
    """Names a type as "float", "float[16]" for lists of one size, or "float[]" for lists of any size."""
    if pa.types.is_fixed_size_list(dtype):
        return f"{dtype.value_type}[{dtype.list_size}]"
    return f"{dtype.value_type}[]" if pa.types.is_large_list(dtype) else str(dtype)


def _type_of(name: str, path: str) -> pa.DataType:
    match = _LIST.fullmatch(name)
    scalar = _TYPE_NAMES.get(match["scalar"] if match else name)
    if scalar is None:
        raise ValueError(
            f"`columns` must have types of columns; got {name!r} in {path}. The graph index is damaged: copy or build "
            "it again."
        )
    if match is None:
        return scalar
    return pa.list_(scalar, int(match["size"])) if match["size"] else pa.large_list(scalar)
