"""Consoles and streams that print any text literally: names come from files, and may look like markup or controls."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that a terminal obeys, except tab and newline."""


class PlainConsole(Console):
    r"""A console without markup: it prints `[red]` and `:smile:` literally, and escapes control characters.

    Example:
        >>> PlainConsole(width=40).print("[red]u[/v] :smile:" + chr(27) + "[2J")
        [red]u[/v] :smile:\x1b[2J
    """

    def __init__(self, **settings: Any) -> None:
        """Takes the settings of `rich.console.Console`."""
        # In a notebook, each line would become an output of its own.
        given = {"markup": False, "emoji": False, "highlight": False, "force_jupyter": False, **settings}
        super().__init__(**given)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Renders a text, including the cells and titles of tables."""
        return super().render_str(escape_controls(text), **settings)

    def on_broken_pipe(self) -> None:
        """Raises the error, for the command line to end as other programs do; `Console` ends the process here."""
        raise  # noqa: PLE0704 - rich calls this while it handles the error.


def escape_controls(text: str) -> str:
    r"""Replaces control characters by Python's escapes, so that a terminal shows them instead of obeying them.

    Example:
        >>> print(escape_controls("a" + chr(27) + "[2J"))
        a\x1b[2J
    """
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def escape_what_cannot_be_encoded() -> None:
    """Makes stdout and stderr of this process escape characters that their encoding lacks, instead of failing.

    Under LC_ALL=POSIX these are all except ASCII; under UTF-8, bytes in file names that are not UTF-8.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
