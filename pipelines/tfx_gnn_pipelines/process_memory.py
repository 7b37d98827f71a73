"""Measures the resident memory of this process, and its peak over any time in which it was watched."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
import sys
import threading
import time
from types import TracebackType

_STATUS, _CLEAR = "/proc/self/status", "/proc/self/clear_refs"
_FORGET_PEAK = "5"
_SECONDS_BETWEEN = 0.2
_SAME = 2**20


def resident_bytes() -> int:
    """Returns the resident memory now, in bytes; on systems other than Linux, the largest so far."""
    return _read("VmRSS")


def peak_bytes() -> int:
    """Returns the largest resident memory since `forget_peak`, in bytes."""
    return _read("VmHWM")


def forget_peak() -> None:
    """Lets the peak begin at the memory of now; systems other than Linux keep the largest so far."""
    with contextlib.suppress(OSError), open(_CLEAR, "w", encoding="ascii") as file:
        file.write(_FORGET_PEAK)


def _read(field: str) -> int:
    try:
        with open(_STATUS, encoding="ascii", errors="replace") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
        return int(lines[field].split()[0]) * 1024
    except (OSError, KeyError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@dataclasses.dataclass(frozen=True)
class _Interval:
    start: float
    end: float
    peak: int


class MemoryWatch:
    """Watches the memory of this process in a thread, as a context manager.

    Each peak is that of an interval of a fifth of a second, so none is missed between two looks.
    """

    def __init__(self) -> None:
        self._intervals: list[_Interval] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory watch", daemon=True)
        self._last = 0.0

    def __enter__(self) -> MemoryWatch:
        forget_peak()
        self._last = time.time()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def peak_between(self, start: float, end: float) -> int:
        """Returns the largest resident memory in bytes in the intervals that touch a span of time.

        Args:
            start: seconds since 1970.
            end: seconds since 1970.

        Returns:
            The peak; 0 if the process was not watched then.
        """
        found = [one.peak for one in tuple(self._intervals) if one.end >= start and one.start <= end]
        return max(found, default=0)

    def _watch(self) -> None:
        while not self._ended.wait(_SECONDS_BETWEEN):
            self._look()
        self._look()

    def _look(self) -> None:
        peak, now = peak_bytes(), time.time()
        forget_peak()
        last = self._intervals[-1] if self._intervals else None
        # Days of training are few intervals.
        if last is not None and abs(peak - last.peak) < _SAME:
            self._intervals[-1] = _Interval(last.start, now, max(peak, last.peak))
        else:
            self._intervals.append(_Interval(self._last, now, peak))
        self._last = now
