"""Finds the index files of an archive that apt has fetched."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Collection

_OS_RELEASE = "/etc/os-release"
_FORMAT = "$(CREATED_BY)\t$(CODENAME)\t$(COMPONENT)\t$(ARCHITECTURE)\t$(SOURCESENTRY)\t$(FILENAME)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndexFiles:
    """Index files of one release.

    Attributes:
        packages: paths of its Packages files, one per component.
        sources: paths of its Sources files, one per component.
    """

    packages: tuple[str, ...]
    sources: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class _Target:
    kind: str
    codename: str
    component: str
    architecture: str
    entry: str
    path: str


def find_index_files(
    *, codename: str = "", components: Collection[str] = ("main",), architecture: str = ""
) -> IndexFiles:
    """Asks apt for the paths of the index files of a release that it has fetched."""
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise ValueError(
                f"`packages` and `sources` must be given on a machine without apt; got none, and no {program}. "
                "Give the paths of a Packages and a Sources file."
            )
    codename = codename or _codename_of_this_machine()
    architecture = architecture or _output("dpkg", "--print-architecture").strip()
    lines = _output("apt-get", "indextargets", "--format", _FORMAT).splitlines()
    targets = [_Target(*fields) for fields in (line.split("\t") for line in lines) if len(fields) == 6]
    of_release = [target for target in targets if target.codename == codename]
    packages, sources = [], []
    for component in components:
        here = [target for target in of_release if target.component == component and os.path.exists(target.path)]
        found = [target for target in here if target.kind == "Packages" and target.architecture == architecture]
        if not found:
            names = sorted({f"{target.codename}/{target.component} {target.architecture}" for target in targets})
            raise ValueError(
                f"`codename` must be a release whose list of packages apt has; got none of {codename!r}, "
                f"component {component!r}, architecture {architecture!r}, among {names}. "
                "Run 'apt-get update' as root, or give the paths of a Packages and a Sources file."
            )
        packages.append(found[0].path)
        lists = [target.path for target in here if target.kind == "Sources"]
        if not lists:
            raise ValueError(
                f"`sources` must exist in addition to the list of packages; apt has none of {codename!r}, component "
                f"{component!r}. {_how_to_enable_sources(found[0].entry)}"
            )
        sources.append(lists[0])
    return IndexFiles(packages=tuple(packages), sources=tuple(sources))


def _how_to_enable_sources(entry: str) -> str:
    path = entry.rpartition(":")[0] or "/etc/apt/sources.list"
    change = (
        f"sed -i 's/^Types: deb$/Types: deb deb-src/' {path}"
        if path.endswith(".sources")
        else f"sed -i 's/^deb \\(.*\\)/&\\ndeb-src \\1/' {path}"
    )
    return f"Enable deb-src as root: {change} && apt-get update; or give the path of a Sources file."


def _codename_of_this_machine() -> str:
    with open(_OS_RELEASE, encoding="utf-8") as file:
        settings = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
    codename = settings.get("VERSION_CODENAME", "").strip('"')
    if not codename:
        raise ValueError(
            f"`codename` must be given if {_OS_RELEASE} has no VERSION_CODENAME; got none. Give one, such as 'sid'."
        )
    return codename


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(
            f"`{' '.join(command[:2])}` must succeed; got exit code {done.returncode}: {done.stderr.strip()[-300:]}. "
            "Give the paths of a Packages and a Sources file."
        )
    return done.stdout
