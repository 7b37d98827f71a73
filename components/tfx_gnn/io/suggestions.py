"""Suggests the name that somebody meant."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable


def closest_names(name: object, known: Iterable[object], *, limit: int = 1) -> list[str]:
    """Finds the known names that are most like a name, whatever the case of letters.

    Args:
        name: what somebody wrote.
        known: what would have been right.
        limit: how many to find, at least 1.

    Returns:
        The names, the most alike first; none if none is like it.

    Example:
        >>> closest_names("Agee", ["age", "newsletter"])
        ['age']
        >>> closest_names("x", ["age", "newsletter"])
        []
    """
    by_folded = {str(one).casefold(): str(one) for one in known}
    return [by_folded[one] for one in difflib.get_close_matches(str(name).casefold(), by_folded, n=limit)]


def did_you_mean(name: object, known: Iterable[object], *, otherwise: str = "Check the spelling.") -> str:
    """Returns the advice for an unknown name: the known name that is most alike, or what to say `otherwise`.

    Example:
        >>> did_you_mean("agee", ["age", "newsletter"])
        "Did you mean 'age'?"
        >>> did_you_mean("x", ["age", "newsletter"])
        'Check the spelling.'
    """
    alike = closest_names(name, known)
    return f"Did you mean {alike[0]!r}?" if alike else otherwise


def did_you_mean_path(path: str, *, otherwise: str = "Check the path.") -> str:
    """Returns the advice for a path: if there is no such local one, that beside it whose name is most alike."""
    if os.path.lexists(path):
        return otherwise
    folder, name = os.path.split(path.rstrip(os.sep))
    try:
        entries = sorted(os.listdir(folder or "."))
    except OSError:
        return otherwise
    alike = closest_names(name, entries)
    return f"Did you mean {os.path.join(folder, alike[0])!r}?" if alike else otherwise
