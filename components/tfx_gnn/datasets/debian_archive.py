"""Reads the index files of a Debian archive: the newest version of every package and source."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from tfx_gnn.datasets.debian_control_files import parse_relations, read_stanzas, version_key
from tfx_gnn.datasets.debian_people import Maintainers, number_maintainers

RELATION_FIELDS = {
    "depends": ("Depends", "Pre-Depends"),
    "recommends": ("Recommends",),
    "suggests": ("Suggests",),
    "enhances": ("Enhances",),
    "conflicts": ("Conflicts",),
    "breaks": ("Breaks",),
    "replaces": ("Replaces",),
    "provides": ("Provides",),
}
"""Relations between packages: name to the fields that hold them."""

BUILD_FIELDS = ("Build-Depends", "Build-Depends-Indep", "Build-Depends-Arch")
"""Fields with the build dependencies of a source, for the whole source and for parts of it."""

VCS_FIELDS = ("Vcs-Arch", "Vcs-Browser", "Vcs-Bzr", "Vcs-Cvs", "Vcs-Darcs", "Vcs-Git", "Vcs-Hg", "Vcs-Mtn", "Vcs-Svn")
"""Fields with the version control repository of a source."""

_PACKAGE_FIELDS = (
    "Architecture", "Essential", "Homepage", "Installed-Size", "Maintainer", "Multi-Arch", "Package", "Priority",
    "Section", "Size", "Source", "Tag", "Version", *(field for fields in RELATION_FIELDS.values() for field in fields),
)  # fmt: skip
_SOURCE_FIELDS = (
    "Binary", "Format", "Package", "Section", "Standards-Version", "Testsuite", "Uploaders", "Version",
    *BUILD_FIELDS, *VCS_FIELDS,
)  # fmt: skip

Stanza = Mapping[str, str]
"""Values by field name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Archive:
    """Packages, the sources they are built from, and their maintainers.

    Attributes:
        packages: stanzas of Packages by package, ascending.
        sources: stanzas of Sources by source, ascending; the stanza is empty if Sources lacks a
            source that a package names.
        virtual: names that packages provide but that are not names of packages, ascending.
        maintainers: all maintainers of packages.
        n_versions: by package, the number of its versions in the files.
        num_package_stanzas: number of stanzas in all Packages files.
        num_source_stanzas: number of stanzas in all Sources files.
        num_unused_sources: number of sources that no package here is built from.
    """

    packages: Mapping[str, Stanza]
    sources: Mapping[str, Stanza]
    virtual: tuple[str, ...]
    maintainers: Maintainers
    n_versions: Mapping[str, int]
    num_package_stanzas: int
    num_source_stanzas: int
    num_unused_sources: int

    @property
    def missing_sources(self) -> list[str]:
        """Sources that packages name but Sources lacks, ascending."""
        return [name for name, stanza in self.sources.items() if not stanza]


def read_archive(packages: Sequence[str], sources: Sequence[str]) -> Archive:
    """Reads the Packages files of one architecture, and the Sources files of the same parts of the archive."""
    for argument, paths in (("packages", packages), ("sources", sources)):
        if isinstance(paths, str) or not paths:
            raise ValueError(
                f"`{argument}` must be a list of at least one index file; got {paths!r}. Give the paths, or let apt "
                "find them."
            )
    newest, n_versions = _newest(packages, _PACKAGE_FIELDS, ("Package", "Version", "Maintainer", "Architecture"))
    known, n_source_versions = _newest(sources, _SOURCE_FIELDS, ("Package", "Version"))
    used = sorted({source_of(stanza) for stanza in newest.values()})
    virtual = {
        relation.target for stanza in newest.values() for relation in parse_relations(stanza.get("Provides", ""))
    }
    return Archive(
        packages=newest,
        sources={name: known.get(name, {}) for name in used},
        virtual=tuple(sorted(virtual - set(newest))),
        maintainers=number_maintainers(stanza["Maintainer"] for stanza in newest.values()),
        n_versions=n_versions,
        num_package_stanzas=sum(n_versions.values()),
        num_source_stanzas=sum(n_source_versions.values()),
        num_unused_sources=len(known.keys() - set(used)),
    )


def source_of(package: Stanza) -> str:
    """Returns the name of the source that a package is built from; by default the name of the package."""
    return package.get("Source", package["Package"]).partition(" ")[0]


def _newest(
    paths: Sequence[str], fields: Sequence[str], required: Sequence[str]
) -> tuple[dict[str, Stanza], collections.Counter[str]]:
    newest: dict[str, Stanza] = {}
    n_versions: collections.Counter[str] = collections.Counter()
    for path in paths:
        for stanza in read_stanzas(path, fields, required=required):
            name = stanza["Package"]
            n_versions[name] += 1
            known = newest.get(name)
            # If a version occurs twice, the first stanza is kept.
            if known is None or version_key(known["Version"]) < version_key(stanza["Version"]):
                newest[name] = stanza
    return dict(sorted(newest.items())), n_versions
