"""Machines that are taken away: a signal ends a training between two steps, and it can go on later.

Schedulers of preemptible machines send SIGTERM, and SIGKILL some time afterwards.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any

import tensorflow as tf

from tfx_gnn.stages.training.agreement import sum_over_replicas
from tfx_gnn.stages.training.training_loop import TrainingPosition


class StopSignal:
    """Asks a training to stop once the process gets a signal; a `StopRequest`, and a context manager.

    Workers that train in step stop after the same step, whichever of them got the signal: each tells the others
    after every step, which costs one sum of one number. The first signal is noticed when the steps that run at
    a time are done. A second one does what it did before this context, which for SIGTERM is to end the process
    at once.

    Python lets only the main thread of a process handle signals. In another thread nothing is done on a signal,
    and the process ends as if this were not there.

    Args:
        strategy: what the training runs under.
        signals: which signals ask for a stop.
        say: gets a line when the first signal comes.
    """

    def __init__(
        self,
        *,
        strategy: tf.distribute.Strategy,
        signals: Sequence[signal.Signals] = (signal.SIGTERM,),
        say: Callable[[str], None],
    ) -> None:
        self._signals = tuple(signals)
        self._say = say
        self._received = False
        self._before: dict[signal.Signals, Any] = {}
        self._total: Callable[[float], float] | None = None
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            self._total = sum_over_replicas(strategy)

    def __enter__(self) -> StopSignal:
        """Handles the signals from here on."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._on_signal) for number in self._signals}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves the signals to whom they belonged."""
        self._give_back()

    def is_made(self, position: TrainingPosition) -> bool:
        """Tells whether a signal came, to this process or to another worker.

        Args:
            position: where training goes on; all workers ask at the same positions.

        Returns:
            True to end training here.
        """
        return self._received if self._total is None else self._total(float(self._received)) > 0.0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._received = True
        self._give_back()
        self._say(f"{signal.Signals(number).name}: training stops after this step. Once more ends it at once.")

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            # None: the handler was not installed from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}
