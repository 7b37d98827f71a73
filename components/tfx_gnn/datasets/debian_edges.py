"""Edge tables of a Debian archive: what packages need, break and provide, and where they come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from tfx_gnn.datasets.debian_archive import BUILD_FIELDS, RELATION_FIELDS, Archive, source_of
from tfx_gnn.datasets.debian_nodes import tags_of
from tfx_gnn.datasets.debian_relations import parse_relations
from tfx_gnn.datasets.tables_folder import DescribedTable

_ALTERNATIVE = "Position in a clause of alternatives (a | b), from 0; of several clauses, the first such."
_N_ALTERNATIVES = "Number of alternatives of that clause."
_VERSIONED = "1 if only some versions of the target are meant."

_MEANING = {
    "depends": "The package needs the target",
    "recommends": "The package is usually installed with the target",
    "suggests": "The target makes the package more useful",
    "enhances": "The package makes the target more useful",
    "conflicts": "The package cannot be installed beside the target",
    "breaks": "The package breaks the target",
    "replaces": "The package takes over files of the target",
    "provides": "The package stands in for the target",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RelationCounts:
    """What became of the alternatives that a kind of relation names.

    Attributes:
        read: alternatives of all clauses.
        to_packages: edges to packages.
        to_virtual: edges to virtual packages.
        repeated: alternatives that name a target again, so that they are in an edge already.
        to_itself: alternatives that name the package itself.
        unknown: alternatives of which the archive has neither package nor virtual package.
    """

    read: int
    to_packages: int
    to_virtual: int = 0
    repeated: int
    to_itself: int
    unknown: int


@dataclasses.dataclass
class _Edge:
    """Edge that further clauses may add to."""

    position: tuple[int, int]  # alternative, number of alternatives
    versioned: bool
    flag: bool  # whether a clause comes from the field that weighs most


class _Edges:
    """Edges of one kind by their ends; clauses that name a target again become one edge."""

    def __init__(self) -> None:
        self.edges: dict[tuple[str, str], _Edge] = {}
        self.repeated = 0

    def add(self, source: str, target: str, position: tuple[int, int], *, versioned: bool, flag: bool) -> None:
        edge = self.edges.get((source, target))
        if edge is None:
            self.edges[source, target] = _Edge(position, versioned, flag)
            return
        self.repeated += 1
        edge.position = min(edge.position, position)
        edge.versioned |= versioned
        edge.flag |= flag

    def table(self, filename: str, description: str, **features: str) -> DescribedTable:
        """Makes a table with those of the columns that have descriptions, ordered by source and target."""
        pairs = sorted(self.edges)
        edges = [self.edges[pair] for pair in pairs]
        columns = {
            "alternative": [edge.position[0] for edge in edges],
            "n_alternatives": [edge.position[1] for edge in edges],
            "versioned": [int(edge.versioned) for edge in edges],
            "pre_depends": [int(edge.flag) for edge in edges],
            "indep_or_arch": [int(not edge.flag) for edge in edges],
        }
        return edge_table(filename, description, pairs, {name: columns[name] for name in features}, features)


def edge_table(
    filename: str,
    description: str,
    pairs: Iterable[tuple[str, str]],
    columns: Mapping[str, list[int]],
    features: Mapping[str, str],
) -> DescribedTable:
    """Makes a table of edges with integer features.

    Args:
        filename: name of its file.
        description: what an edge says.
        pairs: ids of source and target, one pair an edge.
        columns: values by feature, one an edge.
        features: descriptions by feature.

    Returns:
        The table, with the columns "source" and "target" before the features.
    """
    pairs = list(pairs)
    return DescribedTable(
        filename=filename,
        description=description,
        features=features,
        table=pa.table(
            {
                "source": pa.array([source for source, _ in pairs], pa.string()),
                "target": pa.array([target for _, target in pairs], pa.string()),
                **{name: pa.array(values, pa.int64()) for name, values in columns.items()},
            }
        ),
    )


def relation_tables(archive: Archive) -> tuple[dict[str, DescribedTable], dict[str, RelationCounts]]:
    """Makes the tables of relations between packages, and from packages to virtual packages.

    Relations to names that the archive does not have are left out and counted.

    Args:
        archive: where the packages are.

    Returns:
        Tables by edge set ("depends", "depends_virtual" and so on), and counts by kind of relation.
    """
    virtual_names = frozenset(archive.virtual)
    tables: dict[str, DescribedTable] = {}
    counts: dict[str, RelationCounts] = {}
    for kind, fields in RELATION_FIELDS.items():
        real, virtual = _Edges(), _Edges()
        read = to_itself = unknown = 0
        for package, stanza in archive.packages.items():
            for field in fields:
                for relation in parse_relations(stanza.get(field, "")):
                    read += 1
                    if relation.target == package:
                        to_itself += 1
                        continue
                    in_packages = relation.target in archive.packages
                    if not in_packages and relation.target not in virtual_names:
                        unknown += 1
                        continue
                    (real if in_packages else virtual).add(
                        package,
                        relation.target,
                        (relation.alternative, relation.n_alternatives),
                        versioned=relation.versioned,
                        flag=field == "Pre-Depends",
                    )
        features = {"versioned": _VERSIONED}
        if kind != "provides":
            features |= {"alternative": _ALTERNATIVE, "n_alternatives": _N_ALTERNATIVES}
        if kind == "depends":
            features |= {"pre_depends": "1 if the target must be set up before unpacking."}
        tables[kind] = real.table(f"edge_{kind}.parquet", f"{_MEANING[kind]}.", **features)
        tables[f"{kind}_virtual"] = virtual.table(
            f"edge_{kind}_virtual.parquet", f"{_MEANING[kind]}, a virtual package.", **features
        )
        counts[kind] = RelationCounts(
            read=read,
            to_packages=len(real.edges),
            to_virtual=len(virtual.edges),
            repeated=real.repeated + virtual.repeated,
            to_itself=to_itself,
            unknown=unknown,
        )
    return tables, counts


def build_depends_table(archive: Archive) -> tuple[DescribedTable, RelationCounts]:
    """Makes the table of what building a source needs.

    Args:
        archive: where the sources are.

    Returns:
        The table, and counts; virtual packages count as unknown.
    """
    edges = _Edges()
    read = unknown = 0
    for source, stanza in archive.sources.items():
        for field in BUILD_FIELDS:
            for relation in parse_relations(stanza.get(field, "")):
                read += 1
                if relation.target not in archive.packages:
                    unknown += 1
                    continue
                edges.add(
                    source,
                    relation.target,
                    (relation.alternative, relation.n_alternatives),
                    versioned=relation.versioned,
                    flag=field == BUILD_FIELDS[0],
                )
    table = edges.table(
        "edge_build_depends.parquet",
        "Building the source needs the package.",
        alternative=_ALTERNATIVE,
        n_alternatives=_N_ALTERNATIVES,
        versioned=_VERSIONED,
        indep_or_arch="1 if only building what serves all architectures, or what serves one, needs it.",
    )
    counts = RelationCounts(
        read=read, to_packages=len(edges.edges), repeated=edges.repeated, to_itself=0, unknown=unknown
    )
    return table, counts


def origin_tables(archive: Archive) -> dict[str, DescribedTable]:
    """Makes the tables that say where packages come from and what they are.

    Args:
        archive: where the packages are.

    Returns:
        Tables by edge set: built_from, maintained_by, tagged, uploaded_by. Uploaders who maintain
        no package are no nodes, and left out.
    """
    packages, people = archive.packages, archive.maintainers

    def uploads() -> Iterator[tuple[str, str]]:
        for source, stanza in archive.sources.items():
            for index in sorted(people.find(stanza.get("Uploaders", ""))):
                yield source, people.names[index]

    return {
        name: edge_table(f"edge_{name}.parquet", description, pairs, {}, {})
        for name, description, pairs in (
            ("built_from", "The package is built from the source.", ((n, source_of(s)) for n, s in packages.items())),
            (
                "maintained_by",
                "The package is looked after by the maintainer.",
                ((n, people.names[people.find(s["Maintainer"])[0]]) for n, s in packages.items()),
            ),
            ("tagged", "The package carries the tag.", ((n, tag) for n, s in packages.items() for tag in tags_of(s))),
            ("uploaded_by", "The source may be uploaded by the maintainer, too.", uploads()),
        )
    }
