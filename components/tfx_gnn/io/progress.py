"""Progress of long stages: a stage counts what it has done, and its caller decides where that is shown.

Without a caller that wants to see it, counting costs next to nothing and shows nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

BYTES = "bytes"
"""Unit that is shown as megabytes."""
_SECONDS_BETWEEN_NOTES = 0.5
_SECONDS_BETWEEN_DRAWINGS = 0.25
_SECONDS_BETWEEN_LINES = 30.0
_RATE_SECONDS = 60.0
_MIN_COUNT_OF_RATE = 10
"""Fewer than this in the last `_RATE_SECONDS` are too few for a rate; it is that of the whole stage then."""
_MAX_BAR_WIDTH = 30
_MIN_BAR_WIDTH = 8


class StageProgress:
    """Counts what a stage has done; any thread may call it.

    Attributes:
        name: what the stage does, such as "sampling".
        total: how much there is to do; None if that is unknown.
        unit: what is counted, in the plural, such as "examples".
        done: how much is done.
        note: further text to show, such as the loss.
    """

    def __init__(self, name: str, *, total: int | None = None, unit: str = "", done: int = 0) -> None:
        self.name = name
        self.total = total
        self.unit = unit
        self.done = done
        self.note = ""
        self._lock = threading.Lock()
        self._noted_at = 0.0
        self._start = (time.monotonic(), done)
        self._counts: deque[tuple[float, int]] = deque([self._start])

    def __call__(self, num: int = 1, *, note: Callable[[], str] | None = None) -> None:
        """Adds `num`; `note` makes the text to show, and is called at most twice a second."""
        with self._lock:
            self.done += num
        if note is not None and (now := time.monotonic()) - self._noted_at >= _SECONDS_BETWEEN_NOTES:
            self._noted_at = now
            self.note = note()

    def measure(self) -> None:
        """Takes note of time and count; the rate is measured between such moments, all in one thread."""
        now = time.monotonic()
        self._counts.append((now, self.done))
        while len(self._counts) > 2 and now - self._counts[1][0] > _RATE_SECONDS:
            self._counts.popleft()

    @property
    def seconds(self) -> float:
        """Seconds from the start to the last measurement."""
        return self._counts[-1][0] - self._start[0]

    @property
    def rate(self) -> float:
        """What is done in a second, at present; 0 if unknown."""
        now, done = self._counts[-1]
        before, done_before = self._counts[0]
        if done - done_before < _MIN_COUNT_OF_RATE:
            before, done_before = self._start
        return (done - done_before) / (now - before) if now > before else 0.0

    @property
    def share(self) -> float | None:
        """Share that is done, in [0, 1]; None if the total is unknown or nothing was counted."""
        return min(self.done / self.total, 1.0) if self.total and self.done else None

    def text(self) -> str:
        """Describes the progress in one line, the most important first.

        Example:
            >>> StageProgress("sampling", total=2000, unit="examples", done=500).text()
            'sampling 25 %, 500/2,000 examples'
        """
        share, rate = self.share, self.rate
        if not self.done:
            # Steps on other machines or in other processes are not counted here.
            parts = [f"{self.name}, {_clock(self.seconds)} so far"]
        elif share is None or self.total is None:
            parts = [f"{self.name} {self._amount(self.done)} {self._unit}".rstrip()]
        else:
            parts = [f"{self.name} {100 * share:.0f} %"]
            if rate:
                parts.append(f"{_clock(max(self.total - self.done, 0) / rate)} left")
            total = self._amount(max(self.total, self.done))
            parts.append(f"{self._amount(self.done)}/{total} {self._unit}".rstrip())
        if rate and self.unit == BYTES:
            parts.append(f"{self._amount(rate)} MB/s")
        elif rate:
            parts.append(f"{rate:,.0f}/s" if rate >= _MIN_COUNT_OF_RATE else f"{rate:.2g}/s")
        return ", ".join(filter(None, [*parts, self.note]))

    @property
    def _unit(self) -> str:
        return "MB" if self.unit == BYTES else self.unit

    def _amount(self, count: float) -> str:
        return f"{count / 1e6:,.1f}" if self.unit == BYTES else f"{count:,.0f}"


class _Silent(StageProgress):
    def __call__(self, num: int = 1, *, note: Callable[[], str] | None = None) -> None:
        """Does nothing."""


_SILENT = _Silent("")


class ProgressDisplay:
    """Shows all stages that are under way: as bars on a terminal, else as a line every half minute.

    One thread draws; stages never wait for it.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.is_live = console.is_interactive and not console.quiet
        self._stages: tuple[StageProgress, ...] = ()
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def stages(self) -> tuple[StageProgress, ...]:
        """Stages that are under way, outer ones first."""
        return self._stages

    def begin(self, stage: StageProgress) -> None:
        """Shows a stage from here on."""
        with self._lock:
            self._stages = (*self._stages, stage)
            if self._thread is None:
                self._end.clear()
                self._thread = threading.Thread(target=self._follow, name="progress", daemon=True)
                self._thread.start()

    def end(self, stage: StageProgress) -> None:
        """Shows a stage no more."""
        with self._lock:
            self._stages = tuple(other for other in self._stages if other is not stage)
            if not self._stages and self._thread is not None:
                self._end.set()
                self._thread.join()
                self._thread = None

    def say(self, line: str) -> None:
        """Prints a line, above the bars."""
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _follow(self) -> None:
        # A closed or full output must not end the stage; what it prints itself reports that.
        with contextlib.suppress(OSError):
            if self.is_live:
                self._draw_bars()
            else:
                self._print_lines()

    def _print_lines(self) -> None:
        while not self._end.wait(_SECONDS_BETWEEN_LINES):
            if stages := self._measured():
                self.say("; ".join(stage.text() for stage in stages))

    def _draw_bars(self) -> None:
        import sys

        from rich.live import Live

        # Output of functions of the user goes above the bars, if it goes to a terminal as well.
        live = Live(
            console=self.console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )
        with live:
            while not self._end.wait(_SECONDS_BETWEEN_DRAWINGS):
                live.update(_bars(self._measured(), self.console.width), refresh=True)

    def _measured(self) -> tuple[StageProgress, ...]:
        stages = self._stages
        for stage in stages:
            stage.measure()
        return stages


