"""Processes that are killed and started again, without importing TensorFlow anew each time.

They are forked from a process that has imported everything and run nothing: forking after TensorFlow has started
its threads is not safe.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import tensorflow as tf

#: What a process ends with whose function raised an exception.
FAILED = 1


class ForkedProcess:
    """Runs a function in a process of its own.

    Args:
        name: for the file of its output.
        function: what it does; it ends with 0 when this returns.
        env: environment variables that it gets in addition.
        log: file that gets all output, after what is there.
    """

    def __init__(self, name: str, function: Callable[[], None], env: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.num_starts = 0
        self.exit_code: int | None = None
        self._function, self._env, self._log = function, dict(env), log
        self._pid = 0

    def start(self) -> None:
        """Starts it, for the first time or once more."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.num_starts += 1
        self.exit_code = None
        self._pid = os.fork()
        if self._pid == 0:
            self._be_child()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet; afterwards `exit_code` is known, negative for a signal."""
        if self._pid and self.exit_code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self.exit_code = os.waitstatus_to_exitcode(status)
        return bool(self._pid) and self.exit_code is None

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, if it is still running."""
        if self.is_running:
            os.kill(self._pid, number)

    def wait(self) -> None:
        """Waits until it has ended."""
        if self.is_running:
            _, status = os.waitpid(self._pid, 0)
            self.exit_code = os.waitstatus_to_exitcode(status)

    def end(self) -> None:
        """Kills it, and waits until it is gone."""
        self.send(signal.SIGKILL)
        self.wait()

    def _be_child(self) -> None:
        """Never returns: nothing of the parent may run in the child."""
        code = FAILED
        try:
            with self._log.open("ab", buffering=0) as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            os.environ.update(self._env)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            _draw_other_random_numbers()
            self._function()
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else FAILED
        except BaseException:  # noqa: BLE001
            # Whatever it is, this process must not go on where its parent is.
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _draw_other_random_numbers() -> None:
    """Goes on in the sequence of TensorFlow's own random numbers, by another length in each process.

    A forked process draws the same ones as its parent and each of its siblings. Processes tell by them that another one
    was started anew: with equal ones they wait for what the old one owes them, for ever.
    """
    library = ctypes.CDLL(str(Path(tf.sysconfig.get_lib()) / "libtensorflow_framework.so.2"))
    draw = library._ZN3tsl6random5New64Ev  # noqa: SLF001 - tsl::random::New64, for which there is no other name.
    for _ in range(int.from_bytes(os.urandom(2), "little")):
        draw()


def run_forked(function: Callable[[], None], log: Path) -> None:
    """Runs a function in a process of its own, to its end.

    Args:
        function: what it does.
        log: file for its output.

    Raises:
        RuntimeError: if it did not end well; the output is in the message.
    """
    process = ForkedProcess("once", function, {}, log)
    process.start()
    try:
        process.wait()
    finally:
        process.end()
    if process.exit_code:
        raise RuntimeError(log.read_text(errors="replace")[-4000:])
