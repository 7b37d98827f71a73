"""How verbs with a verdict end: the last line says yes, or no and why; "no" is also an exit code."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from tfx_gnn.cli import arguments

REFUSED_EXIT_CODE = 1
"""Exit code of a verb that did its work and says no; that of an error or of a wrong command line is 2."""


def end_with_verdict(*, passed: bool, verdict: str, reasons: Sequence[str] = ()) -> None:
    """Prints a verdict as the last line of a verb, and ends the command if it is no."""
    line = verdict if passed or not reasons else f"{verdict}: {'; '.join(reasons)}"
    arguments.console.print(line, style="green" if passed else "red", markup=False, soft_wrap=True)
    if not passed:
        raise typer.Exit(REFUSED_EXIT_CODE)


def end_with_blessing(*, blessed: bool, objections: Sequence[str]) -> None:
    """Does so with a blessing."""
    end_with_verdict(passed=blessed, verdict="blessed" if blessed else "NOT blessed", reasons=objections)
