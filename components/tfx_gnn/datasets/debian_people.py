"""Maintainers of packages: teams are identified by name, people by number."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable, Mapping

_ADDRESS = re.compile(r"\s*,?\s*([^<>]*?)\s*<\s*([^<>\s]+)\s*>")

_TEAM_NAME = re.compile(
    r"\b(administrators|association|board|collective|committee|crew|devel|developers|devs|editors|folks|foundation|"
    r"gang|group|lab|list|maintainers?|maint|packagers|packages|packaging|party|project|squad|strike force|"
    r"task force|teams?)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\([^()]*\)")  # an addition to a person's name: "Ann Example (Debian packages)"
_SPOKEN_FOR = re.compile(r"\b(?:and|behalf|by|c/o|for|via|with)\b|[,&@]", re.IGNORECASE)  # "Ann Example for the A Team"
_TEAM_ADDRESS = re.compile(
    r"@(?:[\w.-]*\blists?\b[\w.-]*|tracker\.\S+|googlegroups\.com|[\w-]*groups\.io)$|"
    r"^(?:team\+|pkg-|debian-)|-(?:devel|maint|maintainers|team)@",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Maintainers:
    """All maintainers of packages, without names of people and without addresses.

    Attributes:
        names: unique name of each maintainer: the name of a team, `team-NNNN` for a team whose name might
            be that of a person, or `person-NNNN`. They have the order of the addresses, which are not kept.
        is_team: whether each maintainer is a team.
        index_of_address: position in `names` by address, for look-ups; never written to a file.
    """

    names: tuple[str, ...]
    is_team: tuple[bool, ...]
    index_of_address: Mapping[str, int] = dataclasses.field(repr=False)

    def find(self, text: str) -> list[int]:
        """Returns the positions in `names` of the people in a Maintainer or Uploaders field, in their order."""
        found = (self.index_of_address.get(address) for _, address in parse_people(text))
        return list(dict.fromkeys(index for index in found if index is not None))


def parse_people(text: str) -> list[tuple[str, str]]:
    """Parses `Name <address>, Name <address>`; converts addresses to lower case, skips entries without an address."""
    return [(name.strip("\"' \n"), address.lower()) for name, address in _ADDRESS.findall(text)]


def is_team(name: str, address: str) -> bool:
    """Guesses whether a maintainer is a team: by name, or by the address of a mailing list."""
    return bool(_TEAM_NAME.search(_ASIDE.sub("", name)) or _TEAM_ADDRESS.search(address))


def _names_no_person(name: str) -> bool:
    return bool(_TEAM_NAME.search(name) and not _ASIDE.search(name) and not _SPOKEN_FOR.search(name))


def number_maintainers(fields: Iterable[str]) -> Maintainers:
    """Gives every maintainer (one per address) a name that does not identify a person.

    A team gets the name that most of its packages use.
    """
    names_by_address: dict[str, collections.Counter[str]] = {}
    for field in fields:
        people = parse_people(field)
        if not people:
            raise ValueError(
                f"`Maintainer` must be a name and an address in <>; got a field of {len(field)} characters without an "
                "address. Is the index file complete?"
            )
        # A package has one maintainer: text after the first address is not a second maintainer.
        name, address = people[0]
        names_by_address.setdefault(address, collections.Counter())[name] += 1
    names: list[str] = []
    teams: list[bool] = []
    times: collections.Counter[str] = collections.Counter()
    for number, (address, counts) in enumerate(sorted(names_by_address.items())):
        name = min(counts, key=lambda name: (-counts[name], name))
        teams.append(is_team(name, address))
        if not teams[-1]:
            names.append(f"person-{number:04d}")
        elif not _names_no_person(name):
            names.append(f"team-{number:04d}")
        else:
            times[name] += 1
            names.append(name if times[name] == 1 else f"{name} ({times[name]})")
    return Maintainers(
        names=tuple(names),
        is_team=tuple(teams),
        index_of_address={address: index for index, address in enumerate(sorted(names_by_address))},
    )
