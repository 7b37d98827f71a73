"""Suggests the name that somebody meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[object], *, otherwise: str = "Check the spelling.") -> str:
    """Returns the advice for an unknown name: the known name that is most alike, or what to say `otherwise`.

    Example:
        >>> did_you_mean("agee", ["age", "newsletter"])
        "Did you mean 'age'?"
        >>> did_you_mean("x", ["age", "newsletter"])
        'Check the spelling.'
    """
    alike = difflib.get_close_matches(str(name), [str(one) for one in known], n=1)
    return f"Did you mean {alike[0]!r}?" if alike else otherwise
