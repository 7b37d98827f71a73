"""The command `index`: builds a graph index from tables, or verifies one."""

from __future__ import annotations

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
@flags_of_options(RowRules, into="rules", panel=_ROWS)
@flags_of_options(TableAccess, into="access", panel=arguments.TABLES_PANEL)
def index(
    *,
    tables_dir: Annotated[
        str, arguments.folder("Folder with `graph_schema.pbtxt` and the tables that it names; needed without --verify.")
    ] = "",
    graph_index_dir: Annotated[str, arguments.folder("Where to write the index, to be mapped into memory.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Build nothing; read an index that exists and compare its checksums.")
    ] = False,
    columns: dict[str, Any],
    rules: RowRules,
    access: TableAccess,
) -> None:
    """Build an index of the whole graph, from which subgraphs are sampled without reading the tables again."""
    if verify == bool(tables_dir):
        raise ValueError(
            f"`--tables-dir` must name the tables to build from, or --verify be given instead; got {tables_dir!r} "
            f"{'with' if verify else 'without'} --verify. Give one of the two."
        )
    if verify:
        from tfx_gnn.sampling.index.graph_index import open_graph_index

        _show(open_graph_index(graph_index_dir, verify=True).reports)
        arguments.console.print("All files have the sizes and checksums of the manifest.")
        return
    from tfx_gnn.components.graph_indexer.stage import build_graph_index

    arguments.check_row_rules(rules)
    options = GraphIndexerOptions(rules=rules, access=access, **columns)
    _show(build_graph_index(tables_dir=tables_dir, graph_index_dir=graph_index_dir, options=options))
    arguments.say_written(graph_index=graph_index_dir)


def _show(reports: Mapping[str, TableReport]) -> None:
    shown = Table("table", "rows", "used", title="What is in the index")
    for column in shown.columns[1:]:
        column.justify = "right"
    for label, report in reports.items():
        shown.add_row(label, f"{report.rows_read:,}", f"{report.rows_used:,}")
    arguments.console.print(shown)
