"""Runs and schedules on Vertex AI Pipelines, through Google's client of its API.

The client of the API is used, not `aiplatform.PipelineJob`, whose `submit` asks for the bucket first and cannot be
repeated safely. It speaks HTTP and not gRPC: proxies let it pass, and each failure has a status of HTTP.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import urllib.parse
import warnings
from collections.abc import Sequence
from typing import Any

from tfx_gnn_pipelines.services import Service
from tfx_gnn_pipelines.submission.connection import ConnectionOptions
from tfx_gnn_pipelines.submission.failures import Remedies, ServiceError
from tfx_gnn_pipelines.submission.retries import Retries
from tfx_gnn_pipelines.submission.runs import (
    PipelineService,
    Request,
    RunOptions,
    RunState,
    RunStatus,
    ScheduleOptions,
    ScheduleStatus,
    TaskLog,
    TaskStatus,
    run_state,
    without_cache,
)
from tfx_gnn_pipelines.submission.vertex_api import TIMEOUT, VertexApi, check_message, check_name, client_library
from tfx_gnn_pipelines.submission.vertex_experiments import (
    add_to_experiment,
    check_experiment_name,
    find_or_create_experiment,
)
from tfx_gnn_pipelines.submission.vertex_names import CONSOLE, endpoint_address, full_name, page_address, parent_name

_MARK = "tfx-gnn-submission"
"""Label of what one submission created."""
_NETWORK = re.compile(r"projects/[^/]+/global/networks/[^/]+")
_KEY = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")
_REMEDIES = Remedies(
    flag="--project",
    login="Run `gcloud auth application-default login`, or write a new access token into a file and give --token-file.",
    permission="Ask for the role roles/aiplatform.user in the project, and, with --service-account, for the right to "
    "act as that account; or enable the API aiplatform.googleapis.com.",
    lookup="Check the id, --project and --region.",
    certificate="Name a file with the certificate authority of your proxy in REQUESTS_CA_BUNDLE.",
)


def run_request(pipeline: Any, options: RunOptions, connection: ConnectionOptions) -> Request:
    """Builds the request that starts a run, whose id makes it safe to be sent twice.

    Args:
        pipeline: a CompiledPipeline.
        options: how to run it.
        connection: the service, with project and region.
    """
    parent = parent_name(connection)
    job = _job(pipeline, options)
    job_id = _job_id(pipeline.name, options)
    check_message("PipelineJob", job)
    return Request(
        method="POST",
        url=f"{endpoint_address(connection)}/v1/{parent}/pipelineJobs?pipelineJobId={job_id}",
        body=job,
    )


def schedule_request(
    pipeline: Any, options: RunOptions, schedule: ScheduleOptions, connection: ConnectionOptions
) -> Request:
    """Builds the request that creates a schedule."""
    if options.experiment:
        raise ValueError(
            f"`--experiment` must be left out of a schedule on vertex, which has none; got {options.experiment!r}. "
            "Give --labels, and filter runs by them."
        )
    parent = parent_name(connection)
    cron = " ".join(schedule.cron.split())
    body: dict[str, Any] = {
        "displayName": options.name,
        "cron": f"CRON_TZ={schedule.timezone} {cron}" if schedule.timezone else cron,
        "maxConcurrentRunCount": str(schedule.max_concurrent_runs),
        "createPipelineJobRequest": {"parent": parent, "pipelineJob": _job(pipeline, options)},
    }
    for name, time in (("startTime", schedule.start), ("endTime", schedule.end)):
        if time is not None:
            body[name] = time.astimezone(dt.timezone.utc).isoformat().replace("+00:00", "Z")
    check_message("Schedule", body)
    return Request(method="POST", url=f"{endpoint_address(connection)}/v1/{parent}/schedules", body=body)


class VertexAi(PipelineService):
    """Vertex AI Pipelines in one project and region."""

    service = Service.VERTEX

    def __init__(self, options: ConnectionOptions, retries: Retries) -> None:
        self._options = options
        self._retries = retries
        self._api = VertexApi(options, retries, _REMEDIES)

    def submit(self, pipeline: Any, options: RunOptions) -> RunStatus:
        """Starts one run of a compiled pipeline."""
        aiplatform = client_library()
        request = run_request(pipeline, options, self._options)
        parent = parent_name(self._options)
        job_id = _job_id(pipeline.name, options)
        name = f"{parent}/pipelineJobs/{job_id}"
        message = aiplatform.PipelineJob.from_json(json.dumps(request.body))
        client = self._api.client("PipelineServiceClient", name)

        def create() -> Any:
            return self._api.call(
                lambda: client.create_pipeline_job(
                    parent=parent, pipeline_job=message, pipeline_job_id=job_id, retry=None, timeout=TIMEOUT
                ),
                f"POST {name}",
            )

        def find() -> Any:
            try:
                return self._api.repeat(
                    lambda: client.get_pipeline_job(name=name, retry=None, timeout=TIMEOUT), f"GET {name}"
                )
            except ServiceError as error:
                if error.status == 404:
                    return None
                raise

        experiment = self._experiment(parent, options.experiment) if options.experiment else ""
        job = self._retries.create_once(create, find, may_repeat_unanswered=True, may_exist=bool(options.submission))
        if experiment:
            self._add_to_experiment(experiment, job.name)
        return self._run_status(job)

    def status(self, run: str) -> RunStatus:
        """Asks for the state of a run."""
        name = full_name(run, "pipelineJobs", self._options)
        client = self._api.client("PipelineServiceClient", name)
        return self._run_status(
            self._api.repeat(lambda: client.get_pipeline_job(name=name, retry=None, timeout=TIMEOUT), f"GET {name}")
        )

    def logs(self, run: RunStatus, tasks: Sequence[TaskStatus]) -> list[TaskLog]:
        """Says where the logs of tasks are: in Cloud Logging, which the API of Vertex AI does not hand out."""
        return [self._task_log(run, task) for task in tasks]

    def cancel(self, run: str) -> None:
        """Asks the service to end a run."""
        name = full_name(run, "pipelineJobs", self._options)
        client = self._api.client("PipelineServiceClient", name)
        self._api.repeat(
            lambda: client.cancel_pipeline_job(name=name, retry=None, timeout=TIMEOUT), f"POST {name}:cancel"
        )

    def create_schedule(self, pipeline: Any, options: RunOptions, schedule: ScheduleOptions) -> ScheduleStatus:
        """Creates one schedule of a compiled pipeline."""
        aiplatform = client_library()
        request = schedule_request(pipeline, options, schedule, self._options)
        parent = parent_name(self._options)
        message = aiplatform.Schedule.from_json(json.dumps(request.body))
        client = self._api.client("ScheduleServiceClient", parent)

        def create() -> Any:
            return self._api.call(
                lambda: client.create_schedule(parent=parent, schedule=message, retry=None, timeout=TIMEOUT),
                f"POST {parent}/schedules",
            )

        def find() -> Any:
            return next(
                (
                    found
                    for found in self._schedules(parent)
                    if found.create_pipeline_job_request.pipeline_job.labels.get(_MARK) == options.mark
                ),
                None,
            )

        return self._schedule_status(self._retries.create_once(create, find))

    def list_schedules(self) -> list[ScheduleStatus]:
        """Lists all schedules of the project and region."""
        return [self._schedule_status(found) for found in self._schedules()]

    def change_schedule(self, schedule: str, change: str) -> None:
        """Pauses, resumes or deletes a schedule."""
        name = full_name(schedule, "schedules", self._options)
        client = self._api.client("ScheduleServiceClient", name)
        if change == "delete":
            # The answer is an operation whose end nobody needs to wait for.
            self._retries.delete(
                lambda: self._api.call(
                    lambda: client.delete_schedule(name=name, retry=None, timeout=TIMEOUT), f"DELETE {name}"
                )
            )
            return
        method = client.pause_schedule if change == "pause" else client.resume_schedule
        self._api.repeat(lambda: method(name=name, retry=None, timeout=TIMEOUT), f"POST {name}:{change}")

    def _experiment(self, parent: str, name: str) -> str:
        client = self._api.client("MetadataServiceClient", parent)
        return find_or_create_experiment(parent, name, client=client, call=self._api.call, retries=self._retries)

    def _add_to_experiment(self, experiment: str, run: str) -> None:
        client = self._api.client("PipelineServiceClient", run)
        try:
            add_to_experiment(
                experiment,
                lambda: self._api.repeat(
                    lambda: client.get_pipeline_job(name=run, retry=None, timeout=TIMEOUT), f"GET {run}"
                ),
                client=self._api.client("MetadataServiceClient", run),
                call=self._api.call,
                retries=self._retries,
            )
        except ServiceError as error:
            raise ServiceError(f"{error} The run was started: {run}.", reason=error.reason) from error

    def _schedules(self, parent: str = "") -> list[Any]:
        parent = parent or parent_name(self._options)
        client = self._api.client("ScheduleServiceClient", parent)
        return self._api.repeat(
            lambda: list(client.list_schedules(parent=parent, retry=None, timeout=TIMEOUT)), f"GET {parent}/schedules"
        )

    def _run_status(self, job: Any) -> RunStatus:
        check_name(job)
        details = job.job_detail.task_details if job.job_detail else []
        parents = {detail.parent_task_id for detail in details}
        return RunStatus(
            run=job.name,
            name=job.display_name,
            state=_state(job),
            page=page_address(job.name),
            error=" ".join(job.error.message.split()) if job.error else "",
            # The pipeline itself, and the DAG of an exit handler, are listed as tasks with others below them.
            tasks=tuple(_task(detail) for detail in details if detail.task_id not in parents or len(details) == 1),
        )

    def _schedule_status(self, found: Any) -> ScheduleStatus:
        check_name(found)
        return ScheduleStatus(
            schedule=found.name,
            name=found.display_name,
            is_active=found.state.name == "ACTIVE",
            cron=found.cron,
            page=page_address(found.name),
            next_run=found.next_run_time.isoformat() if found.next_run_time else "",
        )

    def _task_log(self, run: RunStatus, task: TaskStatus) -> TaskLog:
        notes = []
        for job in task.jobs:
            query = f'resource.type="ml_job" resource.labels.job_id="{job.rpartition("/")[2]}"'
            project = job.split("/")[1]
            address = f"{CONSOLE}/logs/query;query={urllib.parse.quote(query, safe='')}?project={project}"
            notes += [f"Cloud Logging: {address}", f"gcloud logging read '{query}' --project {project}"]
        if not notes:
            reason = "took its outputs from the cache" if task.state is RunState.SKIPPED else "has started no job"
            notes.append(f"no log: the task {reason}; the page of the run says more: {run.page}")
        return TaskLog(task=task, notes=tuple(notes))


def _job_id(pipeline_name: str, options: RunOptions) -> str:
    """Makes an id that is the same for all tries of one submission."""
    name = re.sub(r"[^a-z0-9]+", "-", pipeline_name.lower()).strip("-")[:90]
    return f"{name if name[:1].isalpha() else f'run-{name}'}-{options.mark[:12]}"


def _job(pipeline: Any, options: RunOptions) -> dict[str, Any]:
    if options.experiment:
        check_experiment_name(options.experiment)
    if not options.root.startswith("gs://"):
        raise ValueError(
            f"`--root` must be on Cloud Storage for vertex; got {options.root or 'none'!r}. Give gs://BUCKET/FOLDER."
        )
    for flag, value, pattern, form in (
        ("--network", options.network, _NETWORK, "projects/NUMBER/global/networks/NAME"),
        (
            "--encryption-key",
            options.encryption_key,
            _KEY,
            "projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/KEY",
        ),
    ):
        if value and not pattern.fullmatch(value):
            raise ValueError(f"`{flag}` must have the form {form}; got {value!r}. Write the full name.")
    spec = dict(pipeline.spec) if options.use_cache else without_cache(pipeline.spec)
    if pipeline.platforms:
        raise ValueError(
            "`file` must hold a pipeline for Vertex AI; got one with settings of Kubernetes as a second document. "
            "Compile it with --runner vertex."
        )
    job: dict[str, Any] = {
        "displayName": options.name,
        "pipelineSpec": spec,
        "runtimeConfig": {"gcsOutputDirectory": options.root, "parameterValues": dict(options.parameters)},
        "labels": {**options.labels, _MARK: options.mark},
    }
    if options.service_account:
        job["serviceAccount"] = options.service_account
    if options.network:
        job["network"] = options.network
    if options.encryption_key:
        job["encryptionSpec"] = {"kmsKeyName": options.encryption_key}
    return job


def _task(detail: Any) -> TaskStatus:
    container = detail.executor_detail.container_detail
    custom = detail.executor_detail.custom_job_detail
    jobs = [container.main_job, *container.failed_main_jobs, custom.job, *custom.failed_jobs]
    return TaskStatus(
        name=detail.task_name,
        state=_state(detail),
        error=" ".join(detail.error.message.split()) if detail.error else "",
        jobs=tuple(dict.fromkeys(job for job in jobs if job)),
    )


def _state(message: Any) -> RunState:
    """Translates a state; one that is newer than the client is a plain number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        state = message.state
    return run_state(getattr(state, "name", "")) if state else RunState.PENDING
