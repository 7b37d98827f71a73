"""Servers that answer as the APIs of Kubeflow Pipelines and Vertex AI do, and fail when a test says so."""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import io
import json
import re
import socket
import sys
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from tfx_gnn.cli.app import app


@dataclasses.dataclass(frozen=True)
class Fault:
    """What happens to one request instead of its answer.

    Attributes:
        on: method and beginning of the path, as in "POST /apis/v2beta1/runs"; empty for any request.
        status: status of the answer; 0 breaks the connection.
        body: text of the answer.
        headers: its headers.
        is_done: whether the request was carried out.
    """

    on: str = ""
    status: int = 0
    body: str = ""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_done: bool = False


@dataclasses.dataclass(frozen=True)
class Seen:
    """A request that arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: Any


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keeps quiet about a client that went away, as one does that was interrupted; it prints into its output."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class FakeService:
    """A server on this machine.

    Attributes:
        faults: what happens to the next requests; each is used once.
        seen: all requests.
        states: states of a run, one for each question, the last one for good.
    """

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []
        self.states: list[str] = ["RUNNING"]
        self.runs: dict[str, dict[str, Any]] = {}
        self.schedules: dict[str, dict[str, Any]] = {}
        self.server: http.server.ThreadingHTTPServer
        self.start()

    def start(self, port: int = 0) -> None:
        """Starts the server, or starts it again."""
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def _handle(self) -> None:
                service._handle(self)

            do_GET = do_POST = do_DELETE = _handle  # noqa: N815 - the server calls them so.

            def log_message(self, *_: Any) -> None:
                """Keeps quiet."""

        self.server = _Server(("127.0.0.1", port), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Stops the server; connections are refused then."""
        self.server.shutdown()
        self.server.server_close()

    @property
    def port(self) -> int:
        """Port of the server."""
        return int(self.server.server_address[1])

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def fail(
        self,
        on: str = "",
        *,
        status: int = 0,
        body: str = "",
        headers: Mapping[str, str] | None = None,
        is_done: bool = False,
    ) -> None:
        """Lets one of the next requests fail, as a `Fault` says."""
        self.faults.append(Fault(on=on, status=status, body=body, headers=headers or {}, is_done=is_done))

    def calls(self) -> list[str]:
        """Lists what was asked, as in "GET runs"."""
        return [f"{seen.method} {seen.path.rpartition('/')[2]}" for seen in self.seen]

    def next_state(self) -> str:
        """Returns the state that a run is in now."""
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def answer(self, seen: Seen) -> Any:
        """Returns the message of an answer; an int is a status, a text an answer in plain text."""
        raise NotImplementedError

    def _handle(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        split = urllib.parse.urlsplit(handler.path)
        text = handler.rfile.read(int(handler.headers.get("Content-Length") or 0)).decode()
        seen = Seen(
            method=handler.command,
            path=urllib.parse.unquote(split.path),
            query=dict(urllib.parse.parse_qsl(split.query)),
            headers=dict(handler.headers.items()),
            body=json.loads(text) if text else None,
        )
        self.seen.append(seen)
        fault = next((one for one in self.faults if f"{seen.method} {seen.path}".startswith(one.on)), None)
        if fault is not None:
            self.faults.remove(fault)
            if fault.is_done:
                self.answer(seen)
            if not fault.status:
                handler.close_connection = True
                handler.connection.shutdown(socket.SHUT_RDWR)
                return
            _send(handler, fault.status, fault.body, {"Content-Type": "application/json", **fault.headers})
            return
        found = self.answer(seen)
        if isinstance(found, int):
            message = {"error": {"code": found, "message": "no such thing"}}
            _send(handler, found, json.dumps(message), {"Content-Type": "application/json"})
        elif isinstance(found, str):
            _send(handler, 200, found, {"Content-Type": "text/plain"})
        else:
            _send(handler, 200, json.dumps(found), {"Content-Type": "application/json"})


def _send(handler: http.server.BaseHTTPRequestHandler, status: int, body: str, headers: Mapping[str, str]) -> None:
    data = body.encode(errors="surrogateescape")
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


class FakeKubeflow(FakeService):
    """Answers as version 2 of the API of Kubeflow Pipelines."""

    def __init__(self) -> None:
        self.experiments: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        super().__init__()

    def answer(self, seen: Seen) -> Any:  # noqa: PLR0911 - one for each kind of request.
        """Returns the message of an answer."""
        kind, _, rest = seen.path.removeprefix("/apis/v2beta1/").partition("/")
        if log := re.fullmatch(r"/apis/v1alpha1/runs/[^/]+/nodes/([^/]+)/log", seen.path):
            return self.logs.get(log[1], 500)
        key, id_name, listed, records = {
            "runs": ("run_id", "run_id", "runs", self.runs),
            "recurringruns": ("recurring_run_id", "recurring_run_id", "recurringRuns", self.schedules),
            "experiments": ("experiment_id", "experiment_id", "experiments", self.experiments),
        }[kind]
        if seen.method == "POST" and not rest:
            record = {**seen.body, id_name: str(uuid.uuid4())}
            if kind == "recurringruns":
                record["status"] = "ENABLED"
            records[record[key]] = record
            return record
        if seen.method == "GET" and not rest:
            return {listed: self._filtered(seen, list(records.values()))}
        name, _, action = rest.partition(":")
        if name not in records:
            return 404
        if seen.method == "DELETE":
            del records[name]
            return {}
        if action:
            change = {
                "terminate": ("state", "CANCELED"),
                "disable": ("status", "DISABLED"),
                "enable": ("status", "ENABLED"),
            }
            records[name].update([change[action]])
            return {}
        if kind == "runs" and "state" not in records[name]:
            return {**records[name], "state": self.next_state()}
        return records[name]

    def _filtered(self, seen: Seen, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for predicate in json.loads(seen.query.get("filter", "{}")).get("predicates", []):
            assert predicate["operation"] == "EQUALS"
            records = [one for one in records if one.get(predicate["key"]) == predicate["stringValue"]]
        if "experiment_id" in seen.query:
            records = [one for one in records if one["experiment_id"] == seen.query["experiment_id"]]
        return records


class FakeVertex(FakeService):
    """Answers as version 1 of the API of Vertex AI."""

    def __init__(self) -> None:
        self.contexts: dict[str, dict[str, Any]] = {}
        super().__init__()

    def answer(self, seen: Seen) -> Any:  # noqa: PLR0911 - one for each kind of request.
        """Returns the message of an answer."""
        path = seen.path.removeprefix("/v1/")
        jobs = re.fullmatch(r"projects/shop/locations/europe-west4/(pipelineJobs|schedules)", path)
        if seen.method == "POST" and jobs:
            records = self.runs if jobs[1] == "pipelineJobs" else self.schedules
            key = seen.query["pipelineJobId"] if jobs[1] == "pipelineJobs" else str(1000 + len(records))
            name = f"{path}/{key}"
            if name in records:
                return 409
            created = {"state": "PIPELINE_STATE_PENDING"} if jobs[1] == "pipelineJobs" else {"state": "ACTIVE"}
            records[name] = {**seen.body, "name": name, **created}
            return records[name]
        if seen.method == "GET" and jobs:
            return {"schedules": list(self.schedules.values())}
        if "/contexts" in path:
            return self._context(seen, path)
        name, _, action = path.partition(":")
        records = self.schedules if "/schedules/" in name else self.runs
        if name not in records:
            return 404
        if seen.method == "DELETE":
            del records[name]
            return {"name": f"{name}/operations/1", "done": True}
        if action:
            change = {"cancel": "PIPELINE_STATE_CANCELLED", "pause": "PAUSED", "resume": "ACTIVE"}[action]
            records[name]["state"] = change
            return {}
        if records is self.runs and records[name]["state"] == "PIPELINE_STATE_PENDING":
            context = {"name": f"projects/shop/locations/europe-west4/metadataStores/default/contexts/{name[-12:]}"}
            state = self.next_state()
            # The context of a run is made when it runs.
            detail = {"pipelineRunContext": context} if state == "RUNNING" else {}
            return {**records[name], "state": f"PIPELINE_STATE_{state}", "jobDetail": detail}
        return records[name]

    def _context(self, seen: Seen, path: str) -> Any:
        """Answers for the metadata store."""
        name, _, action = path.partition(":")
        if seen.method == "POST" and not action:
            name = f"{path}/{seen.query['contextId']}"
            self.contexts[name] = {**seen.body, "name": name}
        elif name in self.contexts and action:
            self.contexts[name].setdefault("children", []).extend(seen.body["childContexts"])
            return {}
        return (
            {key: value for key, value in self.contexts[name].items() if key != "children"}
            if name in self.contexts
            else 404
        )


class FakeCustomJobs(FakeService):
    """Answers as the part of version 1 of the API of Vertex AI that is about custom jobs.

    Attributes:
        jobs: the jobs by name; `states` are those of the one that is asked for.
        on_creation: called when a job is to be created, before it is.
    """

    PARENT = "projects/shop/locations/europe-west4"

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.on_creation: Callable[[], None] = lambda: None
        self.error = ""
        super().__init__()

    def add(self, body: Mapping[str, Any], state: str = "PENDING") -> dict[str, Any]:
        """Adds a job; each is a second younger than the one before."""
        number = 1 + len(self.jobs)
        name = f"{self.PARENT}/customJobs/{number}"
        job = {**body, "name": name, "state": f"JOB_STATE_{state}", "createTime": f"2026-11-26T00:00:{number:02}Z"}
        self.jobs[name] = job
        return job

    def answer(self, seen: Seen) -> Any:
        """Returns the message of an answer."""
        name, _, action = seen.path.removeprefix("/v1/").partition(":")
        if name == f"{self.PARENT}/customJobs":
            if seen.method == "POST":
                self.on_creation()
                return self.add(seen.body)
            label, _, value = seen.query["filter"].removeprefix("labels.").partition("=")
            return {"customJobs": [job for job in reversed(self.jobs.values()) if job["labels"].get(label) == value]}
        if name not in self.jobs:
            return 404
        job = self.jobs[name]
        if action:
            job["state"] = "JOB_STATE_CANCELLING"
            return {}
        if job["state"] == "JOB_STATE_CANCELLING":
            job["state"] = "JOB_STATE_CANCELLED"
            return {**job, "state": "JOB_STATE_CANCELLING"}
        if job["state"].rpartition("_")[2] in ("PENDING", "QUEUED", "RUNNING", "UPDATING"):
            job["state"] = f"JOB_STATE_{self.next_state()}"
            if job["state"] == "JOB_STATE_FAILED":
                job["error"] = {"code": 3, "message": self.error}
        return job


@dataclasses.dataclass(frozen=True)
class Shown:
    """What a command printed."""

    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def command_line() -> Any:
    """All commands of `tfx-gnn`."""
    return typer.main.get_command(app)


@pytest.fixture
def tfx_gnn(command_line: Any, waits: list[float], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Shown]:
    """Runs a command line in this process."""
    for name in ("KF_PIPELINES_ENDPOINT", "KF_PIPELINES_SA_TOKEN_PATH", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_REGION"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object, exit_code: int = 0) -> Shown:
        # Typer's CliRunner builds all commands anew each time, which takes longer than most tests here.
        stdout, stderr = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr), pytest.raises(SystemExit) as ended:
            command_line([str(argument) for argument in arguments], prog_name="tfx-gnn")
        assert (ended.value.code or 0) == exit_code, stdout.getvalue() + stderr.getvalue()
        return Shown(stdout=stdout.getvalue(), stderr=stderr.getvalue())

    return run


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that would have been slept."""
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    return found


def specification(name: str, *, arguments: list[str]) -> dict[str, Any]:
    """A pipeline of two tasks and two parameters."""
    tasks = {
        name: {"taskInfo": {"name": name}, "componentRef": {"name": name}, "cachingOptions": {"enableCache": True}}
        for name in ("GraphTrainer", "GraphPusher")
    }
    container = {"image": "registry/image:tag", "command": ["python"], "args": arguments}
    return {
        "schemaVersion": "2.1.0",
        "sdkVersion": "tfx-gnn",
        "pipelineInfo": {"name": name},
        "root": {
            "dag": {"tasks": tasks},
            "inputDefinitions": {
                "parameters": {
                    "num_epochs": {"parameterType": "NUMBER_INTEGER", "defaultValue": 10},
                    "tables_dir": {"parameterType": "STRING"},
                }
            },
        },
        "components": {task: {"executorLabel": task} for task in tasks},
        "deploymentSpec": {"executors": {task: {"container": container} for task in tasks}},
    }


@pytest.fixture
def kubeflow_file(tmp_path: Path) -> Path:
    """A pipeline that was compiled for Kubeflow, with a second document."""
    platforms = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {"GraphTrainer": {}}}}}}
    path = tmp_path / "shop.yaml"
    path.write_text(yaml.safe_dump_all([specification("shop", arguments=["launcher"]), platforms]))
    return path


@pytest.fixture
def vertex_file(tmp_path: Path) -> Path:
    """A pipeline that was compiled for Vertex AI."""
    job = {
        "pipelineSpec": specification("shop", arguments=["direct"]),
        "runtimeConfig": {
            "gcsOutputDirectory": "gs://bucket/root",
            "parameterValues": {"tables_dir": "gs://bucket/tables"},
        },
    }
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(job))
    return path


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """File with a secret."""
    path = tmp_path / "token"
    path.write_text("s3cr3t-t0ken\n")
    return path


@pytest.fixture
def kubeflow() -> Iterator[FakeKubeflow]:
    """Kubeflow Pipelines on this machine."""
    service = FakeKubeflow()
    yield service
    service.stop()


@pytest.fixture
def run_id(kubeflow: FakeKubeflow) -> str:
    """A run that was made before."""
    kubeflow.runs["7b0e2c54-0000-4000-8000-000000000001"] = {
        "run_id": "7b0e2c54-0000-4000-8000-000000000001",
        "display_name": "nightly",
        "experiment_id": "1",
    }
    return "7b0e2c54-0000-4000-8000-000000000001"


@pytest.fixture
def vertex() -> Iterator[FakeVertex]:
    """Vertex AI on this machine."""
    service = FakeVertex()
    yield service
    service.stop()


@pytest.fixture
def custom_jobs() -> Iterator[FakeCustomJobs]:
    """Custom jobs of Vertex AI on this machine."""
    service = FakeCustomJobs()
    yield service
    service.stop()
