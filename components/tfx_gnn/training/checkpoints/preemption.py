"""Stops a training between two steps on a preemption signal, so that it can resume.

Schedulers of preemptible machines send SIGTERM, and some time later SIGKILL. Users press Ctrl-C, which sends SIGINT.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any

import tensorflow as tf

from tfx_gnn.distribution.cluster import sum_over_replicas
from tfx_gnn.distribution.strategy_predicates import is_multi_worker_strategy
from tfx_gnn.training.loop.training_loop import TrainingPosition


class StopSignal:
    """Asks a training to stop once the process gets a signal; a `StopRequest`, and a context manager.

    Synchronous workers all stop after the same step, whichever of them got the signal: after every step they sum one
    number over the workers. The first signal takes effect once the steps of the current call are done. A second one
    ends the process at once, whatever it is waiting for, unless the process had its own handler for it, which then
    gets it. In an interactive Python session, where a user would lose more than the training, SIGINT raises
    KeyboardInterrupt as usual.

    A signal that the process ignores stays ignored, as in processes that a shell put into the background.

    Python lets only the main thread handle signals. In another thread this does nothing, and a signal ends the process
    as usual.
    """

    def __init__(
        self,
        *,
        strategy: tf.distribute.Strategy,
        signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
        say: Callable[[str], None],
    ) -> None:
        self._signals = tuple(signals)
        self._say = say
        self._received: signal.Signals | None = None
        self._before: dict[int, Any] = {}
        self._watch: _SignalWatch | None = None
        self._num_watched = 0
        self._total: Callable[[float], float] | None = None
        if is_multi_worker_strategy(strategy):
            self._total = sum_over_replicas(strategy)

    def __enter__(self) -> StopSignal:
        """Handles the signals from here on."""
        if threading.current_thread() is threading.main_thread():
            handled = [number for number in self._signals if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._on_signal) for number in handled}
            if not _is_interactive():
                self._watch = _SignalWatch(self._on_watched)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restores the previous signal handlers."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        for number, handler in self._before.items():
            # None: the handler was not installed from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}

    @property
    def is_interrupt(self) -> bool:
        """Whether this process got SIGINT."""
        return self._received is signal.SIGINT

    def is_made(self, position: TrainingPosition) -> bool:
        """Returns whether this process or another worker got a signal; all workers ask at the same positions."""
        is_received = self._received is not None
        return is_received if self._total is None else self._total(float(is_received)) > 0.0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal as soon as Python runs in the main thread."""
        self._received = signal.Signals(number)
        for other, handler in self._before.items():
            signal.signal(other, signal.SIG_DFL if _ends_process(handler) else handler)
        if self._watch is None:
            self._tell(self._received)

    def _on_watched(self, number: int) -> None:
        """Handles a signal at once, in another thread."""
        if number not in self._before:
            return
        self._num_watched += 1
        if self._num_watched == 1:
            self._tell(signal.Signals(number))
        elif _ends_process(self._before[number]):
            # The main thread may be inside TensorFlow, where no handler runs. This is the exit status shells report.
            os._exit(128 + number)

    def _tell(self, received: signal.Signals) -> None:
        self._say(f"{received.name}: training stops after this step and saves. A second signal ends it at once.")


class _SignalWatch:
    """Reports signals while the main thread runs TensorFlow, during which Python calls no handlers."""

    def __init__(self, on_signal: Callable[[int], None]) -> None:
        self._on_signal = on_signal
        read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._before = signal.set_wakeup_fd(self._write)
        self._thread = threading.Thread(target=self._follow, args=(read,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the watch, after all signals were reported."""
        signal.set_wakeup_fd(self._before)
        os.close(self._write)
        self._thread.join()

    def _follow(self, read: int) -> None:
        with open(read, "rb", buffering=0) as numbers:
            while number := numbers.read(1):
                self._on_signal(number[0])


def _ends_process(handler: Any) -> bool:
    # None: a handler that was not installed from Python.
    return handler in (None, signal.SIG_DFL) or (handler is signal.default_int_handler and not _is_interactive())


def _is_interactive() -> bool:
    return hasattr(sys, "ps1")
