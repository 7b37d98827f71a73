"""The command `index`: builds a graph index from tables or from an earlier index and its overlay, or verifies one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.option_flags import flags_of_options
from tfx_gnn.components.graph_indexer.options import GraphIndexerOptions
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_access import TableAccess

if TYPE_CHECKING:
    from tfx_gnn.tables.row_rules import TableReport

_ROWS = "Rows of the tables"
_COLUMNS = "Columns of the tables"


@flags_of_options(
    GraphIndexerOptions, into="columns", only=("extra_columns", "edge_times"), as_values=True, panel=_COLUMNS
)
@flags_of_options(GraphIndexerOptions, into="running", only=("execution",), as_values=True)
@flags_of_options(RowRules, into="rules", panel=_ROWS, shown=("invalid_rows", "dangling_edges"))
@flags_of_options(TableAccess, into="access", panel=arguments.TABLES_PANEL)
def index(
    *,
    tables_dir: arguments.Tables = "",
    graph_index_dir: Annotated[str, arguments.folder("Where to write the index, to be mapped into memory.")],
    base_index_dir: Annotated[
        str, arguments.folder("An earlier index to build the next one from, with --overlay and without tables.")
    ] = "",
    overlay: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Nodes and edges that `serve --overlay` added to the earlier index; the server may run on.",
        ),
    ] = "",
    span: arguments.Span = "",
    verify: Annotated[
        bool, typer.Option("--verify", help="Build nothing; read an index that exists and compare its checksums.")
    ] = False,
    columns: dict[str, Any],
    running: dict[str, Any],
    rules: RowRules,
    access: TableAccess,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Build an index of the whole graph, from which subgraphs are sampled without reading the tables again."""
    given = {"--tables-dir": tables_dir, "--base-index-dir": base_index_dir, "--verify": verify}
    chosen = [name for name, value in given.items() if value]
    if len(chosen) != 1:
        raise ValueError(
            f"`--tables-dir` must name the tables to build from, or --base-index-dir or --verify be given instead; got "
            f"{chosen}. Give one of the three."
        )
    if bool(base_index_dir) != bool(overlay):
        raise ValueError(
            f"`--overlay` must be given with --base-index-dir, and only then; got {overlay!r} and {base_index_dir!r}. "
            "Name both."
        )
    if span and not tables_dir:
        raise ValueError(
            f"`--span` must be given with --tables-dir, and only then; got {span!r} with {chosen[0]}. Leave it out."
        )
    is_on_beam = running["execution"] == "beam"
    if is_on_beam and not tables_dir:
        raise ValueError(
            f"`--execution` must be given with --tables-dir, and only then; got 'beam' with {chosen[0]}. Leave it out."
        )
    if beam_args and not is_on_beam:
        raise ValueError(
            f"`--beam-arg` must be given with --execution beam, and only then; got {beam_args}. Add the one, or leave "
            "the other out."
        )
    if verify:
        from tfx_gnn.sampling.index.graph_index import open_graph_index

        _show(open_graph_index(graph_index_dir, verify=True).reports)
        arguments.console.print("All files have the sizes and checksums of the manifest.")
        return
    if base_index_dir:
        _show(_build_next(base_index_dir, overlay, graph_index_dir))
        arguments.say_written(graph_index=graph_index_dir)
        return
    from tfx_gnn.components.graph_indexer.stage import build_graph_index

    arguments.check_row_rules(rules)
    reports = build_graph_index(
        tables_dir=tables_dir,
        span=span,
        graph_index_dir=graph_index_dir,
        options=GraphIndexerOptions(rules=rules, access=access, **columns, **running),
        beam_args=tuple(beam_args or ()),
    )
    _show(reports)
    arguments.say_written(graph_index=graph_index_dir)


def _build_next(base_index_dir: str, overlay: str, graph_index_dir: str) -> Mapping[str, TableReport]:
    from tfx_gnn.sampling.index.graph_index import open_graph_index
    from tfx_gnn.sampling.overlay.graph_overlay import read_graph_overlay
    from tfx_gnn.sampling.overlay.next_index import write_next_index

    if not os.path.exists(overlay):
        raise FileNotFoundError(f"`--overlay` must be a file; got {overlay!r}, which is not there. Correct the path.")
    snapshot, position = read_graph_overlay(open_graph_index(base_index_dir), overlay)
    return write_next_index(snapshot, graph_index_dir, overlay=position).reports


def _show(reports: Mapping[str, TableReport]) -> None:
    shown = Table("table", "rows", "used", title="What is in the index")
    for column in shown.columns[1:]:
        column.justify = "right"
    for label, report in reports.items():
        shown.add_row(label, f"{report.rows_read:,}", f"{report.rows_used:,}")
    arguments.console.print(shown)
