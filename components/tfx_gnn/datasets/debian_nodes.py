"""Node tables of a Debian archive: packages, sources, maintainers, tags and virtual packages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import pyarrow as pa

from tfx_gnn.datasets.debian_archive import BUILD_FIELDS, VCS_FIELDS, Archive, Stanza, source_of
from tfx_gnn.datasets.debian_people import parse_people
from tfx_gnn.datasets.debian_relations import split_clauses
from tfx_gnn.datasets.tables_folder import DescribedTable

NONE = "none"
"""What stands for a value that a stanza does not give."""


def split_of(name: str) -> str:
    """Assigns a name to a split that it keeps whatever else is there.

    Args:
        name: of a package, or of a source where siblings shall stay together.

    Returns:
        "train" for eight names of ten, "val" and "test" for one each, by a hash.
    """
    tenth = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 10
    return "train" if tenth < 8 else "val" if tenth == 8 else "test"


def tags_of(package: Stanza) -> list[str]:
    """Reads the debtags of a package.

    Args:
        package: its stanza.

    Returns:
        Tags such as "role::program", ascending, each once.
    """
    return sorted(set(split_clauses(package.get("Tag", ""))))


def package_table(archive: Archive) -> DescribedTable:
    """Makes the table of packages.

    Args:
        archive: where they are.

    Returns:
        One row a package, ascending.
    """
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
                # Of "universe/games" the first word is the component, not the subject.
                "section": _texts(stanza.get("Section", NONE).rpartition("/")[2] for stanza in stanzas),
                "priority": _texts(stanza.get("Priority", NONE) for stanza in stanzas),
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
                "n_tags": _integers(len(tags_of(stanza)) for stanza in stanzas),
                "split": _texts(split_of(name) for name in archive.packages),
                "split_by_source": _texts(split_of(source_of(stanza)) for stanza in stanzas),
            }
        ),
    )


def source_table(archive: Archive) -> DescribedTable:
    """Makes the table of sources.

    Args:
        archive: where they are.

    Returns:
        One row a source that a package is built from, ascending.
    """
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
                "section": _texts(stanza.get("Section", NONE).rpartition("/")[2] for stanza in stanzas),
                # "3.0 (quilt)" without its number.
                "format": _texts(stanza.get("Format", NONE).rpartition(" ")[2] for stanza in stanzas),
                "standards_version": _texts(stanza.get("Standards-Version", NONE) for stanza in stanzas),
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
    """Makes the table of maintainers.

    Args:
        archive: where they are.

    Returns:
        One row an address, which is not in it.
    """
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
    """Makes the table of tags.

    Args:
        archive: where they are.

    Returns:
        One row a tag that a package carries, ascending.
    """
    tags = sorted({tag for stanza in archive.packages.values() for tag in tags_of(stanza)})
    return DescribedTable(
        filename="node_tag.parquet",
        description="A term of the debtags vocabulary.",
        extra={"id_column": "tag"},
        features={"facet": "Part of the vocabulary, such as role or interface."},
        table=pa.table({"tag": _texts(tags), "facet": _texts(tag.partition("::")[0] for tag in tags)}),
    )


def virtual_table(archive: Archive) -> DescribedTable:
    """Makes the table of virtual packages.

    Args:
        archive: where they are.

    Returns:
        One row a name, ascending.
    """
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
    value = stanza.get("Multi-Arch", NONE)
    return NONE if value == "no" else value


def _number(stanza: Stanza, field: str) -> int:
    text = stanza.get(field, "0")
    if not text.isdecimal():
        raise ValueError(
            f"`{field}` must be a number; got {text!r} for package {stanza['Package']!r}. Is the index file whole?"
        )
    return int(text)
