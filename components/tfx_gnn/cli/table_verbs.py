"""Verbs of `tfx-gnn tables`, which infer a schema and check rows, and the verb `schema`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.errors import flags_of, name_flags
from tfx_gnn.tables.table_access import SCHEMA_FILE, TableAccess

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
    from tfx_gnn.tables.graph_tables import TablesCheck


def schema(
    *,
    examples_dir: arguments.Examples,
    graph_schema_dir: Annotated[
        str, arguments.folder("Where to write the graph schema, checked against the examples.")
    ],
    schema_dir: Annotated[str, arguments.folder("Where to write the standard TensorFlow Metadata schema.")],
    splits: arguments.Splits = None,
    schema_file: Annotated[
        str,
        typer.Option(help="Name of the graph schema beside the splits, if there is one.", metavar="FILE"),
    ] = SCHEMA_FILE,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Check the examples and write the schema of their graphs."""
    from tfx_gnn.components.graph_schema_gen.options import GraphSchemaGenOptions
    from tfx_gnn.components.graph_schema_gen.stage import generate_graph_schema

    generate_graph_schema(
        examples_dir=examples_dir,
        graph_schema_dir=graph_schema_dir,
        schema_dir=schema_dir,
        options=GraphSchemaGenOptions(splits=tuple(splits or ()), schema_file=schema_file),
        beam_args=tuple(beam_args or ()),
    )
    arguments.say_written(graph_schema=graph_schema_dir, schema=schema_dir)


tables = typer.Typer(no_args_is_help=True, help="Describe and check tables of nodes and edges.")
"""The group of verbs."""


PROBLEMS_EXIT_CODE = 1
"""Exit code of `check` when it found bad rows."""


_RULES_OF_SAMPLE = {
    "invalid_rows": "sample --invalid-rows drop",
    "duplicate_nodes": "sample --duplicate-nodes keep_first",
    "duplicate_edges": "sample --duplicate-edges",
    "dangling_edges": "sample --dangling-edges drop",
}
"""What lets bad rows go: nothing of `check`, which only looks."""


def _column_option(flag: str, what: str) -> Any:
    return typer.Option(flag, help=f"{what}; repeat for several.", metavar="SET=COLUMN", show_default=False)


@tables.command("infer-schema")
def infer_schema_verb(
    *,
    tables_dir: Annotated[str, arguments.folder("Folder of the tables, where `graph_schema.pbtxt` is written.")],
    node_tables: Annotated[
        list[str],
        typer.Option(
            "--node",
            help="A node set and its table: a file, a glob or shards; repeat for several.",
            metavar="SET=FILE",
            show_default=False,
        ),
    ],
    edge_tables: Annotated[
        list[str] | None,
        typer.Option(
            "--edge",
            help="An edge set, the node sets of its sources and targets, and its table; repeat for several.",
            metavar="SET=SOURCE,TARGET,FILE",
            show_default=False,
        ),
    ] = None,
    context_table: Annotated[
        str,
        typer.Option("--context", help="Table of features of the whole graph.", metavar="FILE", show_default=False),
    ] = "",
    id_columns: Annotated[
        list[str] | None, _column_option("--id-column", "Column of node ids, if not `id` or `#id`")
    ] = None,
    source_columns: Annotated[
        list[str] | None,
        _column_option("--source-column", "Column of the ids of edges' sources, if not `source` or `#source`"),
    ] = None,
    target_columns: Annotated[
        list[str] | None,
        _column_option("--target-column", "Column of the ids of edges' targets, if not `target` or `#target`"),
    ] = None,
    schema_file: arguments.SchemaFile = SCHEMA_FILE,
    allow_outside_files: arguments.AllowOutsideFiles = False,
    max_record_mib: arguments.MaxRecordMib = 16,
) -> None:
    """Write the graph schema that tables speak for, to be read and completed."""
    import tensorflow as tf

    from tfx_gnn.graph.schema.schema_io import write_schema
    from tfx_gnn.tables.schema_inference import infer_schema

    access = TableAccess(
        schema_file=schema_file, allow_outside_files=allow_outside_files, max_record_mib=max_record_mib
    )
    path = access.schema_path(tables_dir)
    if not tf.io.gfile.isdir(tables_dir):
        raise ValueError(f"`tables_dir` must be a folder; got {tables_dir!r}, which is none. Correct the name.")
    if tf.io.gfile.exists(path):
        raise ValueError(
            f"`tables_dir` must not hold a {schema_file} yet; got one in {tables_dir!r}. "
            "Move it away to infer another, or give another `schema_file`."
        )
    schema = infer_schema(
        tables_dir=tables_dir,
        node_tables=_pairs("--node", node_tables),
        edge_tables={name: _ends_and_file(name, value) for name, value in _pairs("--edge", edge_tables).items()},
        context_table=context_table,
        id_columns=_pairs("--id-column", id_columns),
        source_columns=_pairs("--source-column", source_columns),
        target_columns=_pairs("--target-column", target_columns),
        access=access,
    )
    write_schema(schema, path)
    _show_schema(schema)
    arguments.say_written(graph_schema=path)


