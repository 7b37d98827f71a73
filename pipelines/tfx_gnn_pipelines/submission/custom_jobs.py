"""The coordinator of a custom job: the container of a task that starts the job, follows it, and is cancelled with it.

It gets the job and the arguments of the component's own container, which every replica runs. Labels of the job say
which task of which run it belongs to, and which outputs it writes. With these, a coordinator that was killed and is
started again goes on with the job that it had started, and no two jobs write the same outputs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import re
import signal
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tfx_gnn.io.quiet_libraries import quiet_start
from tfx_gnn_pipelines.container import pack_message
from tfx_gnn_pipelines.custom_job import ENDPOINT_VARIABLE, LOCAL_PROJECT
from tfx_gnn_pipelines.submission.connection import ConnectionOptions, checked_address
from tfx_gnn_pipelines.submission.failures import Remedies, ServiceError
from tfx_gnn_pipelines.submission.retries import PATIENT, Retries
from tfx_gnn_pipelines.submission.runs import MAX_NAME_LENGTH, RunState, run_state
from tfx_gnn_pipelines.submission.vertex_api import TIMEOUT, VertexApi, check_name, client_library, one_line
from tfx_gnn_pipelines.submission.vertex_names import page_address, parent_name

RUN_LABELS_VARIABLE = "VERTEX_AI_PIPELINES_RUN_LABELS"
"""Environment variable in which Vertex AI gives the labels of a run, as JSON, for what its tasks create."""

_TASK_LABEL, _OUTPUTS_LABEL, _TRY_LABEL = "tfx_gnn_task", "tfx_gnn_outputs", "tfx_gnn_try"
_POLL_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Waits between questions for the state; the last one for good."""
_TRIAL_POLL_SECONDS = (0.2,)
_MESSAGE_FLAG = "--executor-input"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_REPLICA = re.compile(r"workerpool(?P<pool>\d+)-(?P<index>\d+)")
"""Name of a replica in Vertex AI's messages."""
_REMEDIES = Remedies(
    flag="custom_job",
    login="Tasks have credentials of their own on Vertex AI: give the run a service account by --service-account.",
    permission="Give the account of the pipeline the role roles/aiplatform.user in the project "
    "(aiplatform.customJobs.create), and roles/iam.serviceAccountUser on the account that the job runs as, even if it "
    "is the same one (iam.serviceAccounts.actAs).",
    lookup="Check that the region of the run has custom jobs.",
    certificate="Name a file with the certificate authority of your proxy in REQUESTS_CA_BUNDLE.",
)


class CustomJobError(RuntimeError):
    """A custom job ended without success."""


class Interrupted(BaseException):
    """The task was asked to end. No Exception, so that nothing on the way takes it for a failure of its own."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.name = signal.Signals(number).name
        self.exit_code = 128 + number


@dataclasses.dataclass(frozen=True, kw_only=True)
class Assignment:
    """What a coordinator is to do.

    Attributes:
        task: name of the task, for people.
        body: the custom job (CustomJob), as JSON.
    """

    task: str
    body: Mapping[str, Any]

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of the job."""
        labels: Mapping[str, str] = self.body["labels"]
        return labels


def main(arguments: Sequence[str]) -> int:
    """Starts a custom job and follows it to its end; returns the exit code of the container."""
    given = _parse(arguments)
    try:
        with _interruptible(), contextlib.redirect_stderr(sys.stdout):
            assignment = read_assignment(given, os.environ.get(RUN_LABELS_VARIABLE, ""))
            connection = ConnectionOptions(
                project=given.project,
                region=given.location,
                endpoint=checked_address(ENDPOINT_VARIABLE, os.environ.get(ENDPOINT_VARIABLE, "")),
            )
            coordinate(assignment, CustomJobs(connection, report=_say))
    except Interrupted as stop:
        _say(f"{given.task} was cancelled by {stop.name}")
        return stop.exit_code
    except Exception as error:  # noqa: BLE001 - whatever it is, the log ends with it
        if not isinstance(error, (CustomJobError, ServiceError)):
            _say("".join(traceback.format_exception(error)).rstrip())
        # Last, because it is what a person is shown first.
        _say(f"{given.task} failed: {type(error).__name__}: {one_line(error)}")
        return 1
    return 0


