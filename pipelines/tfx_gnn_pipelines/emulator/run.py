"""Runs the tasks of a compiled pipeline in order, with conditions, cache and retries, as a service would."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfx_gnn.io.process_lock import process_lock
from tfx_gnn_pipelines.compiled_pipeline import CompiledPipeline
from tfx_gnn_pipelines.emulator.artifact_stores import FolderStore, S3Store, object_path
from tfx_gnn_pipelines.emulator.custom_jobs import LocalCustomJobs
from tfx_gnn_pipelines.emulator.driver import (
    DEFAULT_ROOT,
    FinishedTask,
    cache_key,
    executor_input,
    is_triggered,
    provision_outputs,
    record_outputs,
)
from tfx_gnn_pipelines.emulator.launcher import (
    ContainerEngine,
    Launcher,
    LocalProcesses,
    append,
)
from tfx_gnn_pipelines.emulator.task_graph import check_tasks, in_order, is_exit_handler, upstream
from tfx_gnn_pipelines.recorded_trial import RUN_FILE, RUN_ID_FORMAT, RUNS_FOLDER, STORE_FOLDER
from tfx_gnn_pipelines.services import Service

SUCCEEDED = ("done", "cached")
"""States of tasks whose outputs can be used."""

_LOG_TAIL_BYTES = 4096
_PODS = "pods"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskResult:
    """What became of a task.

    Attributes:
        task: its name.
        state: "running", "done", "cached", "waiting" for a retry, "failed", "skipped" by its condition, or "not run",
            because a task before it did not succeed.
        seconds: of all attempts; of the wait before a retry.
        attempts: how often its command was started.
        reason: the last line of the log of a failed task; the condition of a skipped one.
        log: path of the log; empty if no command was started.
        artifacts: RuntimeArtifact of each output.
    """

    task: str
    state: str
    seconds: float = 0.0
    attempts: int = 0
    reason: str = ""
    log: str = ""
    artifacts: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


Report = Callable[[str, TaskResult | None], None]
"""Called with a task's name and None when it starts, with a state "waiting" before a retry, and with its result."""


def _report_nothing(_task: str, _result: TaskResult | None) -> None:
    pass


def run_compiled(
    pipeline: CompiledPipeline,
    *,
    service: Service,
    folder: str,
    root: str = "",
    store: str = "",
    parameters: Mapping[str, Any],
    engine: ContainerEngine | None = None,
    report: Report = _report_nothing,
) -> list[TaskResult]:
    """Runs a compiled pipeline on this machine.

    A task whose inputs, parameters, image and command equal those of an earlier run in the same folder is taken from
    there if the specification allows it, so a run that was killed goes on where it was.

    Args:
        pipeline: the pipeline.
        service: whose driver and launcher are imitated.
        folder: folder of logs, cache and artifacts. On Kubeflow, artifacts are in a folder of it that stands for the
            object store.
        root: where tasks write on Vertex AI, any URI that TensorFlow reads and writes; empty: in `folder`.
        store: URL of an S3 server to which artifacts are copied on Kubeflow; empty: a folder stands for it.
        parameters: values of all parameters of the run.
        engine: runs the containers of tasks; by default, each task is a process of this machine.
        report: is told what happens to the tasks.

    Returns:
        The results of all tasks, in the order in which they ran.

    Raises:
        BlockingIOError: if another run uses the folder.
        ValueError: if the specification has what this imitation does not know.
    """
    engine = engine or LocalProcesses()
    with _locked(Path(folder), engine) as place, LocalCustomJobs() as custom_jobs:
        run = _Run(
            pipeline,
            service=service,
            folder=place,
            root=root,
            store=store,
            parameters=parameters,
            engine=engine,
            custom_jobs=custom_jobs,
            report=report,
        )
        results: dict[str, TaskResult] = {}
        for name in in_order(run.tasks):
            before = [results[other] for other in upstream(run.tasks[name])]
            if any(other.state not in SUCCEEDED for other in before):
                results[name] = TaskResult(task=name, state="not run")
            else:
                report(name, None)
                run.write_state({**results, name: TaskResult(task=name, state="running")})
                results[name] = run.run_task(name, run.tasks[name], results)
            report(name, results[name])
            run.write_state(results)
        status = run.final_status(results)
        for name, task in run.exit_tasks.items():
            report(name, None)
            results[name] = run.run_task(name, task, {}, final_status=status)
            report(name, results[name])
            run.write_state(results)
        return list(results.values())


