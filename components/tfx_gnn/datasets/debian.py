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
    """What was made of an archive, and what was left out.

    Attributes:
        num_nodes: rows by node set.
        num_edges: rows by edge set.
        empty_sets: node sets and edge sets without a row: they have no file and are not in the schema.
        num_package_stanzas: stanzas read; those beyond one a package are of older versions.
        num_source_stanzas: stanzas read; beside older versions, there are unused sources.
        num_unused_sources: sources of which no package is built.
        num_missing_sources: sources that packages name and the lists lack; they are nodes.
        relations: by kind of relation, what became of what packages name; "build_depends" for sources.
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

    Of several versions of a package or source the newest counts. People are numbers; there are
    no e-mail addresses and no descriptions. `find_index_files` finds apt's lists.
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