def read_assignment(given: argparse.Namespace, run_labels: str) -> Assignment:
    """Makes the job from the arguments.

    Args:
        given: the arguments, in which the service has replaced what was in double braces.
        run_labels: labels of the run, as a JSON object; empty for none.

    Raises:
        ValueError: if the service has left out something.
    """
    for name in ("project", "location", "run", "task", "service_account", "network", "encryption_key"):
        if "{{$" in getattr(given, name):
            remedy = f", or name `{name}` in `custom_job`" if name in ("service_account", "network") else ""
            raise ValueError(
                f"`--{name.replace('_', '-')}` must be filled in by Vertex AI; got {getattr(given, name)!r}. Run this "
                f"pipeline there, or here with --runner spec --semantics vertex{remedy}."
            )
    container = list(given.container)
    place = container.index(_MESSAGE_FLAG) + 1
    message = json.loads(container[place])
    uris = sorted(found["uri"] for output in message["outputs"]["artifacts"].values() for found in output["artifacts"])
    container[place] = pack_message(container[place])
    spec = json.loads(given.job)
    for pool in spec["workerPoolSpecs"]:
        pool["containerSpec"]["args"] = container
    if given.service_account:
        spec["serviceAccount"] = given.service_account
    if given.network:
        spec["network"] = given.network
    run = given.run.rpartition("/")[2]
    body: dict[str, Any] = {
        "displayName": f"{run}-{given.task}"[:MAX_NAME_LENGTH],
        "jobSpec": spec,
        "labels": {
            **_read_labels(run_labels),
            "tfx_gnn_run": re.sub(r"[^a-z0-9_-]", "-", run.lower())[:63],
            _TASK_LABEL: _hash(given.run, given.task),
            _OUTPUTS_LABEL: _hash(*uris),
            _TRY_LABEL: _hash(uuid.uuid4().hex),
        },
    }
    if given.encryption_key:
        body["encryptionSpec"] = {"kmsKeyName": given.encryption_key}
    return Assignment(task=given.task, body=body)


class CustomJobs:
    """The custom jobs of one project and region.

    Args:
        connection: project and region; with an address, that is used without login.
        report: is told what happens.
    """

    def __init__(self, connection: ConnectionOptions, *, report: Callable[[str], None]) -> None:
        credentials = None
        self.poll_seconds: Sequence[float] = _POLL_SECONDS
        if connection.endpoint:
            from google.auth.credentials import AnonymousCredentials

            make: Any = AnonymousCredentials
            credentials = make()
            self.poll_seconds = _TRIAL_POLL_SECONDS
        self.report = report
        self._has_pages = connection.project != LOCAL_PROJECT
        self._parent = parent_name(connection)
        self._retries = Retries(policy=PATIENT, report=report)
        self._api = VertexApi(
            connection, self._retries, _REMEDIES, address_flag=_REMEDIES.flag, credentials=credentials
        )
        self._client = self._api.client("JobServiceClient", self._parent)

    def create(self, body: Mapping[str, Any]) -> Any:
        """Creates a job, once; its label of this try finds it where the answer was lost."""
        from google.protobuf import json_format

        try:
            message = client_library().CustomJob.from_json(json.dumps(body))
        except json_format.ParseError as error:
            raise ValueError(
                f"`custom_job` must be one that the installed client of Vertex AI knows; got {one_line(error)} Correct "
                "`resources.yaml`, or install a newer google-cloud-aiplatform in the image."
            ) from error

        def create() -> Any:
            # An interruption must not lose the name of a job that was just made.
            with _interruptions_wait():
                return self._api.call(
                    lambda: self._client.create_custom_job(
                        parent=self._parent, custom_job=message, retry=None, timeout=TIMEOUT
                    ),
                    f"POST {self._parent}/customJobs",
                )

        def find() -> Any:
            return next(iter(self.find(_TRY_LABEL, body["labels"][_TRY_LABEL])), None)

        job = self._retries.create_once(create, find)
        check_name(job)
        return job

    def place(self, job: Any) -> str:
        """Returns the name of a job with the address of its page, where it has one."""
        return f"{job.name} ({page_address(job.name)})" if self._has_pages else str(job.name)

    def get(self, name: str) -> Any:
        """Asks for a job."""
        job = self._api.repeat(
            lambda: self._client.get_custom_job(name=name, retry=None, timeout=TIMEOUT), f"GET {name}"
        )
        check_name(job)
        return job

    def find(self, label: str, value: str) -> list[Any]:
        """Lists the jobs with a label, oldest first."""
        request = {"parent": self._parent, "filter": f"labels.{label}={value}"}
        found = self._api.repeat(
            lambda: list(self._client.list_custom_jobs(request=request, retry=None, timeout=TIMEOUT)),
            f"GET {self._parent}/customJobs",
        )
        return sorted(found, key=lambda job: (job.create_time.timestamp() if job.create_time else 0.0, job.name))

    def cancel(self, job: Any, reason: str) -> None:
        """Cancels a job and waits until it has ended; one that has ended meanwhile counts as cancelled."""
        self.report(f"cancels the custom job {job.name}: {reason}")
        try:
            self._api.repeat(
                lambda: self._client.cancel_custom_job(name=job.name, retry=None, timeout=TIMEOUT),
                f"POST {job.name}:cancel",
            )
        except ServiceError as error:
            if error.status not in (400, 409) or not _state(self.get(job.name)).is_final:
                raise
        self.follow(job.name)

    def follow(self, name: str) -> Any:
        """Waits until a job has ended, and tells each state; returns the job."""
        waits = iter(self.poll_seconds)
        wait = next(waits)
        told = None
        while True:
            job = self.get(name)
            state = _state(job)
            if state is not told:
                told = state
                self.report(f"the custom job {name} is {state.value}")
            if state.is_final:
                return job
            time.sleep(wait)
            wait = next(waits, wait)


