"""Builds the next graph index from an index and what was added to it, without the tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tfx_gnn.io.atomic_folder import atomic_folder
from tfx_gnn.sampling.index import files
from tfx_gnn.sampling.index.external_sort import find_repeated_edges, row_dtype
from tfx_gnn.sampling.index.files import IndexManifest, OverlayPosition, TableEntry
from tfx_gnn.sampling.index.index_writer import IndexWriter, positions_in_chunks
from tfx_gnn.sampling.overlay.added_rows import first_added_row
from tfx_gnn.sampling.overlay.graph_snapshot import GraphSnapshot
from tfx_gnn.tables.row_rules import TableReport
from tfx_gnn.tables.table_layout import EXTRA_PREFIX, ID_FEATURE, SOURCE_KEY, TARGET_KEY

_Integers = npt.NDArray[np.int64]


def write_next_index(
    snapshot: GraphSnapshot, graph_index_dir: str, *, overlay: OverlayPosition | None = None
) -> IndexManifest:
    """Builds the next index from a snapshot: that of the tables with the added rows at their ends, byte for byte.

    It reads the index once and takes memory as building from tables does. Others may use and extend the overlay
    meanwhile; `GraphOverlay.move_to` then takes to the next index what the snapshot lacks.

    Args:
        snapshot: the index and what was added to it.
        graph_index_dir: folder to create, on a local disk; it appears whole or not at all.
        overlay: up to where in the log the snapshot has the rows of an overlay, see `read_graph_overlay`. Without it,
            no overlay moves to the index.

    Returns:
        The manifest.

    Raises:
        FileExistsError: if `graph_index_dir` already holds files.
    """
    with atomic_folder(graph_index_dir, name="graph_index_dir") as folder:
        writer = IndexWriter(folder)
        old = snapshot.index.manifest
        node_sets = {name: _write_nodes(writer, snapshot, name, entry) for name, entry in old.node_sets.items()}
        edge_sets = {name: _write_edges(writer, snapshot, name, entry) for name, entry in old.edge_sets.items()}
        if old.context is not None and snapshot.context_table is not None:
            table = snapshot.context_table
            for key in old.context.columns:
                columns = table.extra_columns if key.startswith(EXTRA_PREFIX) else table.features
                column = columns[key.removeprefix(EXTRA_PREFIX)]
                writer.write_column(files.context_file(key), column, positions_in_chunks(table.num_rows))
        return writer.finish(
            snapshot.schema, node_sets=node_sets, edge_sets=edge_sets, context=old.context, overlay=overlay
        )


def _write_nodes(writer: IndexWriter, snapshot: GraphSnapshot, name: str, old: TableEntry) -> TableEntry:
    table = snapshot.node_tables[name]
    num_added = len(snapshot.added_nodes[name])
    entry = dataclasses.replace(old, num_rows=old.num_rows + num_added, report=_counted(old.report, num_added))
    for key in old.columns:
        place = files.nodes_file(name, key) if key == ID_FEATURE else files.nodes_file(name, "column", key)
        columns = table.extra_columns if key.startswith(EXTRA_PREFIX) else table.features
        column = table.ids if key == ID_FEATURE else columns[key.removeprefix(EXTRA_PREFIX)]
        writer.write_column(place, column, positions_in_chunks(entry.num_rows))
    writer.write_codes(name, writer.ids_of(name, entry), entry.report.table)
    return entry


def _write_edges(writer: IndexWriter, snapshot: GraphSnapshot, name: str, old: TableEntry) -> TableEntry:
    table, added, edge_set = snapshot.edge_tables[name], snapshot.added_edges[name], snapshot.schema.edge_sets[name]
    entry = dataclasses.replace(old, num_rows=old.num_rows + len(added), report=_counted(old.report, len(added)))
    for key in old.columns:
        columns = table.extra_columns if key.startswith(EXTRA_PREFIX) else table.features
        column = columns[key.removeprefix(EXTRA_PREFIX)]
        writer.write_column(files.edges_file(name, "column", key), column, positions_in_chunks(entry.num_rows))
    sets = {SOURCE_KEY: edge_set.source, TARGET_KEY: edge_set.target}
    num_nodes = {key: snapshot.node_tables[end].num_nodes for key, end in sets.items()}
    parts = {SOURCE_KEY: ("sources", added.handles["forward"]), TARGET_KEY: ("targets", added.handles["backward"])}
    for key, (part, handles) in parts.items():
        pieces = _ends(snapshot, name, part, sets[key], handles)
        writer.write_ends(name, key, row_dtype(num_nodes[key]), pieces)
    if old.has_gaps:
        writer.write_rows(name, _rows(snapshot, name))
    writer.write_edges_by_node(name, num_nodes, has_gaps=old.has_gaps)
    if not len(added):
        return entry
    ends = writer.ends_of(name)
    time = entry.edge_time
    times = (
        writer.mapped().column(files.edges_file(name, "column", time), entry.columns[time], entry.num_rows).to_numpy()
        if time
        else None
    )
    again = find_repeated_edges(
        ends[SOURCE_KEY],
        ends[TARGET_KEY],
        num_targets=max(num_nodes[TARGET_KEY], 1),
        scratch=writer.scratch,
        times=times,
    )
    report = dataclasses.replace(entry.report, duplicate_edges=sum(map(len, again)))
    if edge_set.source == edge_set.target:
        num_loops = int((added.handles["forward"] == added.handles["backward"]).sum())
        report = dataclasses.replace(report, self_loops=report.self_loops + num_loops)
    return dataclasses.replace(entry, report=report)


def _ends(snapshot: GraphSnapshot, name: str, part: str, node_set: str, handles: _Integers) -> Iterator[_Integers]:
    """Yields the rows of the nodes at one end of the edges, piece by piece."""
    nodes, index = snapshot.added_nodes[node_set], snapshot.index
    values = index.mapped.values(files.edges_file(name, part))
    for chunk in positions_in_chunks(len(values)):
        yield nodes.insertions.move(values[chunk].astype(np.int64))
    yield nodes.rows_of(handles, index.node_tables[node_set].num_nodes)


def _rows(snapshot: GraphSnapshot, name: str) -> Iterator[_Integers]:
    values = snapshot.index.mapped.values(files.edges_file(name, "table_rows"))
    for chunk in positions_in_chunks(len(values)):
        yield values[chunk]
    yield first_added_row(snapshot.index, name) + np.arange(len(snapshot.added_edges[name]))


def _counted(report: TableReport, num_added: int) -> TableReport:
    return dataclasses.replace(report, rows_read=report.rows_read + num_added, rows_used=report.rows_used + num_added)
