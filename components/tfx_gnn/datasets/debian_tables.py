"""Tables of a Debian archive: its node sets, and the edges between them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa

from tfx_gnn.datasets.debian_archive import BUILD_FIELDS, RELATION_FIELDS, VCS_FIELDS, Archive, Stanza, source_of
from tfx_gnn.datasets.debian_control_files import parse_relations, split_clauses
from tfx_gnn.datasets.debian_people import parse_people
from tfx_gnn.datasets.tables_folder import DescribedTable

_NONE = "none"
"""Placeholder for a value that a stanza does not give."""


def split_of(name: str) -> str:
    """Assigns a name to a split by its hash: eight of ten to "train", one each to "val" and "test"."""
    tenth = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 10
    return "train" if tenth < 8 else "val" if tenth == 8 else "test"


def _tags_of(package: Stanza) -> list[str]:
    """Reads the debtags of a package, such as "role::program", sorted and without duplicates."""
    return sorted(set(split_clauses(package.get("Tag", ""))))


def package_table(archive: Archive) -> DescribedTable:
    """Makes the table of packages."""
    stanzas = archive.packages.values()
    return DescribedTable(
        filename="node_package.parquet",
        description="A binary package. The label of the usual task is `section`. The file also has columns that are no "
        "features: `split` (train, val or test by a hash of the name), `split_by_source` (by a hash of the source's "
        "name: siblings stay together), `version` and `n_versions`. A model that predicts `section` must see neither "
        "the spelling of the name nor the package's own tags: both give it away.",
        extra={"id_column": "package"},
        features={
            "arch_all": "1 if the package serves every architecture.",
            "essential": "1 if the system cannot do without it.",
            "has_homepage": "1 if a home page of the software is given.",
            "installed_size_kib": "Disk space when installed, in KiB; 0 if not given.",
            "multi_arch": "How it lives beside other architectures: same, foreign, allowed or none.",
            "n_depends_clauses": "Number of clauses of Depends.",
            "n_provides_clauses": "Number of names that it provides.",
            "n_recommends_clauses": "Number of clauses of Recommends.",
            "n_suggests_clauses": "Number of clauses of Suggests.",
            "n_tags": "Number of debtags; half of the packages have none.",
            "priority": "required, important, standard, optional or extra.",
            "section": "Part of the archive, such as libs or games: the label.",
            "size_bytes": "Size of the package file.",
        },
        table=pa.table(
            {
                "package": _texts(archive.packages),
                # In "universe/games", the first word is the component, not the subject.
                "section": _texts(stanza.get("Section", _NONE).rpartition("/")[2] for stanza in stanzas),
                "priority": _texts(stanza.get("Priority", _NONE) for stanza in stanzas),
                "arch_all": _flags(stanzas, lambda stanza: stanza["Architecture"] == "all"),
                "multi_arch": _texts(_multi_arch(stanza) for stanza in stanzas),
                "essential": _flags(stanzas, lambda stanza: stanza.get("Essential") == "yes"),
                "installed_size_kib": _integers(_number(stanza, "Installed-Size") for stanza in stanzas),
                "size_bytes": _integers(_number(stanza, "Size") for stanza in stanzas),
                "n_versions": _integers(archive.n_versions[name] for name in archive.packages),
                "version": _texts(stanza["Version"] for stanza in stanzas),
                "has_homepage": _flags(stanzas, lambda stanza: "Homepage" in stanza),
                "n_depends_clauses": _clauses(stanzas, "Depends"),
                "n_recommends_clauses": _clauses(stanzas, "Recommends"),
                "n_suggests_clauses": _clauses(stanzas, "Suggests"),
                "n_provides_clauses": _clauses(stanzas, "Provides"),
                "n_tags": _integers(len(_tags_of(stanza)) for stanza in stanzas),
                "split": _texts(split_of(name) for name in archive.packages),
                "split_by_source": _texts(split_of(source_of(stanza)) for stanza in stanzas),
            }
        ),
    )


def source_table(archive: Archive) -> DescribedTable:
    """Makes the table of sources that packages are built from."""
    stanzas = archive.sources.values()
    return DescribedTable(
        filename="node_source.parquet",
        description="A source package, from which binary packages are built. Its column `section` is no feature: "
        "it gives the packages' own section away.",
        extra={"id_column": "source"},
        features={
            "format": "Kind of source format: (quilt), (native) or 1.0.",
            "has_testsuite": "1 if tests of the built package are declared.",
            "has_vcs": "1 if a version control repository is given.",
            "missing": "1 if the archive's list lacks the source: all else is empty then.",
            "n_binaries_listed": "Number of packages that can be built of it.",
            "n_build_depends": "Number of clauses of build dependencies.",
            "n_uploaders": "Number of co-maintainers.",
            "standards_version": "Version of the packaging policy that it follows.",
        },
        table=pa.table(
            {
                "source": _texts(archive.sources),
                "n_binaries_listed": _clauses(stanzas, "Binary"),
                "section": _texts(stanza.get("Section", _NONE).rpartition("/")[2] for stanza in stanzas),
                # "3.0 (quilt)" becomes "(quilt)".
                "format": _texts(stanza.get("Format", _NONE).rpartition(" ")[2] for stanza in stanzas),
                "standards_version": _texts(stanza.get("Standards-Version", _NONE) for stanza in stanzas),
                "has_vcs": _flags(stanzas, lambda stanza: any(field in stanza for field in VCS_FIELDS)),
                "has_testsuite": _flags(stanzas, lambda stanza: "Testsuite" in stanza),
                "n_uploaders": _integers(len(parse_people(stanza.get("Uploaders", ""))) for stanza in stanzas),
                "n_build_depends": _integers(
                    sum(len(split_clauses(stanza.get(field, ""))) for field in BUILD_FIELDS) for stanza in stanzas
                ),
                "missing": _flags(stanzas, lambda stanza: not stanza),
            }
        ),
    )


def maintainer_table(archive: Archive) -> DescribedTable:
    """Makes the table of maintainers, with one row per address but without the addresses."""
    return DescribedTable(
        filename="node_maintainer.parquet",
        description="A team or a person (as a number) who looks after packages.",
        extra={"id_column": "maintainer"},
        features={"is_team": "1 for a team."},
        table=pa.table(
            {
                "maintainer": _texts(archive.maintainers.names),
                "is_team": _integers(map(int, archive.maintainers.is_team)),
            }
        ),
    )


def tag_table(archive: Archive) -> DescribedTable:
    """Makes the table of tags of packages."""
    tags = sorted({tag for stanza in archive.packages.values() for tag in _tags_of(stanza)})
    return DescribedTable(
        filename="node_tag.parquet",
        description="A term of the debtags vocabulary.",
        extra={"id_column": "tag"},
        features={"facet": "Part of the vocabulary, such as role or interface."},
        table=pa.table({"tag": _texts(tags), "facet": _texts(tag.partition("::")[0] for tag in tags)}),
    )


def virtual_table(archive: Archive) -> DescribedTable:
    """Makes the table of virtual packages."""
    return DescribedTable(
        filename="node_virtual.parquet",
        description="A name that packages provide and no package has.",
        extra={"id_column": "virtual"},
        table=pa.table({"virtual": _texts(archive.virtual)}),
    )


def _texts(values: Iterable[str]) -> pa.Array:
    return pa.array(list(values), pa.string())


def _integers(values: Iterable[int]) -> pa.Array:
    return pa.array(list(values), pa.int64())


def _flags(stanzas: Iterable[Stanza], rule: Callable[[Stanza], bool]) -> pa.Array:
    return _integers(int(rule(stanza)) for stanza in stanzas)


def _clauses(stanzas: Iterable[Stanza], field: str) -> pa.Array:
    return _integers(len(split_clauses(stanza.get(field, ""))) for stanza in stanzas)


def _multi_arch(stanza: Stanza) -> str:
    value = stanza.get("Multi-Arch", _NONE)
    return _NONE if value == "no" else value


def _number(stanza: Stanza, field: str) -> int:
    text = stanza.get(field, "0")
    if not text.isdecimal():
        raise ValueError(
            f"`{field}` must be a number; got {text!r} for package {stanza['Package']!r}. Is the index file complete?"
        )
    return int(text)


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
    """Counts for the alternatives of one kind of relation.

    Attributes:
        read: alternatives of all clauses.
        to_packages: edges to packages.
        to_virtual: edges to virtual packages.
        repeated: alternatives whose target already has an edge from the same package.
        to_itself: alternatives that name the package itself.
        unknown: alternatives that are neither a package nor a virtual package of the archive.
    """

    read: int
    to_packages: int
    to_virtual: int = 0
    repeated: int
    to_itself: int
    unknown: int


@dataclasses.dataclass
class _Edge:
    """An edge, which further clauses may update."""

    position: tuple[int, int]  # alternative, number of alternatives
    versioned: bool
    flag: bool  # whether any of its clauses comes from the most important field


class _Edges:
    """Edges of one kind by their ends; clauses with the same target become one edge."""

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
        """Makes a table of the columns that `features` describes, sorted by source and target."""
        pairs = sorted(self.edges)
        edges = [self.edges[pair] for pair in pairs]
        columns = {
            "alternative": [edge.position[0] for edge in edges],
            "n_alternatives": [edge.position[1] for edge in edges],
            "versioned": [int(edge.versioned) for edge in edges],
            "pre_depends": [int(edge.flag) for edge in edges],
            "indep_or_arch": [int(not edge.flag) for edge in edges],
        }
        return _edge_table(filename, description, pairs, {name: columns[name] for name in features}, features)


def _edge_table(
    filename: str,
    description: str,
    pairs: Iterable[tuple[str, str]],
    columns: Mapping[str, list[int]],
    features: Mapping[str, str],
) -> DescribedTable:
    """Makes a table with the columns "source" and "target", followed by integer features."""
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
    """Makes the tables of relations between packages, and from packages to virtual packages, by edge set.

    Relations to names that are not in the archive are left out and counted, by kind of relation.
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
    """Makes the table of build dependencies of sources; virtual packages count as unknown."""
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
    """Makes the tables of sources, maintainers and tags of packages, and of uploaders of sources, by edge set.

    Uploaders who do not maintain a package are left out, because they are not nodes.
    """
    packages, people = archive.packages, archive.maintainers

    def uploads() -> Iterator[tuple[str, str]]:
        for source, stanza in archive.sources.items():
            for index in sorted(people.find(stanza.get("Uploaders", ""))):
                yield source, people.names[index]

    return {
        name: _edge_table(f"edge_{name}.parquet", description, pairs, {}, {})
        for name, description, pairs in (
            ("built_from", "The package is built from the source.", ((n, source_of(s)) for n, s in packages.items())),
            (
                "maintained_by",
                "The package is looked after by the maintainer.",
                ((n, people.names[people.find(s["Maintainer"])[0]]) for n, s in packages.items()),
            ),
            ("tagged", "The package carries the tag.", ((n, tag) for n, s in packages.items() for tag in _tags_of(s))),
            ("uploaded_by", "The source may be uploaded by the maintainer, too.", uploads()),
        )
    }