def coordinate(assignment: Assignment, jobs: CustomJobs) -> None:
    """Makes sure that there is one job for the outputs of a task, and follows it.

    Raises:
        CustomJobError: if the job ended without success.
        ServiceError: if the service refused something.
        Interrupted: if the task was asked to end; its jobs were cancelled before.
    """
    try:
        job = _find_or_create(assignment, jobs)
        job = jobs.follow(job.name)
    except Interrupted as stop:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        for job in jobs.find(_TASK_LABEL, assignment.labels[_TASK_LABEL]):
            if not _state(job).is_final:
                jobs.cancel(job, f"its task got {stop.name}")
        raise
    if _state(job) is not RunState.SUCCEEDED:
        raise CustomJobError(_describe_failure(job, jobs.place(job)))


def _find_or_create(assignment: Assignment, jobs: CustomJobs) -> Any:
    """Returns the job that writes the outputs: one that runs or has succeeded, or a new one."""
    leader = _leader(assignment, jobs)
    if leader is not None:
        jobs.report(f"goes on with the custom job {jobs.place(leader)}, which an earlier attempt started")
        return leader
    created = jobs.create(assignment.body)
    jobs.report(f"started the custom job {jobs.place(created)}")
    # Another coordinator for the same outputs may have been as fast: the one that was started first stays.
    leader = _leader(assignment, jobs) or created
    if leader.name != created.name:
        jobs.report(f"goes on with the custom job {jobs.place(leader)}, which another attempt started before")
    return leader


def _leader(assignment: Assignment, jobs: CustomJobs) -> Any | None:
    """Returns the job that an attempt has started for these outputs, and cancels all others of the task."""
    outputs = assignment.labels[_OUTPUTS_LABEL]
    leader = None
    others = []
    for job in jobs.find(_TASK_LABEL, assignment.labels[_TASK_LABEL]):
        state = _state(job)
        is_usable = state is RunState.SUCCEEDED or not (state.is_final or state is RunState.CANCELLING)
        if leader is None and job.labels.get(_OUTPUTS_LABEL) == outputs and is_usable:
            leader = job
        elif not state.is_final:
            others.append(job)
    for job in others:
        if _state(job) is RunState.CANCELLING:
            jobs.follow(job.name)
        else:
            jobs.cancel(job, "another attempt of its task has taken over")
    return leader


def _describe_failure(job: Any, place: str) -> str:
    said = " ".join(job.error.message.split()) if job.error else ""
    replica = _REPLICA.search(said)
    where = ""
    if replica is not None:
        where = " in the chief" if replica["pool"] == "0" else f" in worker {replica['index']}"
    reason = said.rstrip(".") or "the service gives no reason"
    return f"the custom job {place} is {_state(job).value}{where}: {reason}"


def _state(job: Any) -> RunState:
    """Translates the state of a job; one that is newer than the client is a plain number."""
    return run_state(getattr(job.state, "name", "")) if job.state else RunState.PENDING


def _read_labels(text: str) -> dict[str, str]:
    try:
        labels = json.loads(text or "{}")
    except ValueError:
        labels = None
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise ValueError(
            f"`{RUN_LABELS_VARIABLE}` must be a JSON object of texts, as Vertex AI sets it; got {text!r}. Leave it out "
            "of `environment`."
        )
    return labels


def _hash(*texts: str) -> str:
    # A letter first, so that a filter takes it for no number.
    return "h" + hashlib.sha256("\n".join(texts).encode()).hexdigest()[:40]


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Raises `Interrupted` where the process gets a signal to end."""

    def interrupt(number: int, _frame: Any) -> None:
        raise Interrupted(number)

    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _interruptions_wait() -> Iterator[None]:
    """Leaves signals to end for later."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tfx_gnn_pipelines.submission.custom_jobs", description=main.__doc__
    )
    parser.add_argument("--job", required=True, help="specification of the job (CustomJobSpec), as JSON")
    parser.add_argument("--project", required=True, help="project of Google Cloud")
    parser.add_argument("--location", required=True, help="region of Vertex AI")
    parser.add_argument("--run", required=True, help="name of the run of the pipeline")
    parser.add_argument("--task", required=True, help="name of the task")
    parser.add_argument("--service-account", default="", help="account that the replicas run as")
    parser.add_argument("--network", default="", help="network of the replicas")
    parser.add_argument("--encryption-key", default="", help="key for the data of the job")
    # Cut off before, because they have a -- of their own.
    own, rest = list(arguments), []
    if "--" in own:
        own, rest = own[: own.index("--")], own[own.index("--") + 1 :]
    given = parser.parse_args(own)
    if _MESSAGE_FLAG not in rest[:-1]:
        parser.error(f"the arguments of the component's container must follow after --, with {_MESSAGE_FLAG}")
    given.container = rest
    return given


if __name__ == "__main__":
    quiet_start()
    sys.exit(main(sys.argv[1:]))
