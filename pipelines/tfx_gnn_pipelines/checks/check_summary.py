"""Prints what a check looked at and found."""

from __future__ import annotations

from rich.console import Console

from tfx_gnn_pipelines.checks.findings import Finding, PipelineCheck


def print_check(console: Console, found: PipelineCheck) -> None:
    """Prints what a check looked at and found, and its verdict as the last line."""
    for line in found.looked_at:
        _print_line(console, f"checked      {line}", style="dim")
    for line in found.not_checked:
        _print_line(console, f"not checked  {line}", style="yellow")
    for finding in found.findings:
        print_finding(console, finding)
    print_verdict(console, found)


def print_finding(console: Console, finding: Finding) -> None:
    """Prints one finding as a line."""
    style = {"error": "red", "warning": "yellow", "note": "dim"}[finding.severity]
    _print_line(console, f"{finding.severity:<8} {finding.step}: {finding.message}", style=style)


def print_verdict(console: Console, found: PipelineCheck, *, late: bool = False) -> None:
    """Prints in a line whether a run can start; `late` says that its training had begun before that was known."""
    kinds = ("error", "warning", "note")
    numbers = {kind: sum(finding.severity == kind for finding in found.findings) for kind in kinds}
    counts = [f"{number} {word}{'' if number == 1 else 's'}" for word, number in numbers.items() if number]
    *most, last = counts or ["nothing wrong"]
    verdict = f"{', '.join(most)} and {last}" if most else last
    when = ", known after training had begun" if late else ""
    _print_line(
        console,
        f"{'ready to run' if found.passed else 'NOT ready to run'}{when}: {verdict}, {found.seconds:.1f} s",
        style="green" if found.passed else "red",
    )


def _print_line(console: Console, line: str, *, style: str) -> None:
    console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
