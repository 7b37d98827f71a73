"""The summary of a finished run: warnings, the result, where its page is, and a command to ask the model."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from tfx_gnn.io.plain_console import escape_controls
from tfx_gnn.records.metric_names import ROC_AUC, shown_metric
from tfx_gnn.records.warning_kinds import split_mark
from tfx_gnn.reports.run_warnings import tasks_of
from tfx_gnn_pipelines.run_outcome import CACHED, RunOutcome, StepOutcome

_BASELINES = {
    "majority_baseline": "majority class ({class})",
    "mean_baseline": "mean label",
    "random_baseline": "random order",
}
_ALWAYS_SHOWN = frozenset({ROC_AUC})
_NUM_METRICS = 2


def print_summary(console: Console, outcome: RunOutcome, seconds: float, *, page: str) -> None:
    """Prints all warnings of a run, and then in at most six lines what it reached, where its page is and what is next.

    Args:
        console: where to.
        outcome: what the run found.
        seconds: how long it took.
        page: path of its page; empty if it has none.
    """
    _print_warnings(console, outcome.warnings)
    console.print()
    split = outcome.metrics["split"]
    for name, task in tasks_of(outcome.metrics).items():
        _print_line(console, "result", f"{f'task {name!r}: ' if name else ''}{_result(task)}; split {split}")
    for name, task in tasks_of(outcome.metrics).items():
        trees = task.get("trees_baseline", {})
        words = trees.get("meaning") or (f"not compared: {trees['reason']}" if trees else "")
        if words:
            _print_line(console, "trees", f"task {name!r}: {words}" if name else words)
    _print_pushed(console, outcome, seconds)
    _print_line(console, "page", _page_words(outcome, page))
    verbs = "serve, explain, compare, show" if outcome.is_pushed else "show, explain, compare"
    ask = "; ask it now:" if outcome.is_pushed else ""
    _print_line(console, "next", f"{verbs}: their commands for this run are on its page{ask}")
    if outcome.is_pushed:
        # Without a word before it, so that the last line can be pasted.
        _print_line(console, "", _ask(outcome))


def print_short_summary(
    console: Console, outcome: RunOutcome, seconds: float, *, page: str, doubts: Sequence[str]
) -> None:
    """Prints in at most five lines the warnings, what the run reached, where its page is and what is next.

    Args:
        console: where to.
        outcome: what the run found.
        seconds: how long it took.
        page: path of its page; empty if it has none.
        doubts: what the check before or beside the run warned of.
    """
    if warnings := [*outcome.warnings, *doubts]:
        more = f" ({len(warnings)} in all; see the page)" if len(warnings) > 1 else ""
        _print_line(console, "warning", f"{warnings[0]}{more}", style="bold yellow")
    tasks = tasks_of(outcome.metrics).items()
    results = "; ".join(f"{f'task {name!r}: ' if name else ''}{_result(task)}" for name, task in tasks)
    _print_line(console, "result", f"{results}; split {outcome.metrics['split']}")
    _print_pushed(console, outcome, seconds)
    _print_line(console, "page", _page_words(outcome, page))
    ask = _ask(outcome) if outcome.is_pushed else shlex.join([_program("tfx-gnn"), "show", shorten(outcome.root)])
    _print_line(console, "next", ask)


def _print_pushed(console: Console, outcome: RunOutcome, seconds: float) -> None:
    steps = _steps_words(outcome.steps, seconds)
    if outcome.is_pushed:
        _print_line(console, "pushed", f"{shorten(outcome.pushed_model)}; {steps}")
    else:
        _print_line(console, "not pushed", f"{_why_not_pushed(outcome)}; {steps}", style="bold yellow")


def _page_words(outcome: RunOutcome, page: str) -> str:
    return shorten(page) if page else f"none yet; write it: tfx-gnn show {shorten(outcome.root)}"


def _ask(outcome: RunOutcome) -> str:
    """The command that asks the pushed model."""
    given = ["--model-dir", shorten(outcome.pushed_model), "--examples", shorten(outcome.examples_dir)]
    return shlex.join([_program("tfx-gnn"), "predict", *given, "--limit", "5"])


def summarize(outcome: RunOutcome, seconds: float, *, page: str) -> dict[str, Any]:
    """Summarizes a run for programs.

    Args:
        outcome: what it found.
        seconds: how long it took.
        page: path of its page; empty if it has none.

    Returns:
        Plain values: whether the model was pushed and where to, the evaluation, and by component its state and outputs.
    """
    is_pushed = outcome.is_pushed
    return {
        "pipeline": outcome.pipeline,
        "root": outcome.root,
        "page": page,
        "pushed": is_pushed,
        "pushed_model": outcome.pushed_model if is_pushed else "",
        "seconds": round(seconds, 1),
        "metrics": outcome.metrics,
        "warnings": list(outcome.warnings),
        "components": {step.component: {"state": step.state, "outputs": step.outputs} for step in outcome.steps},
    }


def shorten(path: str) -> str:
    """Returns an absolute path relative to the current folder if it is inside it, otherwise unchanged."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _result(task: Mapping[str, Any]) -> str:
    """The first metrics of the model, of the baseline and of the latest blessed model."""
    (kind,) = [kind for kind in _BASELINES if kind in task]
    baseline = task[kind]
    main = task.get("baseline_comparison", {}).get("metric")
    known = sorted((name for name in task if name in baseline), key=lambda name: name != main)
    names = known[:_NUM_METRICS] + [name for name in known[_NUM_METRICS:] if name in _ALWAYS_SHOWN]
    intervals = task.get("intervals", {}).get("metrics", {})
    parts = [", ".join(f"{shown_metric(name)} {task[name]:.3f}{_interval(intervals.get(name))}" for name in names)]
    others = {_BASELINES[kind].format(**baseline): baseline}
    if "change" in task:
        others["latest blessed model"] = task["change"]["latest_blessed"]
    for words, values in others.items():
        figures = ", ".join(f"{values[name]:.3f}" for name in names if name in values)
        parts.append(f"{words} {figures}")
    return f"{'; '.join(parts)}; {task['num_examples']} examples"


