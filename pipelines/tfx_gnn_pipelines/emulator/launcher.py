"""Runs one attempt of a task: artifacts to its container, its command, its answer, and artifacts back to the store."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tfx_gnn_pipelines.container import LAUNCHER_ROOT_VARIABLE
from tfx_gnn_pipelines.custom_job import COORDINATOR_COMMAND, ENDPOINT_VARIABLE, LOCAL_PROJECT, LOCAL_REGION
from tfx_gnn_pipelines.emulator.artifact_stores import ArtifactStore, object_path
from tfx_gnn_pipelines.emulator.driver import LOGS_OUTPUT
from tfx_gnn_pipelines.services import Service

_OUTPUT_FILE = "tmp/kfp_outputs/output_metadata.json"
SECONDS_TO_STOP = 10
_PR_SET_PDEATHSIG = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskContainer:
    """What a container engine gets to run a task.

    Attributes:
        name: of the task.
        image: container image.
        command: the program and its arguments.
        environment: environment variables beside those of the image.
        folder: folder of this machine that stands for the root of the container.
        log: file to which what the task prints is appended.
    """

    name: str
    image: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    log: Path


class ContainerEngine(Protocol):
    """Runs the containers of tasks."""

    def root_inside(self, folder: Path) -> Path:
        """Returns the path under which a task finds `folder`, which stands for the root of its container."""
        ...

    def remove_leftovers(self, pods: Path) -> None:
        """Ends what a killed run left; `pods` is the folder of the folders that stood for its containers."""
        ...

    def run(self, container: TaskContainer) -> int:
        """Runs a container to its end; returns the exit code, negative for a signal."""
        ...


class LocalProcesses:
    """Runs each task as a process of its own in the current folder, with this environment as its image."""

    def root_inside(self, folder: Path) -> Path:
        """Returns the folder itself."""
        return folder

    def remove_leftovers(self, pods: Path) -> None:
        """Does nothing: the processes ended with the run."""

    def run(self, container: TaskContainer) -> int:
        """Runs a task's command; what it leaves running ends with it, as in a container.

        The process also ends with this one, even by SIGKILL; in that case, processes that it started may stay.
        """
        process = start_process(container)
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SECONDS_TO_STOP)
            raise
        finally:
            end_process(process)


def start_process(container: TaskContainer) -> subprocess.Popen[bytes]:
    """Starts a task's command as a process that ends with this thread, even if this process is killed."""
    environment = {
        **os.environ,
        **container.environment,
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]),
        LAUNCHER_ROOT_VARIABLE: str(container.folder),
    }
    with container.log.open("ab") as file:
        return subprocess.Popen(
            container.command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            # A group of its own, so that all of it can be ended.
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - it makes one system call, and takes no lock
        )


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Ends what is left of a process and of those that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Launcher:
    """Runs attempts of tasks.

    Args:
        service: whose launcher is imitated.
        pods: folder of the folders that stand for the roots of containers.
        store: holds the artifacts on Kubeflow; on Vertex AI, containers read and write them by themselves.
        engine: runs the containers.
        custom_jobs: returns the address of the service that runs the custom jobs of Vertex AI.
        run: name of the run.
    """

    def __init__(
        self,
        *,
        service: Service,
        pods: Path,
        store: ArtifactStore,
        engine: ContainerEngine,
        custom_jobs: Callable[[], str],
        run: str,
    ) -> None:
        self._service = service
        self._pods = pods
        self._store = store
        self._engine = engine
        self._custom_jobs = custom_jobs
        self._run = run

    def output_file(self, task: str) -> str:
        """Returns where a task writes its answer, as the task sees it; empty if that is beside its outputs."""
        if self._service is Service.VERTEX:
            return ""
        return str(self._engine.root_inside(self._pod(task)) / _OUTPUT_FILE)

    def attempt(self, task: str, spec: Mapping[str, Any], message: Mapping[str, Any], log: Path) -> Any | None:
        """Runs the container of a task once.

        Args:
            task: its name.
            spec: the PipelineContainerSpec, as JSON.
            message: the ExecutorInput, as JSON.
            log: file to which its output is appended.

        Returns:
            The ExecutorOutput that it wrote, as JSON; None if it failed.

        Raises:
            OSError: if artifacts cannot be copied.
            ValueError: if the answer is no JSON object, or has what the service cannot store.
        """
        pod = self._pod(task)
        self.remove_pod(task)
        pod.mkdir(parents=True)
        if self._service is Service.KUBEFLOW:
            for uri in _uris(message["inputs"]):
                self._store.download(uri, pod / object_path(uri))
            for uri in _uris(message["outputs"]):
                (pod / object_path(uri)).parent.mkdir(parents=True, exist_ok=True)
        environment = {variable["name"]: variable["value"] for variable in spec.get("env", ())}
        is_coordinator = self._service is Service.VERTEX and tuple(spec.get("command", ())) == COORDINATOR_COMMAND
        if is_coordinator:
            environment[ENDPOINT_VARIABLE] = self._custom_jobs()
        container = TaskContainer(
            name=task,
            image=spec.get("image", ""),
            command=_fill_command(spec, {"{{$}}": json.dumps(message), **self._placeholders(task)}),
            environment=environment,
            folder=pod,
            log=log,
        )
        code = self._engine.run(container)
        if code:
            if code < 0:
                append(log, f"{task} was ended by signal {-code}")
            return None
        return self._answer(pod, message["outputs"]["outputFile"])

    def upload(self, task: str, artifacts: Mapping[str, Any], log: Path) -> None:
        """Copies the outputs of a finished task to the store, and removes what stood for its container."""
        if self._service is Service.KUBEFLOW:
            pod = self._pod(task)
            for output, artifact in artifacts.items():
                uri = artifact["uri"]
                if output == LOGS_OUTPUT:
                    self._store.upload(log, uri)
                elif not self._store.upload(pod / object_path(uri), uri):
                    append(log, f"Warning: {task} wrote no file for the output {output!r}")
                    self._store.keep_empty(uri)
        self.remove_pod(task)

    def remove_pod(self, task: str) -> None:
        """Removes what stood for the container of a task."""
        if self._pod(task).exists():
            shutil.rmtree(self._pod(task))

    def is_there(self, uri: str) -> bool:
        """Tells whether an artifact of an earlier run can be used; what is on a real object store is not looked up."""
        if self._service is Service.KUBEFLOW:
            return self._store.exists(uri)
        return "://" in uri or Path(uri).exists()

    def _pod(self, task: str) -> Path:
        return self._pods / task

    def _placeholders(self, task: str) -> dict[str, str]:
        """Returns what Vertex AI fills into the commands of its tasks."""
        if self._service is not Service.VERTEX:
            return {}
        values = {
            "google_cloud_project_id": LOCAL_PROJECT,
            "google_cloud_location": LOCAL_REGION,
            "job_resource_name": f"projects/{LOCAL_PROJECT}/locations/{LOCAL_REGION}/pipelineJobs/{self._run}",
            "task_name": task,
            "service_account": f"local@{LOCAL_PROJECT}.iam.gserviceaccount.com",
            "network": "",
            "encryption_key_name": "",
        }
        return {f"{{{{$.pipeline_{name}}}}}": value for name, value in values.items()}

    def _answer(self, pod: Path, output_file: str) -> dict[str, Any]:
        """Reads what the executor wrote; Kubeflow takes no file for an empty answer."""
        if "://" in output_file:
            import tensorflow as tf

            with tf.io.gfile.GFile(output_file) as file:
                return dict(json.loads(file.read()))
        path = pod / _OUTPUT_FILE if self._service is Service.KUBEFLOW else Path(output_file)
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def append(log: Path, line: str) -> None:
    """Appends a line to the log of a task."""
    try:
        with log.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError as error:
        # That of a full disk names no file.
        raise OSError(error.errno, error.strerror, str(log)) from error


def _fill_command(container: Mapping[str, Any], values: Mapping[str, str]) -> list[str]:
    """Puts values in place of their placeholders; what stands in a value is no placeholder."""
    pattern = re.compile("|".join(re.escape(placeholder) for placeholder in values))
    words = [*container.get("command", ()), *container.get("args", ())]
    return [pattern.sub(lambda found: values[found[0]], word) for word in words]


def _uris(message: Mapping[str, Any]) -> list[str]:
    """Lists the first artifact of each input or output: Kubeflow's launcher copies no other."""
    return [found["artifacts"][0]["uri"] for found in message["artifacts"].values() if found["artifacts"]]


_prctl = ctypes.CDLL(None).prctl
"""Looked up now, because after a fork nothing may take a lock."""


def _end_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
