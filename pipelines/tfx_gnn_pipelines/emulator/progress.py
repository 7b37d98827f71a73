"""Prints the tasks of a compiled pipeline while it runs, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from tfx_gnn_pipelines.emulator.run import SUCCEEDED, TaskResult
from tfx_gnn_pipelines.services import Service

_MARKS = {
    "done": ("+", "green"),
    "cached": ("=", "cyan"),
    "failed": ("x", "bold red"),
    "skipped": ("-", "yellow"),
    "not run": ("-", "yellow"),
}


class EmulatorProgress:
    """Prints a line when a task starts and another one when it ends."""

    def __init__(self, console: Console, *, num_tasks: int) -> None:
        self._console = console
        self._num_tasks = num_tasks
        self._number = 0

    def report(self, task: str, result: TaskResult | None) -> None:
        """Prints that a task started, if there is no result, or how it ended."""
        if result is None:
            self._print(" ", self._number + 1, task, "running ...", "dim")
            return
        if result.state == "waiting":
            self._line(f"    failed: {result.reason}", "yellow")
            self._line(f"    attempt {result.attempts + 1} follows in {result.seconds:g} s", "dim")
            return
        self._number += 1
        mark, style = _MARKS[result.state]
        self._print(mark, self._number, task, _description(result), style)

    def summarize(self, results: Sequence[TaskResult], service: Service) -> None:
        """Prints how many tasks succeeded, and the last line and the log of each that failed."""
        succeeded = sum(result.state in SUCCEEDED for result in results)
        self._line(f"{succeeded} of {len(results)} tasks succeeded as {service.value} would run them", "bold")
        for result in results:
            if result.state == "failed":
                self._line(f"  {result.task}: {result.reason}", "red")
                self._line(f"  its log: {result.log}", "")
            if result.state == "skipped":
                self._line(f"  {result.task} was skipped, because this is not true: {result.reason}", "yellow")
        pushed = [result.artifacts["pushed_model"] for result in results if "pushed_model" in result.artifacts]
        for model in pushed:
            metadata = model["metadata"]
            place = metadata.get("pushed_destination") if metadata.get("pushed") else "nothing was pushed"
            self._line(f"  pushed   {place}", "")

    def _print(self, mark: str, number: int, task: str, what: str, style: str) -> None:
        width = len(str(self._num_tasks))
        self._line(f"{mark} {number:>{width}}/{self._num_tasks} {task:<24} {what}", style)

    def _line(self, text: str, style: str) -> None:
        self._console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def _description(result: TaskResult) -> str:
    if result.state in ("done", "failed"):
        after = f" in {result.seconds:.1f} s" if result.state == "done" else f" after {result.seconds:.1f} s"
        return result.state + after + (f", at attempt {result.attempts}" if result.attempts > 1 else "")
    return {"not run": "not run, because a task before it did not succeed"}.get(result.state, result.state)