def _interval(ends: Mapping[str, float] | None) -> str:
    return f" [{ends['lower']:.3f}, {ends['upper']:.3f}]" if ends else ""


def _why_not_pushed(outcome: RunOutcome) -> str:
    if outcome.pushed_model:
        # Not pushed again by itself: somebody may have removed a version that should not serve.
        record = next(step.outputs["pushed_model"] for step in outcome.steps if step.component == "GraphPusher")
        return (
            f"an earlier run pushed the model, but {shorten(outcome.pushed_model)} is gone. To push it again, remove "
            f"the record of that push, {shorten(record)}, and run again"
        )
    return "; ".join(outcome.objections)


def _steps_words(steps: Sequence[StepOutcome], seconds: float) -> str:
    cached = sum(step.state == CACHED for step in steps)
    return f"{len(steps)} steps in {seconds:.0f} s, {cached or 'none'} cached"


def _print_warnings(console: Console, warnings: Sequence[str]) -> None:
    if not warnings:
        return
    counted = "1 warning" if len(warnings) == 1 else f"{len(warnings)} warnings, the most severe first"
    # Warnings of artifacts that an earlier version made have no names.
    where = "; docs/warnings.md explains each name in brackets" if any(split_mark(one)[1] for one in warnings) else ""
    console.print(f"\n{counted}{where}:", style="bold yellow", highlight=False, soft_wrap=True)
    for warning in warnings:
        console.print(f"  {escape_controls(warning)}", markup=False, highlight=False, soft_wrap=True)


def _program(name: str) -> str:
    """Path of a program of this environment, as the user can type it in the current folder."""
    path = os.path.join(os.path.dirname(sys.executable), name)
    return shorten(path) if os.path.exists(path) else name


def _print_line(console: Console, name: str, value: str, *, style: str = "dim") -> None:
    console.print(
        Text(f"{name:<10} ", style=style), Text(escape_controls(value)), sep="", soft_wrap=True, highlight=False
    )
