"""Reads relations between packages: `a (>= 1) | b:any [amd64] <!nocheck>, c`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_ALTERNATIVE = re.compile(
    r"\s*([A-Za-z0-9][A-Za-z0-9+.\-]*)"  # name
    r"(?::[a-z0-9\-]+)?"  # architecture of the target
    r"\s*(\([^()]*\))?"  # version
    r"\s*(?:\[[^\[\]]*\])?"  # architectures that the relation holds on
    r"\s*(?:<[^<>]*>\s*)*$"  # build profiles
)


class Relation(NamedTuple):
    """One alternative of one clause.

    Attributes:
        target: name of the package that is meant.
        alternative: position among the alternatives of the clause, from 0.
        n_alternatives: number of alternatives of the clause, at least 1.
        versioned: whether only some versions are meant.
    """

    target: str
    alternative: int
    n_alternatives: int
    versioned: bool


def split_clauses(text: str) -> list[str]:
    """Cuts a field at its commas.

    Args:
        text: value of a field that holds a list.

    Returns:
        The entries that are not empty, without blanks at either end.
    """
    return [entry for entry in map(str.strip, text.split(",")) if entry]


def parse_relations(text: str) -> Iterator[Relation]:
    """Yields what a field such as Depends names, clause by clause.

    Conditions on architectures and build profiles are not weighed: a relation counts
    wherever it holds.

    Args:
        text: value of the field.

    Yields:
        All alternatives of all clauses.

    Raises:
        ValueError: if an alternative is no name with conditions.
    """
    for clause in split_clauses(text):
        alternatives = clause.split("|")
        for position, alternative in enumerate(alternatives):
            match = _ALTERNATIVE.match(alternative)
            if match is None:
                raise ValueError(
                    "`text` must be relations like 'a (>= 1) | b:any, c'; got "
                    f"{alternative.strip()!r} in {clause!r}. Is the index file whole?"
                )
            yield Relation(match[1], position, len(alternatives), match[2] is not None)