_displays: list[ProgressDisplay] = []
"""Displays of the blocks that are under way; the innermost, the last, is used."""


def _display() -> ProgressDisplay | None:
    return _displays[-1] if _displays else None


@contextlib.contextmanager
def show_progress(console: Console) -> Iterator[ProgressDisplay]:
    """Shows on a console the progress of all stages that run during its block, in whatever thread."""
    display = ProgressDisplay(console)
    _displays.append(display)
    try:
        yield display
    finally:
        _displays.remove(display)


@contextlib.contextmanager
def progress(
    name: str, *, total: int | Callable[[], int] | None = None, unit: str = "", done: int = 0
) -> Iterator[StageProgress]:
    """Counts the progress of a stage during its block, and shows it if the caller asked for that.

    Args:
        name: what the stage does, such as "sampling".
        total: how much there is to do, or a function that finds it out; None if that is unknown.
        unit: what is counted, in the plural, such as "examples".
        done: how much of it an earlier run has done.

    Yields:
        A function to call with the number of units done since its last call.

    Example:
        >>> with progress("sampling", total=1000, unit="examples") as advance:
        ...     advance(256)
    """
    display = _display()
    if display is None:
        yield _SILENT
        return
    stage = StageProgress(name, total=total() if callable(total) else total, unit=unit, done=done)
    display.begin(stage)
    try:
        yield stage
    finally:
        display.end(stage)


def count_progress(unit: str, num: int = 1) -> None:
    """Adds to the stages that count this unit in this process: for functions that Beam calls in any process."""
    if (display := _display()) is not None:
        for stage in display.stages:
            if stage.unit == unit:
                stage(num)


def shown_live() -> bool:
    """Returns whether progress is drawn on a terminal, so that lines about it would repeat it."""
    display = _display()
    return display is not None and display.is_live


def say(line: str) -> None:
    """Prints a line where progress is shown, above its bars; else on stderr."""
    from tfx_gnn.io.plain_console import PlainConsole

    display = _display() or ProgressDisplay(PlainConsole(stderr=True))
    display.say(line)


def _bars(stages: tuple[StageProgress, ...], width: int) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    lines = []
    for stage in stages:
        text = Text(stage.text(), no_wrap=True, overflow="ellipsis", end="")
        free = min(width - text.cell_len - 1, _MAX_BAR_WIDTH)
        line = Table.grid(padding=(0, 1, 0, 0))
        if stage.share is None or free < _MIN_BAR_WIDTH:
            line.add_row(text)
        else:
            line.add_row(ProgressBar(total=1.0, completed=stage.share, width=free), text)
        lines.append(line)
    return Group(*lines)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
