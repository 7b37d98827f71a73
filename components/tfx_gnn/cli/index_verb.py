"""The command `index`: builds a graph index from tables."""

from __future__ import annotations

from typing import Annotated, Any

from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.option_flags import flags_of_options
from tfx_gnn.components.graph_indexer.options import GraphIndexerOptions
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_access import TableAccess

_ROWS = "Rows of the tables"
_COLUMNS = "Columns of the tables"


@flags_of_options(
    GraphIndexerOptions, into="columns", only=("extra_columns", "edge_times"), as_values=True, panel=_COLUMNS
)
@flags_of_options(RowRules, into="rules", panel=_ROWS)
@flags_of_options(TableAccess, into="access", panel=arguments.TABLES_PANEL)
def index(
    *,
    tables_dir: Annotated[str, arguments.folder("Folder with `graph_schema.pbtxt` and the tables that it names.")],
    graph_index_dir: Annotated[str, arguments.folder("Where to write the index, to be mapped into memory.")],
    columns: dict[str, Any],
    rules: RowRules,
    access: TableAccess,
) -> None:
    """Build an index of the whole graph, from which subgraphs are sampled without reading the tables again."""
    from tfx_gnn.components.graph_indexer.stage import build_graph_index

    arguments.check_row_rules(rules)
    reports = build_graph_index(
        tables_dir=tables_dir,
        graph_index_dir=graph_index_dir,
        options=GraphIndexerOptions(rules=rules, access=access, **columns),
    )
    shown = Table("table", "rows", "used", title="What is in the index")
    for column in shown.columns[1:]:
        column.justify = "right"
    for label, report in reports.items():
        shown.add_row(label, f"{report.rows_read:,}", f"{report.rows_used:,}")
    arguments.console.print(shown)
    arguments.say_written(graph_index=graph_index_dir)
