"""Prints one line per component while a pipeline runs, from the launcher's own log records."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence

from absl import logging as absl_logging  # type: ignore[import-untyped]
from rich.console import Console

from tfx_gnn.io.progress import progress, show_progress, shown_live

_STARTED = re.compile(r"(?:Component|node) %s is running\.")
_FINISHED = re.compile(r"(?:Component|node) %s is finished\.")
_CACHED = re.compile(r"A cached execution %d is used\.")
_EXECUTING = re.compile(r"Going to run a new execution %d")


class ComponentProgress(logging.Handler):
    """Prints which component is running, cached or done; on a terminal, the running one is a row of the display.

    TFX's local runners log these events at level INFO, with the same message templates. Their thousands of other
    records are dropped without being formatted. With `show_warnings`, warnings and errors go to stderr; errors that
    matter are raised as well.

    Attributes:
        current: id of the component that is running; "" between components.
    """

    def __init__(
        self,
        components: Sequence[str],
        console: Console,
        *,
        show_warnings: bool = False,
        tell: Callable[[str, str], None] | None = None,
        before: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(level=logging.INFO)
        self._warnings = logging.StreamHandler() if show_warnings else logging.NullHandler()
        self.current = ""
        self._components = list(components)
        self._console = console
        self._started_at = 0.0
        self._is_cached = False
        self._tell = tell or (lambda _component, _state: None)
        self._before = before or (lambda _component: None)
        self._running = contextlib.ExitStack()

    def emit(self, record: logging.LogRecord) -> None:
        """Handles one log record."""
        template = str(record.msg)
        if _STARTED.fullmatch(template):
            self._before(_argument(record))
            self.current, self._started_at, self._is_cached = _argument(record), time.monotonic(), False
        elif _CACHED.fullmatch(template):
            self._is_cached = True
        elif _EXECUTING.fullmatch(template):
            if not shown_live():
                self._print(" ", "running ...", "dim")
            self._running.enter_context(progress(self._place))
            self._tell(self.current, "running")
        elif _FINISHED.fullmatch(template):
            self._running.close()
            if self._is_cached:
                self._print("=", "cached", "cyan")
            else:
                self._print("+", f"done in {self._elapsed:.1f} s", "green")
            self._tell(self.current, "cached" if self._is_cached else "complete")
            self.current = ""
        elif record.levelno >= logging.WARNING:
            self._warnings.handle(record)

    def fail(self, *, is_stopped: bool = False) -> None:
        """Prints that the current component failed, or was stopped from outside, if one is running."""
        self._running.close()
        if self.current:
            self._print("x", f"{'stopped' if is_stopped else 'failed'} after {self._elapsed:.1f} s", "bold red")

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._started_at

    def _print(self, mark: str, what: str, style: str) -> None:
        width = max(len(component) for component in self._components)
        padding = " " * (width - len(self.current))
        self._console.print(f"{mark} {self._place}{padding}  {what}", style=style, highlight=False, markup=False)

    @property
    def _place(self) -> str:
        total = str(len(self._components))
        return f"{self._components.index(self.current) + 1:>{len(total)}}/{total} {self.current}"


@contextlib.contextmanager
def component_progress(
    components: Sequence[str],
    console: Console,
    *,
    show_warnings: bool = False,
    tell: Callable[[str, str], None] | None = None,
    before: Callable[[str], None] | None = None,
) -> Iterator[ComponentProgress]:
    """Shows the progress of components and of their stages; other absl log records are hidden unless `show_warnings`.

    `before` is called with a component before anything of it is shown; `tell` with it and "running" when it starts, and
    "cached" or "complete" when it ends.
    Call `fail()` on the handler when the block catches an error.
    """
    logger = absl_logging.get_absl_logger()
    handler = ComponentProgress(components, console, show_warnings=show_warnings, tell=tell, before=before)
    previous = absl_logging.get_verbosity(), logger.handlers[:], logger.propagate
    # Use absl's own function: TensorFlow reads this level, raises it temporarily, and restores it.
    absl_logging.set_verbosity(absl_logging.INFO)
    logger.handlers[:] = [handler]
    logger.propagate = False
    try:
        with show_progress(console):
            yield handler
    finally:
        absl_logging.set_verbosity(previous[0])
        logger.handlers[:] = previous[1]
        logger.propagate = previous[2]


def _argument(record: logging.LogRecord) -> str:
    # logging unpacks a one-element tuple that holds a mapping; other arguments stay a tuple.
    return str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
