"""Settings of the benchmarks, and the table at their end."""

from __future__ import annotations

import io
import os
from typing import Any

# Before anything imports TensorFlow: tensorflow-gnn needs Keras 2 under the name tf.keras.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest
from comparison import Report, Row
from rich.console import Console
from rich.table import Table

#: Wide enough for the table, whatever reads the output.
_WIDTH = 170
_ROWS = pytest.StashKey[list[Row]]()


def pytest_configure(config: pytest.Config) -> None:
    """Makes room for the results."""
    config.stash[_ROWS] = []


@pytest.fixture
def report(benchmark: Any, pytestconfig: pytest.Config) -> Report:
    """Where a benchmark puts what it measured."""
    return Report(benchmark, pytestconfig.stash[_ROWS])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A missed bound is a failure."""
    if session.exitstatus == pytest.ExitCode.OK and any(row.is_missed for row in session.config.stash[_ROWS]):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Prints one table of all results."""
    rows = config.stash[_ROWS]
    if not rows:
        return
    table = Table(title=f"Ratios are their time over ours, medians of rounds; {os.cpu_count()} CPUs")
    for name, justify in (
        ("measured", "left"),
        ("tfx_gnn", "right"),
        ("against", "left"),
        ("theirs", "right"),
        ("figure", "right"),
        ("in CPU time", "right"),
        ("bound", "right"),
        ("verdict", "left"),
    ):
        table.add_column(name, justify=justify)
    for row in rows:
        figure = "" if row.figure is None else f"{row.figure:.3g} {row.unit}"
        cpu = "" if row.cpu is None else f"{row.cpu:.3g} {row.unit}"
        style = "bold red" if row.is_missed else None
        table.add_row(
            row.what, row.ours, row.peer, row.theirs, figure, cpu, str(row.bound or ""), row.verdict, style=style
        )
    text = io.StringIO()
    console = Console(file=text, width=_WIDTH, force_terminal=terminalreporter.hasmarkup)
    console.print(table)
    terminalreporter.write(f"\n{text.getvalue()}")
