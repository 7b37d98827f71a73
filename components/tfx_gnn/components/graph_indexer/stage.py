"""GraphIndexer: builds a graph index from tables of nodes and edges."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence

from tfx_gnn.components.graph_indexer.options import GraphIndexerOptions
from tfx_gnn.io.atomic_folder import atomic_folder
from tfx_gnn.io.disk_sync import sync_tree
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.io.whole_files import copy_files
from tfx_gnn.records.example_gen_report import find_same_span
from tfx_gnn.sampling.index.build import BuiltIndex, write_graph_index
from tfx_gnn.tables.graph_tables import list_table_files, read_tables_schema
from tfx_gnn.tables.row_rules import DEAD_LETTERS_DIR, TableReport, write_dead_letters
from tfx_gnn.tables.schema_layouts import layouts_of
from tfx_gnn.tables.spans import find_span, has_span
from tfx_gnn.tables.stable_tables import StableTables


def build_graph_index(
    *,
    tables_dir: str,
    graph_index_dir: str,
    options: GraphIndexerOptions,
    tables_contents: str = "",
    span: str = "",
    same_span_as: str = "",
    beam_args: Sequence[str] = (),
) -> Mapping[str, TableReport]:
    """Builds an index of a whole graph: ids, features, and edges by node in both directions.

    In memory, what is held grows with the number of nodes, not with the number of edges; see `write_graph_index`. On
    Beam, each worker holds parts of the tables; see `write_graph_index_on_beam`. Both write the same bytes. The index
    appears whole or not at all. For an object store, the build in memory writes a temporary folder first, and copies
    it; on Beam, each worker copies the files that it writes.

    Args:
        tables_dir: folder with `graph_schema.pbtxt` and the tables that it names, or a pattern of such folders, as in
            "data/{SPAN}"; see `find_span`.
        graph_index_dir: folder to create, with `graph_index.json`, `graph_schema.pbtxt`, files to map into
            memory and, if rows were dropped, `dead_letters`. `open_graph_index` opens it.
        options: what to do with bad rows, which columns to add, which files may be read, and where to build.
        tables_contents: the `fingerprint_files` that the files of the tables must have; any if it is empty.
        span: number or date of the span to read, if `tables_dir` is a pattern; empty for the newest.
        same_span_as: folder of examples, of whose newest span the tables are read, if `tables_dir` is a pattern; empty
            for none.
        beam_args: options of the Beam runner, for `execution="beam"`. All workers must reach the tables and
            `graph_index_dir`.

    Returns:
        Counts of the rows read, used and dropped, by label of the table.

    Raises:
        ValueError: if there is no such span, it is not that of `same_span_as`, the tables break a rule, or a file of
            theirs changes before all are read; nothing is written then.
        FileExistsError: if `graph_index_dir` already holds files.
    """
    access = options.access
    if has_span(tables_dir) and same_span_as:
        tables_dir = find_same_span(tables_dir, same_span_as, span).folder
    else:
        tables_dir = find_span(tables_dir, span).folder
    tables = StableTables(lambda: list_table_files(tables_dir, access=access), contents=tables_contents)
    schema = read_tables_schema(tables_dir, access=access)
    with atomic_folder(graph_index_dir, name="graph_index_dir") as folder, tempfile.TemporaryDirectory() as local:
        on_beam = options.execution == "beam"
        place = folder if on_beam or has_locks(folder) else local
        layouts = layouts_of(schema, tables_dir, extra_columns=options.extra_columns, access=access)
        write = _writer_on_beam(beam_args) if on_beam else write_graph_index
        built = write(place, schema, layouts, rules=options.rules, edge_times=options.edge_times)
        tables.check()
        write_dead_letters(os.path.join(place, DEAD_LETTERS_DIR), built.problems)
        if has_locks(folder):
            sync_tree(folder)
        elif place == local:
            copy_files(local, folder)
    return built.manifest.reports


def _writer_on_beam(beam_args: Sequence[str]) -> Callable[..., BuiltIndex]:
    # Whoever builds in memory does not pay for importing Beam.
    from tfx_gnn.records.summary_pass import make_pipeline
    from tfx_gnn.sampling.beam.graph_index.build import write_graph_index_on_beam

    return functools.partial(
        write_graph_index_on_beam, make_pipeline=functools.partial(make_pipeline, tuple(beam_args))
    )
