"""Runs rivals side by side, and holds what was measured against a bound.

A round runs every rival once, each round in another order, so that noise of the machine hits all
alike. Ratios are taken within a round, and the median over the rounds is reported.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: The name of this library in results.
OURS = "tfx_gnn"

#: How to install what `make benchmarks` does not bring.
_INSTALLATION = {
    "tensorflow_gnn": "pip install tensorflow-gnn==1.0.3, with Python 3.10",
    "torch": "uv sync --group peers",
    "torch_geometric": "uv sync --group peers",
    "pykeen": "uv sync --group peers",
    "rdkit": "uv sync",
    "sklearn": "uv sync",
}


@dataclasses.dataclass(frozen=True)
class Absent:
    """A peer that is not installed.

    Attributes:
        reason: how to get it.
    """

    reason: str


def find_peer(module: str) -> types.ModuleType | Absent:
    """Imports a library to compare with, or says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        return Absent(f"{error}; {_INSTALLATION[module.partition('.')[0]]}")


def run_process(script: str, *settings: object, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Runs a script of this folder in a process of its own.

    Args:
        script: its file.
        settings: its arguments.
        environment: variables to add to those of this process.

    Returns:
        What it printed as JSON, in the last line.

    Raises:
        RuntimeError: if it fails.
    """
    path = pathlib.Path(__file__).parent / script
    command = [sys.executable, "-W", "ignore", str(path), *map(str, settings)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
    )
    if done.returncode:
        raise RuntimeError(f"a process that is measured must succeed; got {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bound:
    """What a figure must reach, or must not exceed.

    Attributes:
        at_least: smallest figure that is good enough.
        at_most: largest one.
    """

    at_least: float | None = None
    at_most: float | None = None

    def holds(self, figure: float) -> bool:
        """Tells whether a figure is good enough."""
        return (self.at_least is None or figure >= self.at_least) and (self.at_most is None or figure <= self.at_most)

    def __str__(self) -> str:
        parts = [f">= {self.at_least:g}"] if self.at_least is not None else []
        return " and ".join(parts + ([f"<= {self.at_most:g}"] if self.at_most is not None else []))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the report.

    Attributes:
        what: what was measured.
        ours: this library's figure, with its unit.
        peer: whom it is compared with; "" if nobody.
        theirs: the peer's figure, with its unit.
        figure: what the bound is about; None if there is none, as the peer is absent.
        unit: its unit, such as "x".
        cpu: the same as `figure` in CPU time, where that is measured.
        bound: the bound, if one is set.
        note: why there is no figure.
    """

    what: str
    ours: str
    peer: str = ""
    theirs: str = ""
    figure: float | None = None
    unit: str = "x"
    cpu: float | None = None
    bound: Bound | None = None
    note: str = ""

    @property
    def is_missed(self) -> bool:
        """Whether there is a figure, and it is not good enough."""
        return self.figure is not None and self.bound is not None and not self.bound.holds(self.figure)

    @property
    def verdict(self) -> str:
        """One word on the bound, or why there is none."""
        if self.figure is None:
            return f"absent ({self.note})"
        if self.bound is None:
            return ""
        return "MISSED" if self.is_missed else "met"


class Report:
    """Collects the rows of one run; `conftest.py` prints them."""

    def __init__(self, benchmark: Any, rows: list[Row]) -> None:
        """Prepares a report.

        Args:
            benchmark: the fixture of pytest-benchmark.
            rows: list that rows are added to.
        """
        self._benchmark = benchmark
        self._rows = rows

    def add(self, row: Row) -> None:
        """Adds a row that was measured by other means than `compare`."""
        self._rows.append(row)
        self._benchmark.extra_info.setdefault("rows", []).append(dataclasses.asdict(row) | {"verdict": row.verdict})

    def repeat(self, function: Callable[[], Any], *, rounds: int, warmup_rounds: int = 0) -> None:
        """Calls a function that measures something itself, once a round."""
        self._benchmark.pedantic(function, rounds=rounds, iterations=1, warmup_rounds=warmup_rounds)

    def compare(
        self,
        what: str,
        runs: Mapping[str, Callable[[], Any] | Absent],
        bounds: Mapping[str, Bound],
        *,
        items: int,
        unit: str,
        rounds: int = 9,
        ours: str = OURS,
    ) -> dict[str, float]:
        """Times rivals side by side; the figures are their times over that of one of them.

        Args:
            what: what they all do.
            runs: name of each rival to a function that does it once, or `Absent`.
            bounds: bound of the ratio, by name of a rival, for those that have one.
            items: how many things one call handles.
            unit: what the things are called.
            rounds: how often each rival runs, beside a first time that is not counted.
            ours: the rival that is held against all others.

        Returns:
            Items a second, by name of those present.
        """
        present = {name: run for name, run in runs.items() if not isinstance(run, Absent)}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in present}
        order = list(present)

        def one_round() -> None:
            order.append(order.pop(0))
            for name in order:
                times[name].append(_time(present[name]))

        self.repeat(one_round, rounds=rounds, warmup_rounds=1)
        counted = {name: pairs[-rounds:] for name, pairs in times.items()}
        speeds = {name: items / statistics.median(wall for wall, _ in pairs) for name, pairs in counted.items()}
        for name, run in runs.items():
            if isinstance(run, Absent):
                row = Row(what=what, ours=_rate(speeds[ours], unit), peer=name, bound=bounds.get(name), note=run.reason)
            elif name != ours:
                row = Row(
                    what=what,
                    ours=_rate(speeds[ours], unit),
                    peer=name,
                    theirs=_rate(speeds[name], unit),
                    figure=_median_ratio([wall for wall, _ in counted[name]], [wall for wall, _ in counted[ours]]),
                    cpu=_median_ratio([cpu for _, cpu in counted[name]], [cpu for _, cpu in counted[ours]]),
                    bound=bounds.get(name),
                )
            else:
                continue
            self.add(row)
        return speeds


def _time(run: Callable[[], Any]) -> tuple[float, float]:
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - cpu


def _median_ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    return statistics.median(their / our for their, our in zip(theirs, ours, strict=True))


def _rate(speed: float, unit: str) -> str:
    return f"{speed:,.0f} {unit}/s" if speed >= 10 else f"{speed:.2g} {unit}/s"