@tables.command("check")
def check_tables_verb(
    context: typer.Context,
    *,
    tables_dir: Annotated[str, arguments.folder("Folder of `graph_schema.pbtxt` and the tables that it names.")],
    limit: Annotated[
        int, typer.Option(help="Bad rows to show of each table, of every rule one first; 0 for all.", min=0)
    ] = 5,
    dead_letters_dir: Annotated[
        str,
        typer.Option(
            help="Where to write every bad row as a JSON line, one file a table.", metavar="FOLDER", show_default=False
        ),
    ] = "",
    schema_file: arguments.SchemaFile = SCHEMA_FILE,
    allow_outside_files: arguments.AllowOutsideFiles = False,
    max_record_mib: arguments.MaxRecordMib = 16,
) -> None:
    """Read all tables and report everything that is wrong; the exit code is 1 if there is anything."""
    from tfx_gnn.tables.graph_tables import check_tables
    from tfx_gnn.tables.row_rules import write_dead_letters

    access = TableAccess(
        schema_file=schema_file, allow_outside_files=allow_outside_files, max_record_mib=max_record_mib
    )
    found = check_tables(tables_dir, access=access)
    _show_reports(found)
    _show_problems(found, limit, {**flags_of(context.command), **_RULES_OF_SAMPLE})
    if dead_letters_dir:
        for path in write_dead_letters(dead_letters_dir, found.problems):
            arguments.say_written(dead_letters=path)
    if not found.is_good:
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

    from tfx_gnn.graph.schema.schema_io import iter_sets
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


def _show_reports(read: TablesCheck) -> None:
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


def _show_problems(found: TablesCheck, limit: int, flags: Mapping[str, str]) -> None:
    for label in found.reports:
        problems = [problem for problem in found.problems if problem.table == label]
        # The first of every rule, then those that come first.
        examples = {problem.rule: number for number, problem in reversed(list(enumerate(problems)))}
        others = [number for number in range(len(problems)) if number not in examples.values()]
        shown = [*sorted(examples.values()), *others][: limit or None]
        for number in sorted(shown):
            arguments.console.print(name_flags(problems[number].message, flags), markup=False, soft_wrap=True)
        if len(problems) > len(shown):
            arguments.console.print(f"... and {len(problems) - len(shown):,} more of {label}.", markup=False)
    for label, fault in found.faults.items():
        arguments.console.print(f"{label}: {name_flags(fault, flags)}", style="red", markup=False, soft_wrap=True)
    if found.faults:
        arguments.console.print(f"tables that cannot be used: {len(found.faults):,}", style="red")
    if found.problems:
        arguments.console.print(f"bad rows: {len(found.problems):,}", style="red")
    if found.is_good:
        arguments.console.print("no bad rows", style="green")
