"""Runs and schedules of compiled pipelines, in words that fit both services, and the wait for the end of a run."""

from __future__ import annotations

import abc
import collections
import dataclasses
import datetime as dt
import enum
import hashlib
import math
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfx_gnn_pipelines.services import Service

_CRON_FIELD = re.compile(r"[0-9A-Za-z*,/\-]+")
_TIMEZONE = re.compile(r"[A-Za-z0-9_+/\-]*")
_LABEL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
MAX_NAME_LENGTH = 128


class RunState(str, enum.Enum):
    """State of a run or of a task."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    SKIPPED = "skipped"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def is_final(self) -> bool:
        """Whether it stays as it is."""
        return self in (RunState.SUCCEEDED, RunState.SKIPPED, RunState.FAILED, RunState.CANCELLED)


def run_state(text: str) -> RunState:
    """Translates the name of a state in an API of Kubeflow or Vertex AI."""
    word = text.rpartition("_STATE_")[2].upper()
    return _STATES.get(word, RunState.UNKNOWN)


_STATES = {
    "QUEUED": RunState.PENDING,
    "PENDING": RunState.PENDING,
    "NOT_TRIGGERED": RunState.SKIPPED,
    "RUNNING": RunState.RUNNING,
    "UPDATING": RunState.RUNNING,
    "PAUSED": RunState.PAUSED,
    "CANCELING": RunState.CANCELLING,
    "CANCELLING": RunState.CANCELLING,
    "CANCEL_PENDING": RunState.CANCELLING,
    "SUCCEEDED": RunState.SUCCEEDED,
    "SKIPPED": RunState.SKIPPED,
    "FAILED": RunState.FAILED,
    "EXPIRED": RunState.FAILED,
    "PARTIALLY_SUCCEEDED": RunState.FAILED,
    "CANCELED": RunState.CANCELLED,
    "CANCELLED": RunState.CANCELLED,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskStatus:
    """What a service says of one task of a run.

    Attributes:
        name: name of the task.
        state: its state.
        error: the service's message, if the task failed.
        jobs: what ran the task: names of pods on Kubeflow, of custom jobs on Vertex AI.
        logs_uri: where an artifact with its log is, if the service says so.
    """

    name: str
    state: RunState
    error: str = ""
    jobs: tuple[str, ...] = ()
    logs_uri: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunStatus:
    """What a service says of a run.

    Attributes:
        run: id of the run, as the other commands take it.
        name: display name.
        state: its state.
        page: address of its page.
        error: the service's message, if the run failed.
        tasks: its tasks, as far as they are known.
    """

    run: str
    name: str
    state: RunState
    page: str
    error: str = ""
    tasks: tuple[TaskStatus, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the status as JSON values."""
        found = dataclasses.asdict(self)
        return {
            **found,
            "state": self.state.value,
            "tasks": [{**task, "state": task["state"].value, "jobs": list(task["jobs"])} for task in found["tasks"]],
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskLog:
    """Log of a task, or why it is not here and where it is.

    Attributes:
        task: the task.
        text: the log itself; empty if the service does not hand it out.
        notes: where else to look, or what the service answered.
    """

    task: TaskStatus
    text: str = ""
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScheduleStatus:
    """What a service says of a schedule.

    Attributes:
        schedule: id of the schedule, as the other commands take it.
        name: display name.
        is_active: whether it starts runs.
        cron: when it does.
        page: address of its page.
        next_run: time of the next run, if the service says so.
    """

    schedule: str
    name: str
    is_active: bool
    cron: str
    page: str
    next_run: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run a compiled pipeline.

    Attributes:
        name: display name of the run or schedule; required.
        parameters: values of all parameters.
        root: where outputs go; empty for the service's default.
        labels: labels of the run.
        experiment: experiment that the run belongs to; empty for the service's default.
        service_account: account that the tasks run as; empty for the service's default.
        network: full name of a VPC network, on Vertex AI.
        encryption_key: full name of a key of Cloud KMS, on Vertex AI.
        use_cache: whether tasks may take their outputs from earlier runs; False switches it off for all tasks.
        submission: text that names this submission: if a run with this text and name was submitted before, that one is
            meant; empty: each submission is another one.
        mark: marks what the submission created.
    """

    name: str
    parameters: Mapping[str, Any]
    root: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    experiment: str = ""
    service_account: str = ""
    network: str = ""
    encryption_key: str = ""
    use_cache: bool = True
    submission: str = ""
    mark: str = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        mark = hashlib.sha256(self.submission.encode()).hexdigest()[:32] if self.submission else uuid.uuid4().hex
        object.__setattr__(self, "mark", mark)
        if not self.name.strip() or len(self.name) > MAX_NAME_LENGTH or not self.name.isprintable():
            raise ValueError(
                f"`--name` must have 1 to {MAX_NAME_LENGTH} printable characters; got {self.name!r}. Choose another."
            )
        for name, value in self.labels.items():
            if not _LABEL_NAME.fullmatch(name) or not _LABEL_VALUE.fullmatch(value):
                raise ValueError(
                    "`--labels` must be of small letters, digits, '-' and '_', at most 63, and begin with a letter; "
                    f"got {name}={value}. Rename it."
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScheduleOptions:
    """When to run a compiled pipeline again and again.

    Attributes:
        cron: five fields: minute, hour, day of the month, month, day of the week.
        timezone: name of a time zone, such as Europe/Berlin; empty for UTC on Vertex AI, and for the controller's own
            on Kubeflow.
        max_concurrent_runs: at most so many runs of the schedule at the same time, 1 to 10.
        start: no run before it.
        end: no run after it.
    """

    cron: str
    timezone: str = ""
    max_concurrent_runs: int = 1
    start: dt.datetime | None = None
    end: dt.datetime | None = None

    def __post_init__(self) -> None:
        fields = self.cron.split()
        if len(fields) != 5 or not all(_CRON_FIELD.fullmatch(field) for field in fields):
            raise ValueError(
                "`--cron` must have five fields, minute, hour, day of the month, month and day of the week; got "
                f"{self.cron!r}. Write, for example, '30 6 * * 1-5' for half past six on working days."
            )
        if not _TIMEZONE.fullmatch(self.timezone):
            raise ValueError(
                f"`--timezone` must be the name of a time zone; got {self.timezone!r}. Write, for example, "
                "Europe/Berlin."
            )
        if not 1 <= self.max_concurrent_runs <= 10:
            raise ValueError(
                f"`--max-concurrent-runs` must be in [1, 10]; got {self.max_concurrent_runs}. Choose another number."
            )
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError(
                f"`--end` must be after `--start`; got {self.end.isoformat()} and {self.start.isoformat()}. Swap them."
            )
        if self.end is not None and self.end <= dt.datetime.now(dt.timezone.utc):
            raise ValueError(
                f"`--end` must be in the future; got {self.end.isoformat()}, after which there is no run. Choose a "
                "later time."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """A request that creates something.

    Attributes:
        method: HTTP method.
        url: address; without the host if that is not known yet.
        body: the message, as JSON.
    """

    method: str
    url: str
    body: Mapping[str, Any]


class PipelineService(abc.ABC):
    """Kubeflow Pipelines or Vertex AI Pipelines, with what both can do."""

    service: Service

    @abc.abstractmethod
    def submit(self, pipeline: Any, options: RunOptions) -> RunStatus:
        """Starts one run of a compiled pipeline."""

    @abc.abstractmethod
    def status(self, run: str) -> RunStatus:
        """Asks for the state of a run."""

    @abc.abstractmethod
    def logs(self, run: RunStatus, tasks: Sequence[TaskStatus]) -> list[TaskLog]:
        """Asks for the logs of tasks."""

    @abc.abstractmethod
    def cancel(self, run: str) -> None:
        """Asks the service to end a run."""

    @abc.abstractmethod
    def create_schedule(self, pipeline: Any, options: RunOptions, schedule: ScheduleOptions) -> ScheduleStatus:
        """Creates one schedule of a compiled pipeline."""

    @abc.abstractmethod
    def list_schedules(self) -> list[ScheduleStatus]:
        """Lists all schedules."""

    @abc.abstractmethod
    def change_schedule(self, schedule: str, change: str) -> None:
        """Pauses, resumes or deletes a schedule: `change` is "pause", "resume" or "delete"."""


def without_cache(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a specification whose tasks all run anew, those of nested pipelines, too."""

    def uncached(component: Mapping[str, Any]) -> dict[str, Any]:
        dag = component["dag"]
        tasks = {name: {**task, "cachingOptions": {"enableCache": False}} for name, task in dag["tasks"].items()}
        return {**component, "dag": {**dag, "tasks": tasks}}

    components = spec.get("components", {})
    return {
        **spec,
        "root": uncached(spec["root"]),
        "components": {name: uncached(one) if "dag" in one else one for name, one in components.items()},
    }


def wait_for_run(
    service: PipelineService,
    run: str,
    *,
    poll_seconds: float,
    timeout_seconds: float | None,
    report: Callable[[str], None],
) -> RunStatus:
    """Waits until a run has ended.

    Args:
        service: where it runs; its own retries decide how long it may be out of reach.
        run: id of the run.
        poll_seconds: seconds between two questions.
        timeout_seconds: longest wait; None for no limit.
        report: is told of each change.

    Returns:
        The last status; its state is not final if the time was up.
    """
    started_at = time.monotonic()
    told: dict[tuple[str, int], RunState] = {}
    is_last = False
    while True:
        found = service.status(run)
        counts: collections.Counter[str] = collections.Counter()
        for name, state, error in [(task.name, task.state, task.error) for task in found.tasks] + [
            ("run", found.state, found.error)
        ]:
            # Tasks may share a name, such as the drivers of several tasks.
            counts[name] += 1
            if told.get((name, counts[name])) is not state:
                told[name, counts[name]] = state
                report(f"{name}: {state.value}{f' ({error})' if error else ''}")
        left = math.inf if timeout_seconds is None else timeout_seconds - (time.monotonic() - started_at)
        if found.state.is_final or is_last or left <= 0:
            return found
        is_last = left <= poll_seconds
        time.sleep(min(poll_seconds, left))
