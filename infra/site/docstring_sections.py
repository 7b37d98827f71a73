"""Griffe extension: the sections of this project's docstrings that griffe does not know.

"Example:" is what griffe calls Examples. "Init args:" and "Call args:", of layers, are arguments of the constructor
and of a call; griffe has one section for arguments, so those of a call become a list in the text.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

_CALL_ARGUMENTS = re.compile(r"^Call (?:args|arguments|returns):\n((?:[ \t]+.*\n?|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+): ", re.MULTILINE)


class DocstringSections(griffe.Extension):
    """Rewrites docstrings before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrites the docstring of a module, class, function or attribute."""
        if obj.docstring is None:
            return
        text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
        text = re.sub(r"^Init args:$", "Args:", text, flags=re.MULTILINE)
        obj.docstring.value = _CALL_ARGUMENTS.sub(_as_list, text)


def _as_list(section: re.Match[str]) -> str:
    heading = "**Returns of a call:**" if "returns" in section[0].split(":")[0] else "**Arguments of a call:**"
    entries = _ENTRY.sub(r"- `\1`: ", textwrap.dedent(section[1]).strip("\n"))
    return f"{heading}\n\n{entries}\n\n"
