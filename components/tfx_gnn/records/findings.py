"""Findings of checks: counts and first places; findings of parts can be merged."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

MAX_PLACES = 3
"""Number of places kept for each finding."""


@dataclasses.dataclass(frozen=True, kw_only=True, order=True)
class Place:
    """A place, and what was found there.

    Attributes:
        file: the record file, by its position in the split and its base name.
        record: position of the record in the file, from 0; -1 for the file as a whole.
        detail: what was found there, such as "index 7 with 5 nodes".
    """

    file: str
    record: int
    detail: str = ""

    def text(self) -> str:
        """Describes the place in words."""
        place = self.file if self.record < 0 else f"record {self.record} of {self.file}"
        return f"{place}: {self.detail}" if self.detail else place


@dataclasses.dataclass(kw_only=True)
class Finding:
    """One check that failed.

    Attributes:
        check: name of the check.
        split: split in which it failed.
        about: what failed: a tf.Example key, a set or a pair of these; empty for the split as a whole.
        num_examples: number of failing examples (or files, seeds, pairs: whatever the check counts).
        num_values: number of failing values in them; 0 if the check does not count values.
        places: the first few places.
        num_by_kind: number of values by kind, such as "NaN"; empty if there is only one kind.
    """

    check: str
    split: str
    about: str
    num_examples: int = 0
    num_values: int = 0
    places: list[Place] = dataclasses.field(default_factory=list)
    num_by_kind: dict[str, int] = dataclasses.field(default_factory=dict)

    def add(
        self,
        num_examples: int,
        places: Sequence[Place],
        num_values: int = 0,
        num_by_kind: Mapping[str, int] | None = None,
    ) -> None:
        """Counts more failures, and keeps the first places in the order of files and records."""
        self.num_examples += num_examples
        self.num_values += num_values
        self.places = sorted({*self.places, *places})[:MAX_PLACES]
        for kind, number in (num_by_kind or {}).items():
            self.num_by_kind[kind] = self.num_by_kind.get(kind, 0) + number


@dataclasses.dataclass(kw_only=True)
class Findings:
    """All that checks found in some part of the data.

    Attributes:
        found: the findings, one for each check, split and `about`.
    """

    found: list[Finding] = dataclasses.field(default_factory=list)

    def at(self, check: str, split: str, about: str = "") -> Finding:
        """Returns the finding of a check, which is created if there is none yet."""
        for finding in self.found:
            if (finding.check, finding.split, finding.about) == (check, split, about):
                return finding
        self.found.append(Finding(check=check, split=split, about=about))
        return self.found[-1]


def merge_findings(parts: Iterable[Findings]) -> Findings:
    """Adds up findings of disjoint parts, ordered by split, check and `about`."""
    by_key: dict[tuple[str, str, str], Finding] = {}
    for part in parts:
        for finding in part.found:
            key = (finding.split, finding.check, finding.about)
            total = by_key.setdefault(key, Finding(check=finding.check, split=finding.split, about=finding.about))
            total.add(finding.num_examples, finding.places, finding.num_values, finding.num_by_kind)
    return Findings(found=[by_key[key] for key in sorted(by_key)])
