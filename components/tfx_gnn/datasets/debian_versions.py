"""Compares version numbers by the rules of Debian Policy 5.6.12."""

from __future__ import annotations

import re

_PIECES = re.compile(r"(\D*)(\d*)")
_OTHER = 1 << 8  # signs that are no letters come behind all letters
_END = 0
_TILDE = -1

PartKey = tuple[tuple[tuple[int, ...], int], ...]
"""Key of one part of a version."""


def version_key(version: str) -> tuple[int, PartKey, PartKey]:
    """Gives versions the order of dpkg.

    Args:
        version: `[epoch:]upstream[-revision]`.

    Returns:
        A key: of two versions the newer one has the larger key, and equal ones have equal keys.

    Raises:
        ValueError: if the epoch is no number.

    Example:
        >>> sorted(["1:0.9", "1.10", "1.9", "1.10~rc1", "1.10-1"], key=version_key)
        ['1.9', '1.10~rc1', '1.10', '1.10-1', '1:0.9']
    """
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    if not epoch.isdecimal():
        raise ValueError(
            f"`version` must begin with a number where it has a colon; got {version!r}. Is the index file whole?"
        )
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return int(epoch), _part_key(upstream), _part_key(revision)


def _part_key(part: str) -> PartKey:
    # The pattern matches once more, nothing, at the end; nothing at all is equal to 0.
    pieces = _PIECES.findall(part)[:-1] or [("", "0")]
    return (*((_text_key(text), int(number or 0)) for text, number in pieces), ((_END,), 0))


def _text_key(text: str) -> tuple[int, ...]:
    return (*(_TILDE if sign == "~" else ord(sign) + _OTHER * (not sign.isalpha()) for sign in text), _END)
