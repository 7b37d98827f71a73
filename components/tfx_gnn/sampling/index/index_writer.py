"""Writes the files of a graph index: what building one from tables and from another index have in common."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema import schema_io as graph_schema
from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE
from tfx_gnn.sampling.index import files
from tfx_gnn.sampling.index.column_files import ColumnWriter, FileRecord, MappedFiles, ValuesWriter, record_file
from tfx_gnn.sampling.index.external_sort import CHUNK, row_dtype, write_adjacency
from tfx_gnn.sampling.index.files import IndexManifest, OverlayPosition, TableEntry
from tfx_gnn.sampling.index.node_lookup import sort_codes
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY

_SCRATCH = "scratch"
END_FILES = {SOURCE_KEY: "sources", TARGET_KEY: "targets"}
"""Last part of the names of the files with the rows of the nodes at each end of edges, by key."""

_Integers = npt.NDArray[np.int64]


class IndexWriter:
    """Writes an index into a folder, table by table.

    Attributes:
        folder: where to write.
        scratch: folder in it for temporary files.
        files: what was written, by name.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.scratch = os.path.join(folder, _SCRATCH)
        self.files: dict[str, FileRecord] = {}
        os.mkdir(self.scratch)

    def mapped(self) -> MappedFiles:
        """Returns the files that were written so far."""
        return MappedFiles(self.folder, self.files)

    def write_column(self, place: str, column: pa.Array, chunks: Iterable[_Integers]) -> None:
        """Writes the values of a column at some positions."""
        writer = ColumnWriter(self.folder, place, column.type)
        for rows in chunks:
            writer.append(column.take(pa.array(rows)))
        self.files.update(writer.finish())

    def write_values(self, place: str, dtype: npt.DTypeLike, pieces: Iterable[npt.NDArray[Any]]) -> None:
        """Writes the pieces of an array."""
        writer = ValuesWriter(self.folder, place, dtype)
        for piece in pieces:
            writer.append(piece)
        self.files.update(writer.finish())

    def write_codes(self, name: str, ids: pa.Array, place: str) -> None:
        """Writes the hashes of the ids of a node set, and what finds the rows of texts by them."""
        codes_file = files.nodes_file(name, "codes")
        self.write_values(
            codes_file, np.uint64, (hash_ids(ids.slice(first, CHUNK)) for first in range(0, len(ids), CHUNK))
        )
        if pa.types.is_integer(ids.type):
            return
        codes = self.mapped().values(codes_file)
        rows = sort_codes(ids, codes, place)
        self.write_values(
            files.nodes_file(name, "lookup", "codes"), np.uint64, (codes[piece] for piece in pieces_of(rows))
        )
        self.write_values(files.nodes_file(name, "lookup", "rows"), row_dtype(len(ids)), pieces_of(rows))

    def write_ends(self, name: str, key: str, dtype: npt.DTypeLike, pieces: Iterable[npt.NDArray[Any]]) -> None:
        """Writes the rows of the nodes at one end, "#source" or "#target", of an edge set."""
        self.write_values(files.edges_file(name, END_FILES[key]), dtype, pieces)

    def write_rows(self, name: str, pieces: Iterable[npt.NDArray[Any]]) -> None:
        """Writes the rows of edges in their table as written, of an edge set with gaps."""
        self.write_values(files.edges_file(name, "table_rows"), np.int64, pieces)

    def ends_of(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Returns the rows of the nodes at both ends of an edge set, by key."""
        mapped = self.mapped()
        return {key: mapped.values(files.edges_file(name, part)) for key, part in END_FILES.items()}

    def write_edges_by_node(self, name: str, num_nodes: Mapping[str, int], *, has_gaps: bool) -> None:
        """Writes the edges of a set by node, in both directions, once their ends are written.

        `num_nodes` has the number of nodes at each end, by key.
        """
        ends = self.ends_of(name)
        for direction, start, end in (("forward", SOURCE_KEY, TARGET_KEY), ("backward", TARGET_KEY, SOURCE_KEY)):
            self.files.update(
                write_adjacency(
                    self.folder,
                    files.edges_file(name, direction),
                    starts=ends[start],
                    ends=ends[end],
                    rows=self.mapped().values(files.edges_file(name, "table_rows")) if has_gaps else None,
                    num_nodes=num_nodes[start],
                    end_bound=num_nodes[end],
                    scratch=self.scratch,
                )
            )

    def ids_of(self, name: str, entry: TableEntry) -> pa.Array:
        """Returns the ids of a node set that were written."""
        return self.mapped().column(files.nodes_file(name, ID_FEATURE), entry.columns[ID_FEATURE], entry.num_rows)

    def clear_scratch(self) -> None:
        """Removes all temporary files."""
        shutil.rmtree(self.scratch)
        os.mkdir(self.scratch)

    def finish(
        self,
        schema: GraphSchema,
        *,
        node_sets: Mapping[str, TableEntry],
        edge_sets: Mapping[str, TableEntry],
        context: TableEntry | None,
        overlay: OverlayPosition | None = None,
    ) -> IndexManifest:
        """Writes the schema, and at last the manifest."""
        shutil.rmtree(self.scratch)
        graph_schema.write_schema(schema, os.path.join(self.folder, GRAPH_SCHEMA_FILE))
        self.files.update(record_file(self.folder, GRAPH_SCHEMA_FILE))
        manifest = IndexManifest(
            node_sets=node_sets, edge_sets=edge_sets, context=context, files=self.files, overlay=overlay
        )
        files.write_manifest(self.folder, manifest)
        return manifest


def pieces_of(values: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Yields an array piece by piece."""
    for first in range(0, len(values), CHUNK):
        yield values[first : first + CHUNK]


def positions_in_chunks(num_rows: int, dropped: _Integers | None = None) -> Iterator[_Integers]:
    """Yields all positions, some at a time, without those that are dropped, which ascend."""
    for first in range(0, num_rows, CHUNK):
        rows = np.arange(first, min(first + CHUNK, num_rows))
        if dropped is not None:
            rows = np.delete(rows, dropped[slice(*np.searchsorted(dropped, [first, first + CHUNK]))] - first)
        yield rows
