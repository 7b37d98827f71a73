"""Clusters of real processes on this machine, for tests of what happens between machines.

Every process runs the same program and finds its task in TF_CONFIG. What it prints on its last line may
be JSON, which `Output.result` reads. No process outlives the `with` block of its cluster.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_POLL_SECONDS = 0.1


@dataclasses.dataclass(frozen=True)
class Output:
    """What a process left: its exit status (negative: the signal that ended it), and what it printed."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def result(self) -> Any:
        """The JSON of the last line."""
        return json.loads(self.stdout.splitlines()[-1])


class Cluster:
    """Processes of one program, named "worker0", "ps0", ...; without roles a single one, "alone"."""

    def __init__(self, program: Sequence[str], roles: Mapping[str, int], env: Mapping[str, str] | None = None) -> None:
        """Chooses addresses; `start` starts.

        Args:
            program: arguments of Python: a script, or "-m" and a module, and its own arguments.
            roles: task types to numbers of tasks; empty for a process without TF_CONFIG.
            env: further environment variables.
        """
        self._program = list(program)
        self._env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **(env or {})}
        self._env.pop("TF_CONFIG", None)
        self._folder = tempfile.TemporaryDirectory()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._failed: list[str] = []
        self._tasks = {f"{role}{index}": (role, index) for role, number in roles.items() for index in range(number)}
        self.cluster = dict.fromkeys(roles, ())
        ports = iter(_free_ports(len(self._tasks)))
        for role, number in roles.items():
            self.cluster[role] = tuple(f"localhost:{next(ports)}" for _ in range(number))

    @property
    def names(self) -> list[str]:
        """Names of all processes."""
        return list(self._tasks) or ["alone"]

    def start(self, name: str) -> None:
        """Starts one process, or starts it again after it ended; it keeps its address and its output."""
        env = dict(self._env)
        if self._tasks:
            role, index = self._tasks[name]
            env["TF_CONFIG"] = json.dumps({"cluster": self.cluster, "task": {"type": role, "index": index}})
        with self._file(name, "out").open("ab") as out, self._file(name, "err").open("ab") as err:
            command = [sys.executable, "-W", "ignore", *self._program]
            self._processes[name] = subprocess.Popen(command, env=env, stdout=out, stderr=err)

    def is_running(self, name: str) -> bool:
        """Whether the process has been started and not ended."""
        return name in self._processes and self._processes[name].poll() is None

    def kill(self, name: str, signal_number: int = signal.SIGKILL) -> None:
        """Sends a signal; after SIGKILL the process is gone when this returns."""
        self._processes[name].send_signal(signal_number)
        if signal_number == signal.SIGKILL:
            self._processes[name].wait()

    def wait(self, names: Sequence[str], timeout: float) -> None:
        """Waits until these processes have ended, or one of them has failed: others may then wait for it forever."""
        deadline = time.monotonic() + timeout
        while any(self.is_running(name) for name in names):
            failed = [name for name in names if self._processes[name].poll() not in (None, 0)]
            if failed:
                self._failed = self._failed or failed
                return
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(f"{name}: {self.output(name).stderr[-2000:]}" for name in names))
            time.sleep(_POLL_SECONDS)

    def wait_for_line(self, name: str, text: str, timeout: float) -> None:
        """Waits until a process has printed a text."""
        deadline = time.monotonic() + timeout
        while text not in self._file(name, "out").read_text():
            if not self.is_running(name) or time.monotonic() > deadline:
                raise TimeoutError(f"{name} did not print {text!r}: {self.output(name)}")
            time.sleep(_POLL_SECONDS)

    def output(self, name: str) -> Output:
        """What a process printed so far."""
        returncode = self._processes[name].poll()
        out, err = (self._file(name, kind).read_text(errors="replace") for kind in ("out", "err"))
        if returncode is None and self._failed:
            # It waits for another process in vain: that one's messages say why.
            culprit = self._failed[0]
            err += f"\n{name} was waiting when {culprit} ended with {self._processes[culprit].poll()}:\n"
            err += self._file(culprit, "err").read_text(errors="replace")
        return Output(-signal.SIGCONT if returncode is None else returncode, out, err)

    def close(self) -> None:
        """Kills all processes that are left."""
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for process in self._processes.values():
            process.wait()
        self._folder.cleanup()

    def _file(self, name: str, kind: str) -> Path:
        return Path(self._folder.name) / f"{name}.{kind}"


