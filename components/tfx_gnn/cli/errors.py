"""Errors on the command line: one line that says what to do, no traceback."""

from __future__ import annotations

import re
import sys
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

ERROR_EXIT_CODE = 2
"""Exit code after an error that the user can mend; that of a wrong command line, too."""

_EXTRA_OF_MODULE = {
    "apache_beam": "beam",
    "cattrs": "beam",
    "jinja2": "beam",
    "matplotlib": "beam",
    "optuna": "tune",
    "pyarrow": "beam",
    "tensorflow_metadata": "beam",
    "tensorflow_transform": "beam",
    "tfx": "tfx",
    "tfx_bsl": "beam",
}

_RAISED = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception)): (.*)$", re.MULTILINE)
_MENDABLE = ("ValueError", "TypeError", "OSError", "FileNotFoundError", "FileExistsError", "PermissionError")
"""Names of the errors of workers that the user can mend."""


class OneLineErrors(TyperGroup):
    """Group of commands whose errors are shown as one red line; `--debug` lets them through."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command line.

        Args:
            ctx: the parsed command line.

        Returns:
            What the command returns.

        Raises:
            typer.Exit: with code 2, after an error that the user can mend was shown.
        """
        try:
            return super().invoke(ctx)
        except Exception as error:
            line = None if (ctx.obj or {}).get("debug") else error_line(error)
            if line is None:
                raise
            Console(stderr=True, highlight=False).print(line, style="bold red", markup=False, soft_wrap=True)
            raise typer.Exit(ERROR_EXIT_CODE) from error


def error_line(error: Exception) -> str | None:
    """Says in one line what an error tells the user.

    Args:
        error: what a command raised.

    Returns:
        The line, or None for an error that the user cannot mend: that is a defect,
        of which the traceback should be seen.
    """
    if isinstance(error, ModuleNotFoundError):
        extra = _EXTRA_OF_MODULE.get((error.name or "").partition(".")[0])
        if extra is not None:
            return f"This command must have {error.name!r} installed; got none. Run: pip install 'tfx-gnn[{extra}]'"
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"`{error.filename}` must be readable and writable as needed; got {error.strerror}. Check the path."
    if isinstance(error, (OSError, TypeError, ValueError)):
        return str(error)
    # Only a command that has imported TensorFlow can raise its errors.
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow is not None and isinstance(error, tensorflow.errors.OpError):
        message = " ".join(str(getattr(error, "message", error)).split())
        # What this library raises itself says it all.
        return message if message.startswith("`") else f"{type(error).__name__}: {message}"
    return _line_of_worker(str(error)) if isinstance(error, RuntimeError) else None


def _line_of_worker(text: str) -> str | None:
    """Finds what a process of Beam's raised: it comes as a RuntimeError with the traceback as text."""
    raised = _RAISED.findall(text) if text.startswith("Traceback (most recent call last)") else []
    if not raised or raised[-1][0] not in _MENDABLE:
        return None
    return str(raised[-1][1])