class _Run:
    def __init__(
        self,
        pipeline: CompiledPipeline,
        *,
        service: Service,
        folder: Path,
        root: str,
        store: str,
        parameters: Mapping[str, Any],
        engine: ContainerEngine,
        custom_jobs: LocalCustomJobs,
        report: Report,
    ) -> None:
        self._report = report
        self._pipeline = pipeline
        self._service = service
        self._parameters = parameters
        self.exit_tasks = {name: task for name, task in pipeline.tasks.items() if is_exit_handler(task)}
        self.tasks = {name: task for name, task in pipeline.tasks.items() if name not in self.exit_tasks}
        self._folder = folder
        self._cache = folder / "cache" / service.value / pipeline.name
        self._run_id = dt.datetime.now(dt.timezone.utc).strftime(RUN_ID_FORMAT)
        self._logs = folder / RUNS_FOLDER / self._run_id
        if service is Service.KUBEFLOW:
            if root:
                raise ValueError(
                    f"`root` must be a folder with Kubeflow's semantics, where it stands for the store; got {root!r}. "
                    "Name a folder, or imitate Vertex AI."
                )
            root = pipeline.root or DEFAULT_ROOT
        elif store:
            raise ValueError(
                f"`--store` must be given with Kubeflow's semantics, where a launcher copies artifacts; got {store!r}. "
                "Name a root on the store instead, or imitate Kubeflow."
            )
        self._root = "/".join(((root or str(folder / "artifacts")).rstrip("/"), pipeline.name, self._run_id))
        if service is Service.KUBEFLOW:
            object_path(self._root)
        self._launcher = Launcher(
            service=service,
            pods=folder / _PODS,
            store=S3Store(store, root=root) if store else FolderStore(folder / STORE_FOLDER),
            engine=engine,
            custom_jobs=lambda: custom_jobs.start(logs=self._logs, folder=folder / _PODS),
            run=f"{pipeline.name}-{self._run_id}",
        )
        for tasks in (self.tasks, self.exit_tasks):
            check_tasks(tasks, pipeline)

    def final_status(self, results: Mapping[str, TaskResult]) -> dict[str, Any]:
        """Says how the tasks ended, as a service tells an exit handler: a PipelineTaskFinalStatus as JSON."""
        failed = [result.task for result in results.values() if result.state == "failed"]
        status: dict[str, Any] = {
            "state": "FAILED" if failed else "SUCCEEDED",
            "pipelineJobResourceName": self._run_id,
            "pipelineTaskName": ", ".join(self._pipeline.spec["root"]["dag"]["tasks"].keys() - self.exit_tasks.keys()),
        }
        return status | ({"error": {"code": 9, "message": f"Failed tasks: {', '.join(failed)}."}} if failed else {})

    def run_task(
        self,
        name: str,
        task: Mapping[str, Any],
        results: Mapping[str, TaskResult],
        *,
        final_status: Mapping[str, Any] | None = None,
    ) -> TaskResult:
        started = time.monotonic()
        component = self._pipeline.spec["components"][task["componentRef"]["name"]]
        container = self._pipeline.spec["deploymentSpec"]["executors"][component["executorLabel"]]["container"]
        message = executor_input(
            service=self._service,
            task=task,
            component=component,
            values=self._parameters,
            finished={other: FinishedTask(artifacts=result.artifacts) for other, result in results.items()},
            final_status=final_status,
        )
        condition = task.get("triggerPolicy", {}).get("condition", "")
        try:
            if condition and not is_triggered(name, condition, message):
                return TaskResult(task=name, state="skipped", reason=condition)
        except ValueError as error:
            return TaskResult(task=name, state="failed", reason=str(error))
        cached = self._cache / f"{cache_key(message, component, container)}.json"
        allowed = task.get("cachingOptions", {}).get("enableCache", False)
        if allowed and (earlier := self._cached(cached)) is not None:
            return TaskResult(task=name, state="cached", artifacts=earlier)
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{name}.log"
        retries = max(0, int(float(task.get("retryPolicy", {}).get("maxRetryCount", 0))))
        # Once for all attempts: a service names the outputs of a task before it starts the first one.
        outputs = provision_outputs(
            service=self._service,
            root=self._root,
            task_name=name,
            component=component,
            output_file=self._launcher.output_file(name),
        )
        for attempt in range(1, retries + 2):
            try:
                artifacts = self._attempt(name, container, {**message, "outputs": outputs}, log)
            except (OSError, ValueError) as error:
                # What the launcher of a service meets is a failure of the task, not of the run.
                artifacts = None
                append(log, f"{name} failed: {type(error).__name__}: {error}")
            if artifacts is not None:
                if allowed:
                    _write(cached, artifacts)
                return TaskResult(
                    task=name,
                    state="done",
                    seconds=time.monotonic() - started,
                    attempts=attempt,
                    log=str(log),
                    artifacts=artifacts,
                )
            if attempt <= retries:
                seconds = _wait_seconds(task["retryPolicy"], attempt)
                waiting = TaskResult(
                    task=name, state="waiting", seconds=seconds, attempts=attempt, reason=_last_line(log), log=str(log)
                )
                append(log, f"{name} is started again in {seconds:g} s, for attempt {attempt + 1} of {retries + 1}")
                self._report(name, waiting)
                time.sleep(seconds)
        return TaskResult(
            task=name,
            state="failed",
            seconds=time.monotonic() - started,
            attempts=retries + 1,
            reason=_last_line(log),
            log=str(log),
        )

    def write_state(self, results: Mapping[str, TaskResult]) -> None:
        state = {
            "pipeline": self._pipeline.name,
            "service": self._service.value,
            "parameters": dict(self._parameters),
            "tasks": [dataclasses.asdict(result) for result in results.values()],
        }
        _write(self._logs / RUN_FILE, state)

    def _attempt(
        self, name: str, container: Mapping[str, Any], message: Mapping[str, Any], log: Path
    ) -> dict[str, Any] | None:
        """Runs the container of a task once; returns its artifacts, or None if it failed."""
        answer = self._launcher.attempt(name, container, message, log)
        if answer is None:
            return None
        outputs = message["outputs"]
        artifacts = record_outputs(
            service=self._service, outputs=outputs, answer=answer, first_id=self._take_ids(len(outputs["artifacts"]))
        )
        self._launcher.upload(name, artifacts, log)
        return artifacts

    def _cached(self, path: Path) -> dict[str, Any] | None:
        """Reads an entry of the cache; None if there is none, or what it tells of is no longer there."""
        if not path.exists():
            return None
        try:
            artifacts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            is_there = all(self._launcher.is_there(found["uri"]) for found in artifacts.values())
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None  # Torn by a power failure, or changed by somebody.
        return artifacts if is_there else None

    def _take_ids(self, count: int) -> int:
        """Takes ids of the metadata store, which never gives one twice."""
        path = self._folder / "last_artifact.json"
        try:
            last = int(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else 0
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(
                f"`root` must hold the last artifact's number in {str(path)!r}; got a damaged file. Remove the "
                "folder, or choose another root."
            ) from error
        _write(path, last + count)
        return last + 1


def _wait_seconds(policy: Mapping[str, Any], attempt: int) -> float:
    first = float(str(policy.get("backoffDuration", "0s")).removesuffix("s"))
    longest = float(str(policy.get("backoffMaxDuration", "3600s")).removesuffix("s"))
    return min(first * float(policy.get("backoffFactor", 2.0)) ** (attempt - 1), longest)


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it wrote nothing"


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(json.dumps(content, indent=2, sort_keys=True) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        # That of a full disk names no file.
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def _locked(folder: Path, engine: ContainerEngine) -> Iterator[Path]:
    """Locks the folder of a run, and removes the containers and their folders that killed runs left."""
    folder = folder.resolve()
    with process_lock(str(folder / ".lock"), rule=f"`root` must be used by one run at a time; got {str(folder)!r}"):
        engine.remove_leftovers(folder / _PODS)
        if (folder / _PODS).exists():
            shutil.rmtree(folder / _PODS)
        yield folder