@contextlib.contextmanager
def cluster_of(
    program: Sequence[str], roles: Mapping[str, int], env: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """Starts a process for each task, and kills at the end what is left of them."""
    cluster = Cluster(program, roles, env)
    try:
        for name in cluster.names:
            cluster.start(name)
        yield cluster
    finally:
        cluster.close()


def run_cluster(
    program: Sequence[str],
    roles: Mapping[str, int],
    env: Mapping[str, str] | None = None,
    timeout: float = 600.0,
) -> dict[str, Output]:
    """Runs a program as a cluster, until those end that do not serve others.

    Args:
        program: as for `Cluster`.
        roles: as for `Cluster`. Where there are parameter servers, only the chief is waited for.
        env: further environment variables.
        timeout: seconds after which it is given up.

    Returns:
        Names of processes to what they left. A process that was killed at the end has a negative
        `returncode`.

    Raises:
        TimeoutError: if the processes do not end.
    """
    with cluster_of(program, roles, env) as cluster:
        cluster.wait(["chief0"] if roles.get("ps") else cluster.names, timeout)
        for name in cluster.names:
            if roles.get("ps") and cluster.is_running(name):
                cluster.kill(name)
        return {name: cluster.output(name) for name in cluster.names}


def run_forked_cluster(
    script: Path, arguments: Sequence[str], roles: Mapping[str, int], timeout: float = 600.0
) -> dict[str, Output]:
    """Runs a script as `run_cluster` does, in less time: its processes import once together what it imports.

    Args:
        script: file that does its work where its `__name__` is "__main__", and runs no operation on import.
        arguments: of the script.
        roles: as for `run_cluster`.
        timeout: seconds after which it is given up.

    Returns:
        Names of processes to what they left. A process that was killed at the end has a negative `returncode`.

    Raises:
        TimeoutExpired: if the processes do not end.
        RuntimeError: if they could not be started.
    """
    cluster = Cluster([], roles)
    cluster.close()
    tasks = {
        name: (role, index) for role, number in roles.items() for index in range(number) for name in [f"{role}{index}"]
    }
    with tempfile.TemporaryDirectory() as folder:
        task = {
            "script": str(script),
            "arguments": list(arguments),
            "environments": {
                name: {"TF_CONFIG": json.dumps({"cluster": cluster.cluster, "task": {"type": role, "index": index}})}
                for name, (role, index) in tasks.items()
            },
            "waited_for": ["chief0"] if roles.get("ps") else list(tasks),
            "folder": folder,
        }
        command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("forked_tasks.py")), json.dumps(task)]
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        env.pop("TF_CONFIG", None)
        process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            shown, errors = process.communicate(timeout=timeout)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode:
            raise RuntimeError(errors[-4000:])
        codes = json.loads(shown.splitlines()[-1])
        texts = {
            (name, kind): Path(folder, f"{name}.{kind}").read_text(errors="replace")
            for name in tasks for kind in ("out", "err") if Path(folder, f"{name}.{kind}").exists()
        }  # fmt: skip
    return {
        name: Output(
            -signal.SIGKILL if codes[name] is None else codes[name],
            texts.get((name, "out"), ""),
            texts.get((name, "err"), ""),
        )
        for name in tasks
    }


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(number)]
        for listener in listeners:
            listener.bind(("localhost", 0))
        return [listener.getsockname()[1] for listener in listeners]
