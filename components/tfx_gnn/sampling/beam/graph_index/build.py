"""Builds a graph index with a Beam pipeline: the same files as `write_graph_index`, byte for byte."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import apache_beam as beam
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.io.whole_files import copy_files
from tfx_gnn.sampling.beam.graph_index import edge_steps, exchange, join_steps, node_steps
from tfx_gnn.sampling.beam.graph_index.file_steps import WriteFiles
from tfx_gnn.sampling.beam.graph_index.steps import BuildJob, BuildState, TableState, add_steps, read_state
from tfx_gnn.sampling.index.build import BuiltIndex, check_tables_of_index
from tfx_gnn.sampling.index.files import TableEntry
from tfx_gnn.sampling.index.index_writer import IndexWriter
from tfx_gnn.tables.row_rules import RowRules, TableReport
from tfx_gnn.tables.schema_layouts import TableLayouts
from tfx_gnn.tables.table_files import TableUnit, list_units
from tfx_gnn.tables.table_layout import SOURCE_KEY, TARGET_KEY

_STEPS = (
    node_steps.ReadRows(),
    node_steps.RouteIds(),
    node_steps.SortNodes(),
    node_steps.SortCodes(),
    join_steps.FindEnds(),
    join_steps.JoinEnds(),
    edge_steps.FindRepeats(),
    edge_steps.DropRepeats(),
    edge_steps.SortEdges(),
    WriteFiles(),
)


def write_graph_index_on_beam(
    folder: str,
    schema: GraphSchema,
    layouts: TableLayouts,
    *,
    make_pipeline: Callable[[], beam.Pipeline],
    rules: RowRules | None = None,
    edge_times: Mapping[str, str] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> BuiltIndex:
    """Writes the files of a graph index into an empty folder, which may be in an object store.

    The bytes of the files, the rows that are dropped and the errors are those of `write_graph_index`, whatever the
    runner, the number of workers and the sizes. A worker holds a group of rows or a part of the nodes or edges, never
    a table; rows that are dropped are all held, at the end, by this process. Temporary files in the folder, which are
    removed at the end, take a few times as much room as the tables.

    Args:
        folder: where to write; all workers reach it and the tables.
        schema: schema of the tables.
        layouts: the tables; they include the node sets at the ends of edge sets.
        make_pipeline: makes the pipeline to run.
        rules: what to do with rows that break a rule; by default any such row is an error.
        edge_times: see `read_tables`.
        sizes: `group_rows`, `group_bytes` and `part_rows` of `BuildJob`, if not the defaults.

    Returns:
        The manifest, which is in the folder, too, and the rows that were dropped.

    Raises:
        ValueError: if a table breaks a rule, as in `read_tables`.
    """
    check_tables_of_index(layouts, edge_times or {})
    state, units = _begin(layouts)
    job = BuildJob(
        folder=folder,
        scratch=os.path.join(folder, "scratch"),
        layouts=layouts.all,
        units=units,
        ends={
            name: {SOURCE_KEY: schema.edge_sets[name].source, TARGET_KEY: schema.edge_sets[name].target}
            for name in layouts.edge_sets
        },
        rules=rules or RowRules(),
        edge_times=edge_times or {},
        **(sizes or {}),
    )
    tf.io.gfile.makedirs(job.scratch)
    state_file = os.path.join(job.scratch, "state")
    with make_pipeline() as pipeline:
        add_steps(pipeline, job, state, _STEPS, state_file)
    state = read_state(state_file)
    if state.error:
        raise ValueError(state.error)
    problems = tuple(exchange.read_problems(path for table in state.tables for path in table.problem_files))
    tf.io.gfile.rmtree(job.scratch)
    entries = {job.layouts[table.position].label: _entry(job, table) for table in state.tables}
    with tempfile.TemporaryDirectory() as local:
        writer = IndexWriter(local)
        writer.files.update(state.files)
        manifest = writer.finish(
            schema,
            node_sets={name: entries[layout.label] for name, layout in layouts.node_sets.items()},
            edge_sets={name: entries[layout.label] for name, layout in layouts.edge_sets.items()},
            context=None if layouts.context is None else entries[layouts.context.label],
        )
        copy_files(local, folder)
    return BuiltIndex(manifest=manifest, problems=problems)


def _begin(layouts: TableLayouts) -> tuple[BuildState, tuple[tuple[TableUnit, ...], ...]]:
    """Lists the units of the tables, up to one that cannot be read."""
    state, units = BuildState(), list[tuple[TableUnit, ...]]()
    for position, layout in enumerate(layouts.all):
        try:
            units.append(list_units(layout))
        except ValueError as error:
            state.refuse(position, error)
            break
        report = TableReport(table=layout.label, rows_read=0, rows_used=0)
        state.tables.append(TableState(position=position, report=report))
    return state, tuple(units)


def _entry(job: BuildJob, table: TableState) -> TableEntry:
    layout = job.layouts[table.position]
    of_edges: dict[str, Any] = {}
    ends = job.ends[layout.name] if layout.kind == "edge" else {}
    if layout.kind == "edge":
        of_edges = {
            "has_gaps": table.has_gaps,
            "edge_time": job.edge_times.get(layout.name, ""),
            "duplicate_edges": job.rules.duplicate_edges,
        }
    return TableEntry(
        path=layout.declared_as,
        num_rows=table.num_rows,
        columns={key: column.arrow_type for key, column in layout.columns.items() if key not in ends},
        report=table.report,
        **of_edges,
    )
