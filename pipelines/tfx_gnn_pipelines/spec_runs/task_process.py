"""Starts the command of a task on this machine, in a folder that stands for its container."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tfx_gnn_pipelines.container import LAUNCHER_ROOT_VARIABLE

TaskCommand = Callable[[Sequence[str], Mapping[str, str], Path, Path], int]
"""Runs a command with additional environment variables, in a folder that stands for the root of its container; appends
what it writes to a log file, and returns its exit code."""

_SECONDS_TO_STOP = 10
_PR_SET_PDEATHSIG = 1


def run_in_process(command: Sequence[str], variables: Mapping[str, str], folder: Path, log: Path) -> int:
    """Runs a task's command as a process of its own in the current folder, with this environment as its image.

    The process ends with this one, however this one ends, and what it started ends with it, as in a container.
    """
    environment = {
        **os.environ,
        **variables,
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]),
        LAUNCHER_ROOT_VARIABLE: str(folder),
    }
    with log.open("ab") as file:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            # A group of its own, so that all of it can be ended.
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - a command line has one thread here
        )
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS_TO_STOP)
            raise
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
