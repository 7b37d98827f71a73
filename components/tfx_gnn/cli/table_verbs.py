"""Verbs of `tfx-gnn tables`: describe tables that have no schema yet, and look for bad rows."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tfx_gnn.cli import arguments

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
    from tfx_gnn.tables.graph_tables import GraphTables

tables = typer.Typer(no_args_is_help=True, help="Describe and check tables of nodes and edges.")
"""The group of verbs."""

PROBLEMS_EXIT_CODE = 1
"""Exit code of `check` when it found bad rows."""


def _column_option(what: str) -> Any:
    return typer.Option(help=f"{what}; repeat for several.", metavar="SET=COLUMN", show_default=False)


@tables.command("infer-schema")
def infer_schema_verb(
    *,
    tables_dir: Annotated[str, arguments.folder("Folder of the tables, where `graph_schema.pbtxt` is written.")],
    node: Annotated[
        list[str],
        typer.Option(
            help="A node set and its table: a file, a glob or shards; repeat for several.",
            metavar="SET=FILE",
            show_default=False,
        ),
    ],
    edge: Annotated[
        list[str] | None,
        typer.Option(
            help="An edge set, the node sets of its sources and targets, and its table; repeat for several.",
            metavar="SET=SOURCE,TARGET,FILE",
            show_default=False,
        ),
    ] = None,
    context: Annotated[
        str, typer.Option(help="Table of features of the whole graph.", metavar="FILE", show_default=False)
    ] = "",
    id_column: Annotated[list[str] | None, _column_option("Column of node ids, if not `id` or `#id`")] = None,
    source_column: Annotated[
        list[str] | None, _column_option("Column of the ids of edges' sources, if not `source` or `#source`")
    ] = None,
    target_column: Annotated[
        list[str] | None, _column_option("Column of the ids of edges' targets, if not `target` or `#target`")
    ] = None,
) -> None:
    """Write the graph schema that tables speak for, to be read and completed."""
    import tensorflow as tf

    from tfx_gnn.graph.schema import write_schema
    from tfx_gnn.tables.schema_inference import infer_schema
    from tfx_gnn.tables.schema_layouts import SCHEMA_FILE

    path = os.path.join(tables_dir, SCHEMA_FILE)
    if tf.io.gfile.exists(path):
        raise ValueError(
            f"`tables_dir` must not hold a {SCHEMA_FILE} yet; got one in {tables_dir!r}. Move it away to infer another."
        )
    schema = infer_schema(
        tables_dir=tables_dir,
        node_tables=_pairs("--node", node),
        edge_tables={name: _ends_and_file(name, value) for name, value in _pairs("--edge", edge).items()},
        context_table=context,
        id_columns=_pairs("--id-column", id_column),
        source_columns=_pairs("--source-column", source_column),
        target_columns=_pairs("--target-column", target_column),
    )
    write_schema(schema, path)
    _show_schema(schema)
    arguments.say_written(graph_schema=path)


@tables.command("check")
def check_tables(
    *,
    tables_dir: Annotated[str, arguments.folder("Folder of `graph_schema.pbtxt` and the tables that it names.")],
    limit: Annotated[int, typer.Option(help="Bad rows to show of each table; 0 for all.", min=0)] = 5,
    dead_letters_dir: Annotated[
        str,
        typer.Option(
            help="Where to write every bad row as a JSON line, one file a table.", metavar="FOLDER", show_default=False
        ),
    ] = "",
) -> None:
    """Read all tables into memory and report every bad row; the exit code is 1 if there are any."""
    from tfx_gnn.tables.dead_letters import write_dead_letters
    from tfx_gnn.tables.graph_tables import read_tables
    from tfx_gnn.tables.row_rules import RowRules

    rules = RowRules(invalid_rows="drop", duplicate_nodes="keep_first", dangling_edges="drop", max_dropped_share=1.0)
    try:
        read = read_tables(tables_dir, rules=rules)
    except ValueError:
        # Where no edge is left, the cause is often what is wrong with the nodes.
        with contextlib.suppress(ValueError):
            nodes = read_tables(tables_dir, edge_sets=(), rules=rules)
            if nodes.problems:
                _show_reports(nodes)
                _show_problems(nodes, limit)
        raise
    _show_reports(read)
    _show_problems(read, limit)
    if dead_letters_dir:
        for path in write_dead_letters(dead_letters_dir, read.problems):
            arguments.say_written(dead_letters=path)
    if read.problems:
        raise typer.Exit(PROBLEMS_EXIT_CODE)


def _pairs(option: str, values: list[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values or ():
        name, found, rest = value.partition("=")
        if not (name and found and rest) or name in pairs:
            raise typer.BadParameter(
                f"must be a set, '=' and what it has, each set once; got {value!r}", param_hint=option
            )
        pairs[name] = rest
    return pairs


def _ends_and_file(name: str, value: str) -> tuple[str, str, str]:
    parts = value.split(",", 2)
    if len(parts) != 3 or not all(parts):
        raise typer.BadParameter(
            f"must be like 'buys=user,item,buys.csv'; got {f'{name}={value}'!r}", param_hint="--edge"
        )
    return parts[0], parts[1], parts[2]


def _show_schema(schema: GraphSchema) -> None:
    import tensorflow as tf

    from tfx_gnn.graph.schema import iter_sets
    from tfx_gnn.tables.schema_inference import schema_notes

    shown = Table("set", "rows", "features", title="What the tables speak for")
    shown.columns[1].justify = "right"
    for kind, name, declared in iter_sets(schema):
        features = []
        for feature_name, feature in sorted(declared.features.items()):
            sizes = [dim.size for dim in feature.shape.dim]
            features.append(f"{feature_name} {tf.dtypes.as_dtype(feature.dtype).name}{sizes or ''}")
        label = f"{kind}/{name}" if name else kind
        shown.add_row(label, f"{declared.metadata.cardinality:,}", ", ".join(features).replace("[", r"\["))
    arguments.console.print(shown)
    for place, note in schema_notes(schema):
        arguments.console.print(f"{place}: {note}", style="yellow", markup=False, soft_wrap=True)


def _show_reports(read: GraphTables) -> None:
    rules = sorted({rule for report in read.reports.values() for rule in report.dropped})
    shown = Table(
        "table", "rows", "good", *(rule.replace("_", " ") for rule in rules), "parallel edges", "self loops",
        title="What is in the tables",
    )  # fmt: skip
    for column in shown.columns[1:]:
        column.justify = "right"
    for label, report in read.reports.items():
        is_edges = label.startswith("edges/")
        shown.add_row(
            label,
            f"{report.rows_read:,}",
            f"{report.rows_used:,}",
            *(f"[red]{report.dropped[rule]:,}[/red]" if report.dropped.get(rule) else "" for rule in rules),
            f"{report.duplicate_edges:,}" if is_edges else "",
            f"{report.self_loops:,}" if is_edges else "",
        )
    arguments.console.print(shown)


def _show_problems(read: GraphTables, limit: int) -> None:
    for label in read.reports:
        problems = [problem for problem in read.problems if problem.table == label]
        for problem in problems[: limit or None]:
            arguments.console.print(problem.message, markup=False, soft_wrap=True)
        if limit and len(problems) > limit:
            arguments.console.print(f"... and {len(problems) - limit:,} more of {label}.", markup=False)
    if read.problems:
        arguments.console.print(f"bad rows: {len(read.problems):,}", style="red")
    else:
        arguments.console.print("no bad rows", style="green")
