"""Custom jobs on this machine: the part of Vertex AI's API that a coordinator uses; each replica is a process.

As on Vertex AI, a replica finds its place in TF_CONFIG; the first pool is the chief, and the second one the workers. A
job has succeeded when its chief has, and has failed when a replica has. Machines, images, spot machines, time limits
and restarts are not imitated.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import http.server
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tfx_gnn_pipelines.emulator.launcher import SECONDS_TO_STOP, TaskContainer, end_process, start_process

_PATH = re.compile(r"/v1/(projects/[^/]+/locations/[^/]+/customJobs)(?:/(\d+))?(?::(cancel))?")
_FILTER = re.compile(r"labels\.(\w+)=(\w+)")
_ROLES = ("chief", "worker")
_POLL_SECONDS = 0.05


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keeps quiet about a coordinator that was ended while it waited for an answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class LocalCustomJobs:
    """A server for custom jobs, started when it is first needed; at its end, no replica is left."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._folders: _Folders | None = None

    def __enter__(self) -> LocalCustomJobs:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the server and its jobs."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        for job in self._jobs.values():
            job.cancel()
        for job in self._jobs.values():
            job.thread.join()

    def start(self, *, logs: Path, folder: Path) -> str:
        """Starts the server, unless it runs; returns its address.

        Args:
            logs: folder of the logs of replicas.
            folder: folder of the folders that stand for the roots of their containers.
        """
        self._folders = _Folders(logs=logs, roots=folder)
        if self._server is None:
            jobs = self

            class Handler(http.server.BaseHTTPRequestHandler):
                def _handle(self) -> None:
                    body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                    status, answer = jobs.answer(self.command, self.path, json.loads(body or b"{}"))
                    data = json.dumps(answer).encode()
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

                do_GET = do_POST = _handle  # noqa: N815 - the server calls them so.

                def log_message(self, *_: Any, **__: Any) -> None:
                    """Keeps quiet."""

            self._server = _Server(("127.0.0.1", 0), Handler)
            threading.Thread(
                target=self._server.serve_forever, kwargs={"poll_interval": _POLL_SECONDS}, daemon=True
            ).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, method: str, path: str, body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        """Answers a request with a status and a message."""
        split = urllib.parse.urlsplit(path)
        found = _PATH.fullmatch(urllib.parse.unquote(split.path))
        if found is None:
            return _refusal(404, f"{split.path} is not imitated here")
        parent, number, action = found.groups()
        with self._lock:
            if number is None and method == "POST":
                return self._create(parent, body)
            if number is None:
                wanted = _FILTER.fullmatch(dict(urllib.parse.parse_qsl(split.query)).get("filter", ""))
                jobs = [job.message() for job in self._jobs.values()]
                if wanted is not None:
                    jobs = [job for job in jobs if job["labels"].get(wanted[1]) == wanted[2]]
                return 200, {"customJobs": jobs}
            job = self._jobs.get(number)
            if job is None:
                return _refusal(404, f"there is no custom job {number}")
            if action:
                job.cancel()
                return 200, {}
            return 200, job.message()

    def _create(self, parent: str, body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        pools = body.get("jobSpec", {}).get("workerPoolSpecs", [])
        if not 1 <= len(pools) <= len(_ROLES) or int(pools[0].get("replicaCount", 0)) != 1 or self._folders is None:
            return _refusal(400, "a job must have a pool of one replica, and perhaps another one of workers")
        number = str(1 + len(self._jobs))
        job = self._jobs[number] = _Job(f"{parent}/{number}", body, self._folders)
        job.thread.start()
        return 200, job.message()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Folders:
    """Folder of the logs of replicas, and folder of the folders that stand for the roots of their containers."""

    logs: Path
    roots: Path


class _Job:
    """A custom job. Its thread starts the processes, because they end with the thread that started them."""

    def __init__(self, name: str, body: Mapping[str, Any], folders: _Folders) -> None:
        self._body = body
        self._folders = folders
        self._is_cancelled = threading.Event()
        self._state: dict[str, Any] = {"state": "JOB_STATE_PENDING"}
        self._fixed = {"name": name, "createTime": dt.datetime.now(dt.timezone.utc).isoformat().replace("+00:00", "Z")}
        self.thread = threading.Thread(target=self._run, daemon=True)

    def message(self) -> dict[str, Any]:
        """Returns the job as the API does."""
        return {"labels": {}, **self._body, **self._fixed, **self._state}

    def cancel(self) -> None:
        """Asks the job to end."""
        if self._state["state"] in ("JOB_STATE_PENDING", "JOB_STATE_RUNNING"):
            self._state = {"state": "JOB_STATE_CANCELLING"}
        self._is_cancelled.set()

    def _run(self) -> None:
        processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            for container in self._replicas():
                processes[container.name] = start_process(container)
            if not self._is_cancelled.is_set():
                self._state = {"state": "JOB_STATE_RUNNING"}
            self._state = self._wait(processes)
        except OSError as error:
            self._state = _failure(f"The replicas could not be started: {error}")
        finally:
            for process in processes.values():
                end_process(process)

    def _wait(self, processes: Mapping[str, subprocess.Popen[bytes]]) -> dict[str, Any]:
        """Waits for the end of the job; returns its state and error."""
        chief = next(iter(processes))
        while not self._is_cancelled.is_set():
            for name, process in processes.items():
                code = process.poll()
                if code:
                    return _failure(
                        f"The replica {name} exited with a non-zero status of {128 - code if code < 0 else code}. To "
                        f"find out more about why your job exited please check the logs: {self._log(name)}"
                    )
            if processes[chief].poll() == 0:
                self._stop(processes)
                return {"state": "JOB_STATE_SUCCEEDED"}
            time.sleep(_POLL_SECONDS)
        for process in processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        self._stop(processes)
        return {"state": "JOB_STATE_CANCELLED"}

    def _stop(self, processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
        """Gives processes some time to end by themselves."""
        until = time.monotonic() + SECONDS_TO_STOP
        for process in processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))

    def _log(self, replica: str) -> Path:
        number = self._fixed["name"].rpartition("/")[2]
        return self._folders.logs / f"custom_job_{number}_{replica}.log"

    def _replicas(self) -> list[TaskContainer]:
        pools = self._body["jobSpec"]["workerPoolSpecs"]
        counts = [int(pool["replicaCount"]) for pool in pools]
        ports = iter(_free_ports(sum(counts)))
        cluster = {
            role: [f"localhost:{next(ports)}" for _ in range(count)]
            for role, count in zip(_ROLES, counts, strict=False)
        }
        number = self._fixed["name"].rpartition("/")[2]
        replicas = []
        for position, (pool, count, role) in enumerate(zip(pools, counts, cluster, strict=True)):
            spec = pool["containerSpec"]
            for index in range(count):
                name = f"workerpool{position}-{index}"
                root = self._folders.roots / f"custom_job_{number}_{name}"
                root.mkdir(parents=True, exist_ok=True)
                config = {"cluster": cluster, "task": {"type": role, "index": index}, "environment": "cloud"}
                variables = {variable["name"]: variable["value"] for variable in spec.get("env", ())}
                container = TaskContainer(
                    name=name,
                    image=spec.get("imageUri", ""),
                    command=[*spec.get("command", ()), *spec.get("args", ())],
                    environment={**variables, "TF_CONFIG": json.dumps(config)},
                    folder=root,
                    log=self._log(name),
                )
                replicas.append(container)
        return replicas


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(number)]
        for listener in listeners:
            listener.bind(("localhost", 0))
        return [listener.getsockname()[1] for listener in listeners]


def _failure(message: str) -> dict[str, Any]:
    return {"state": "JOB_STATE_FAILED", "error": {"code": 3, "message": message}}


def _refusal(status: int, message: str) -> tuple[int, Mapping[str, Any]]:
    return status, {"error": {"code": status, "message": message}}
