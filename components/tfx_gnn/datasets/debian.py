"""The Debian archive as a graph: packages, sources, maintainers, tags, and how they relate."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tfx_gnn.datasets.debian_archive import RELATION_FIELDS, read_archive
from tfx_gnn.datasets.debian_tables import (
    RelationCounts,
    build_depends_table,
    maintainer_table,
    origin_tables,
    package_table,
    relation_tables,
    source_table,
    tag_table,
    virtual_table,
)
from tfx_gnn.datasets.tables_folder import DescribedGraph, write_tables_folder

_ENDS = {
    **dict.fromkeys(RELATION_FIELDS, ("package", "package")),
    **{f"{kind}_virtual": ("package", "virtual") for kind in RELATION_FIELDS},
    "build_depends": ("source", "package"),
    "built_from": ("package", "source"),
    "maintained_by": ("package", "maintainer"),
    "tagged": ("package", "tag"),
    "uploaded_by": ("source", "maintainer"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DebianReport:
    """Counts of what was written and what was left out of an archive.

    Attributes:
        num_nodes: number of rows by node set.
        num_edges: number of rows by edge set.
        empty_sets: node sets and edge sets without rows; they have no file and are not in the schema.
        num_package_stanzas: number of package stanzas read; more than one per package are older versions.
        num_source_stanzas: number of source stanzas read, including older versions and unused sources.
        num_unused_sources: number of sources that no package is built from.
        num_missing_sources: number of sources that packages name but the lists lack; they are nodes, too.
        relations: counts of relations between packages by kind; "build_depends" for sources.
    """

    num_nodes: Mapping[str, int]
    num_edges: Mapping[str, int]
    empty_sets: tuple[str, ...]
    num_package_stanzas: int
    num_source_stanzas: int
    num_unused_sources: int
    num_missing_sources: int
    relations: Mapping[str, RelationCounts]


def build_debian_graph(output_dir: str, *, packages: Sequence[str], sources: Sequence[str]) -> DebianReport:
    """Writes an archive as Parquet tables with their graph schema.

    Only the newest version of a package or source is used. People are represented by numbers; there
    are no e-mail addresses and no package descriptions. `find_index_files` finds apt's index files.
    """
    archive = read_archive(packages, sources)
    edge_tables, relations = relation_tables(archive)
    edge_tables["build_depends"], relations["build_depends"] = build_depends_table(archive)
    edge_tables |= origin_tables(archive)
    node_tables = {
        "maintainer": maintainer_table(archive),
        "package": package_table(archive),
        "source": source_table(archive),
        "tag": tag_table(archive),
        "virtual": virtual_table(archive),
    }
    everything = {**node_tables, **edge_tables}
    empty = {name for name, described in everything.items() if not described.table.num_rows}
    graph = DescribedGraph(
        node_sets={name: table for name, table in node_tables.items() if name not in empty},
        edge_sets={name: table for name, table in edge_tables.items() if name not in empty},
        ends={name: ends for name, ends in _ENDS.items() if name not in empty},
    )
    write_tables_folder(output_dir, graph)
    return DebianReport(
        num_nodes={name: table.table.num_rows for name, table in graph.node_sets.items()},
        num_edges={name: table.table.num_rows for name, table in sorted(graph.edge_sets.items())},
        empty_sets=tuple(sorted(empty)),
        num_package_stanzas=archive.num_package_stanzas,
        num_source_stanzas=archive.num_source_stanzas,
        num_unused_sources=archive.num_unused_sources,
        num_missing_sources=len(archive.missing_sources),
        relations=relations,
    )
