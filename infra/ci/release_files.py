"""What a release changes in the files of the project: texts in, texts out. release.py does the rest.

Between releases, `__version__` is that of the next one with `.dev0`, and the changelog begins with "Unreleased".
"""

from __future__ import annotations

import re

VERSION_FILE = "components/tfx_gnn/__init__.py"
CHANGELOG = "CHANGELOG.md"
CITATION = "CITATION.cff"

_VERSION = re.compile(r'^__version__ = "(?P<version>[^"]*)"$', re.MULTILINE)
_RELEASE = re.compile(r"(?P<release>\d+\.\d+\.\d+)(?:\.dev\d+)?")
_HEADING = re.compile(r"^## \[(?P<name>[^\]]+)\].*\n", re.MULTILINE)
_ENTRY = re.compile(r"^- \S", re.MULTILINE)
_UNRELEASED = "Unreleased"


class CannotReleaseError(Exception):
    """A rule of releases is broken; the message has the remedy."""


def next_release(version_file: str) -> str:
    """Returns the version that a release of this tree has: `__version__` without its `.dev0`."""
    found = _VERSION.search(version_file)
    version = found["version"] if found else None
    release = _RELEASE.fullmatch(version or "")
    if release is None:
        raise CannotReleaseError(
            f"`__version__` must be three numbers, with .dev0 between releases; got {version!r} in {VERSION_FILE}. "
            'Write "0.3.0.dev0", for example.'
        )
    return release["release"]


def release_notes(changelog: str, version: str) -> str:
    """Returns what the changelog says about the release of a version: the section "Unreleased" without its heading."""
    sections = _sections(changelog)
    if version in sections:
        raise CannotReleaseError(
            f"`__version__` must be a version that is not in {CHANGELOG}; got {version}, which is. Set the next one in "
            f"{VERSION_FILE} and {CITATION}."
        )
    notes = sections.get(_UNRELEASED, "").strip("\n")
    if not _ENTRY.search(notes):
        raise CannotReleaseError(
            f"{CHANGELOG} must have entries, lines that begin with '- ', under '## [{_UNRELEASED}]'; got none. Say "
            "there what changes for users."
        )
    return f"{notes}\n"


def released_changelog(changelog: str, version: str, date: str) -> str:
    """Gives the section "Unreleased" the name of the version, and puts a new, empty one above it."""
    release_notes(changelog, version)
    return changelog.replace(f"## [{_UNRELEASED}]\n", f"## [{_UNRELEASED}]\n\n## [{version}] - {date}\n", 1)


def released_version_file(version_file: str, version: str) -> str:
    """Takes the `.dev0` off."""
    return _VERSION.sub(f'__version__ = "{version}"', version_file)


def released_citation(citation: str, version: str, date: str) -> str:
    """Cites the release: its version, and when it was made."""
    lines = [line for line in citation.splitlines() if not line.startswith("date-released:")]
    place = next((number for number, line in enumerate(lines) if line.startswith("version:")), None)
    if place is None:
        raise CannotReleaseError(f"{CITATION} must have a line 'version: ...'; got none. Add it.")
    lines[place : place + 1] = [f"version: {version}", f"date-released: {date}"]
    return "\n".join([*lines, ""])


def image_paths(dockerignore: str) -> list[str]:
    """Returns what an image is built of, the Dockerfile included: what .dockerignore lets through."""
    return ["infra/docker/Dockerfile", *(line[1:] for line in dockerignore.splitlines() if line.startswith("!"))]


def _sections(changelog: str) -> dict[str, str]:
    headings = list(_HEADING.finditer(changelog))
    ends = [*(heading.start() for heading in headings[1:]), len(changelog)]
    return {heading["name"]: changelog[heading.end() : end] for heading, end in zip(headings, ends, strict=True)}
