"""Runs and schedules on Kubeflow Pipelines, through the API client that kfp itself uses.

`kfp.Client` is not used: it prints what it does, waits for a service without a limit, tries its first request five
times whatever went wrong, and takes any HTML page for a run.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import urllib.parse
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tfx_gnn_pipelines.services import Service
from tfx_gnn_pipelines.submission.connection import ConnectionOptions, Secret, split_run
from tfx_gnn_pipelines.submission.failures import (
    Remedies,
    ServiceError,
    is_html,
    login_page_error,
    status_error,
    transport_error,
)
from tfx_gnn_pipelines.submission.kubeflow_tasks import error_message, task_statuses
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

_API = "/apis/v2beta1"
_TIMEOUTS = (15, 120)
"""Seconds for a connection, and for an answer; a large pipeline is checked and stored before the answer."""
_PAGE_SIZE = 100
_MARK = "tfx-gnn submission "
_ROOTS = ("minio://", "s3://", "gs://")
_REMEDIES = Remedies(
    flag="--host",
    login="Write a new token into a file and give --token-file, or the cookies of your login as --cookie-file.",
    permission="Ask an administrator of the cluster for access to the namespace, or give another --namespace.",
    lookup="Check the id, --host and --namespace.",
    certificate="Give the file of its certificate authority as --ca-cert.",
)


def run_request(pipeline: Any, options: RunOptions, connection: ConnectionOptions, *, experiment_id: str) -> Request:
    """Builds the request that starts a run.

    Args:
        pipeline: a CompiledPipeline.
        options: how to run it.
        connection: the service; its host may be empty.
        experiment_id: id of the experiment.
    """
    _check_options(options)
    body: dict[str, Any] = {
        "display_name": options.name,
        "description": _description(options),
        "experiment_id": experiment_id,
        "pipeline_spec": _specification(pipeline, use_cache=options.use_cache),
        "runtime_config": {"parameters": dict(options.parameters)},
    }
    if options.root:
        body["runtime_config"]["pipeline_root"] = options.root
    if options.service_account:
        body["service_account"] = options.service_account
    return Request(method="POST", url=f"{connection.host}{_API}/runs", body=body)


def schedule_request(
    pipeline: Any, options: RunOptions, schedule: ScheduleOptions, connection: ConnectionOptions, *, experiment_id: str
) -> Request:
    """Builds the request that creates a recurring run, as Kubeflow calls a schedule.

    Raises:
        ValueError: if a time zone is given: a recurring run has none.
    """
    if schedule.timezone:
        raise ValueError(
            "`--timezone` must be left out on kubeflow, whose controller has one time zone for all schedules, UTC if "
            f"it was not set up otherwise; got {schedule.timezone!r}. Write --cron in that time zone."
        )
    # Kubeflow's cron has a field for seconds before the usual five.
    cron: dict[str, Any] = {"cron": f"0 {' '.join(schedule.cron.split())}"}
    for name, time in (("start_time", schedule.start), ("end_time", schedule.end)):
        if time is not None:
            cron[name] = time.isoformat()
    run = run_request(pipeline, options, connection, experiment_id=experiment_id)
    body = {
        **run.body,
        "trigger": {"cron_schedule": cron},
        "max_concurrency": str(schedule.max_concurrent_runs),
        "mode": "ENABLE",
        "no_catchup": True,
    }
    return Request(method="POST", url=f"{connection.host}{_API}/recurringruns", body=body)


def experiment_name(options: RunOptions) -> str:
    """Returns the experiment of a run; its default is that of kfp's own client."""
    return options.experiment or os.environ.get("KF_PIPELINES_DEFAULT_EXPERIMENT_NAME") or "Default"


class Kubeflow(PipelineService):
    """Kubeflow Pipelines at one address."""

    service = Service.KUBEFLOW

    def __init__(self, options: ConnectionOptions, retries: Retries) -> None:
        if not options.host:
            raise ValueError(
                "`--host` must name the address of Kubeflow Pipelines; got none. Give, for example, --host "
                "http://localhost:8888 after `kubectl port-forward -n kubeflow svc/ml-pipeline 8888:8888`, or set "
                "KF_PIPELINES_ENDPOINT."
            )
        self._options = options
        self._retries = retries
        self._secrets = [
            Secret(flag, path)
            for flag, path in (("--token-file", options.token_file), ("--cookie-file", options.cookie_file))
            if path
        ]
        self._client = _api_client(options)

    def submit(self, pipeline: Any, options: RunOptions) -> RunStatus:
        """Starts one run of a compiled pipeline."""
        # A run that cannot be is refused before an experiment is made for it.
        run_request(pipeline, options, self._options, experiment_id="")
        experiment_id = self._experiment_id(experiment_name(options))
        request = run_request(pipeline, options, self._options, experiment_id=experiment_id)
        created = self._create(request, "runs", options, experiment_id)
        return self._run_status(_named(created, "run_id", self._place("POST", f"{_API}/runs")))

    def status(self, run: str) -> RunStatus:
        """Asks for the state of a run."""
        path = f"{_API}/runs/{_quoted(split_run(run)[1])}"
        found = self._retries.repeat(lambda: self._call("GET", path))
        return self._run_status(_named(found, "run_id", self._place("GET", path)))

    def logs(self, run: RunStatus, tasks: Sequence[TaskStatus]) -> list[TaskLog]:
        """Asks for the logs of the pods of tasks.

        Version 2 of the API has no logs; servers answer with them under an address of version 1 while the pod exists
        or where they keep an archive.
        """
        return [self._task_log(run, task) for task in tasks]

    def cancel(self, run: str) -> None:
        """Asks the service to end a run."""
        path = f"{_API}/runs/{_quoted(split_run(run)[1])}:terminate"
        self._retries.repeat(lambda: self._call("POST", path))

    def create_schedule(self, pipeline: Any, options: RunOptions, schedule: ScheduleOptions) -> ScheduleStatus:
        """Creates one recurring run."""
        # A schedule that cannot be is refused before an experiment is made for it.
        schedule_request(pipeline, options, schedule, self._options, experiment_id="")
        experiment_id = self._experiment_id(experiment_name(options))
        request = schedule_request(pipeline, options, schedule, self._options, experiment_id=experiment_id)
        created = self._create(request, "recurringruns", options, experiment_id)
        return self._schedule_status(_named(created, "recurring_run_id", self._place("POST", f"{_API}/recurringruns")))

    def list_schedules(self) -> list[ScheduleStatus]:
        """Lists all recurring runs."""
        query = {"namespace": self._options.namespace} if self._options.namespace else {}
        place = self._place("GET", f"{_API}/recurringruns")
        return [
            self._schedule_status(_named(found, "recurring_run_id", place))
            for found in self._list("recurringruns", query)
        ]

    def change_schedule(self, schedule: str, change: str) -> None:
        """Pauses, resumes or deletes a recurring run."""
        path = f"{_API}/recurringruns/{_quoted(split_run(schedule)[1])}"
        if change != "delete":
            path += {"pause": ":disable", "resume": ":enable"}[change]
            self._retries.repeat(lambda: self._call("POST", path))
            return
        self._retries.delete(lambda: self._call("DELETE", path))

    def _create(self, request: Request, collection: str, options: RunOptions, experiment_id: str) -> dict[str, Any]:
        """Creates a run or a schedule; after a broken connection it is known by the mark in its description."""
        name = {"operation": "EQUALS", "key": "display_name", "stringValue": options.name}
        query = {
            "experiment_id": experiment_id,
            "filter": json.dumps({"predicates": [name]}),
            "sort_by": "created_at desc",
        }

        def find() -> dict[str, Any] | None:
            mark = f"{_MARK}{options.mark}"
            return next((one for one in self._list(collection, query) if mark in one.get("description", "")), None)

        return self._retries.create_once(
            lambda: self._call("POST", f"{_API}/{collection}", body=request.body),
            find,
            may_exist=bool(options.submission),
        )

    def _experiment_id(self, name: str) -> str:
        """Finds the experiment of a name, or creates it: a name is taken once, so this can be repeated."""
        predicate = {"operation": "EQUALS", "key": "display_name", "stringValue": name}
        query = {"filter": json.dumps({"predicates": [predicate]})}
        body: dict[str, Any] = {"display_name": name}
        if self._options.namespace:
            query["namespace"] = body["namespace"] = self._options.namespace

        def find() -> dict[str, Any] | None:
            return next((one for one in self._list("experiments", query) if one.get("display_name") == name), None)

        found = find()
        if found is None:
            path = f"{_API}/experiments"
            try:
                found = self._retries.create_once(
                    lambda: self._call("POST", path, body=body), find, may_repeat_unanswered=True
                )
            except ServiceError as error:
                # Somebody else was faster.
                found = find() if error.status == 409 else None
                if found is None:
                    raise
        return str(_named(found, "experiment_id", self._place("POST", f"{_API}/experiments"))["experiment_id"])

    def _list(self, collection: str, query: Mapping[str, str]) -> list[dict[str, Any]]:
        """Reads all pages of a list."""
        found: list[dict[str, Any]] = []
        token = ""
        while True:
            parameters = {**query, "page_size": str(_PAGE_SIZE), **({"page_token": token} if token else {})}
            path = f"{_API}/{collection}"
            page = self._retries.repeat(functools.partial(self._call, "GET", path, query=parameters))
            found += next((page[name] for name in _LIST_NAMES[collection] if page.get(name)), [])
            token = page.get("next_page_token") or ""
            if not token:
                return found

    def _call(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None
    ) -> dict[str, Any]:
        """Makes one request, and returns the message of the answer."""
        answer = self._exchange(method, path, query=query, body=body)
        found: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(answer or "{}")
        if not isinstance(found, dict):
            if is_html(answer):
                raise login_page_error(200, place=self._place(method, path), remedies=_REMEDIES)
            raise ServiceError(
                f"`--host` must be the address of Kubeflow Pipelines; got an answer that is no message from "
                f"{self._place(method, path)}: {self._hide(answer[:100])!r}. Correct the address.",
                reason="the answer was no message",
                # An answer that was cut off in the middle is one of the service, too.
                may_be_accepted=True,
            )
        return found

    def _read_log(self, path: str) -> str:
        try:
            return self._exchange("GET", path, may_be_garbled=True)
        except ServiceError as error:
            # So the service answers for a pod that is gone; it stays gone.
            error.is_transient = error.is_transient and error.status != 500
            raise

    def _exchange(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        may_be_garbled: bool = False,
    ) -> str:
        """Makes one request, and returns the text of the answer; bytes that are no text are replaced if they may be."""
        import kfp_server_api
        from urllib3.exceptions import HTTPError

        self._use_secrets()
        place = self._place(method, path)
        try:
            self._client.call_api(
                path,
                method,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", "Content-Type": "application/json"},
                body=body,
                response_type="str",
                auth_settings=["Bearer"],
                _return_http_data_only=True,
                _request_timeout=_TIMEOUTS,
            )
        except kfp_server_api.ApiException as error:
            # The client's own text repeats all headers of the answer, with cookies that it sets.
            raise status_error(
                int(error.status or 0),
                error.body or str(error.reason or ""),
                dict(error.headers or {}),
                place=place,
                remedies=_REMEDIES,
                hide=self._hide,
            ) from None
        except (HTTPError, OSError) as error:
            raise transport_error(error, place=place, remedies=_REMEDIES, hide=self._hide) from error
        except UnicodeDecodeError as error:
            if may_be_garbled and error.__context__ is None:
                return str(error.object, error.encoding, "replace")
            refused: Any = error.__context__
            if isinstance(refused, kfp_server_api.ApiException):
                # Such as a proxy's page in another encoding.
                raise status_error(
                    int(refused.status or 0),
                    str(error.object, error.encoding, "replace"),
                    dict(refused.headers or {}),
                    place=place,
                    remedies=_REMEDIES,
                    hide=self._hide,
                ) from None
            raise ServiceError(
                f"`--host` must be the address of Kubeflow Pipelines; got an answer that is no text from {place}. "
                "Correct the address.",
                reason="the answer was no text",
                may_be_accepted=True,
            ) from error
        return str(self._client.last_response.data)

    def _use_secrets(self) -> None:
        for secret in self._secrets:
            if secret.flag == "--token-file":
                self._client.configuration.api_key["authorization"] = secret.read()
            else:
                self._client.cookie = secret.read()

    def _hide(self, text: str) -> str:
        for secret in self._secrets:
            text = secret.hide(text)
        return text

    def _place(self, method: str, path: str) -> str:
        return f"{method} {self._options.host}{path}"

    def _page(self, kind: str, key: str) -> str:
        host = os.environ.get("KF_PIPELINES_UI_ENDPOINT") or self._options.host
        return f"{host.rstrip('/')}/#/{kind}/details/{key}"

    def _run_status(self, run: Mapping[str, Any]) -> RunStatus:
        return RunStatus(
            run=str(run["run_id"]),
            name=run.get("display_name") or "",
            # A run that was only just made has none yet.
            state=run_state(run["state"]) if run.get("state") else RunState.PENDING,
            page=self._page("runs", run["run_id"]),
            error=error_message(run),
            tasks=task_statuses(run),
        )

    def _schedule_status(self, found: Mapping[str, Any]) -> ScheduleStatus:
        status = str(found.get("status") or found.get("mode") or "")
        trigger = (found.get("trigger") or {}).get("cron_schedule") or {}
        return ScheduleStatus(
            schedule=str(found["recurring_run_id"]),
            name=found.get("display_name") or "",
            is_active=status.startswith("ENABLE"),
            cron=trigger.get("cron") or "",
            page=self._page("recurringrun", found["recurring_run_id"]),
        )

    def _task_log(self, run: RunStatus, task: TaskStatus) -> TaskLog:
        texts, notes = [], []
        for pod in task.jobs:
            path = f"/apis/v1alpha1/runs/{_quoted(run.run)}/nodes/{_quoted(pod)}/log"
            try:
                text = self._retries.repeat(functools.partial(self._read_log, path))
            except ServiceError as error:
                if not error.status or error.status == 401:
                    raise
                notes.append(f"the service has no log of pod {pod}: {error.reason}")
                continue
            if is_html(text):
                notes.append(f"the service has no log of pod {pod}: it answered an HTML page")
                continue
            texts.append(text)
        if not texts:
            namespace = self._options.namespace or "kubeflow"
            notes.append(
                f"while its pods exist: kubectl logs -n {namespace} -l pipeline/runid={run.run} -c main --prefix "
                "--tail=-1"
            )
        if task.logs_uri:
            notes.append(f"log as an artifact: {task.logs_uri}")
        return TaskLog(task=task, text="".join(texts), notes=tuple(notes))


_LIST_NAMES = {
    "runs": ("runs",),
    "experiments": ("experiments",),
    "recurringruns": ("recurringRuns", "recurring_runs"),
}


def _api_client(options: ConnectionOptions) -> Any:
    import kfp_server_api
    import urllib3

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        configuration = kfp_server_api.Configuration(host=options.host)
    configuration.api_key_prefix["authorization"] = "Bearer"
    if options.ca_cert:
        if not os.path.isfile(options.ca_cert):
            raise FileNotFoundError(
                f"`--ca-cert` must name a file with certificates in PEM form; got {options.ca_cert!r}, no such file. "
                "Check the path."
            )
        configuration.ssl_ca_cert = options.ca_cert
    configuration.proxy, configuration.proxy_headers = _proxy(options.host)
    # What is tried again is decided here alone, and with its reason printed.
    configuration.retries = urllib3.Retry(total=0)
    client = kfp_server_api.ApiClient(configuration)
    # A redirection is told, not followed: on another host or scheme it would lose the token, or reach a login page.
    pool = client.rest_client.pool_manager
    pool.urlopen = functools.partial(pool.urlopen, redirect=False)
    return client


def _proxy(address: str) -> tuple[str | None, dict[str, str] | None]:
    """Returns the proxy for an address, by HTTPS_PROXY, NO_PROXY and the like, and the headers of its login."""
    import requests.utils
    import urllib3

    parts = urllib.parse.urlsplit(address)
    # A forwarded port is of this machine, which a proxy does not reach.
    is_here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    proxy = None if is_here else requests.utils.select_proxy(address, requests.utils.get_environ_proxies(address))
    if not proxy:
        return None, None
    proxy = requests.utils.prepend_scheme_if_needed(proxy, "http")
    user, password = requests.utils.get_auth_from_url(proxy)
    return proxy, urllib3.make_headers(proxy_basic_auth=f"{user}:{password}") if user else None


def _check_options(options: RunOptions) -> None:
    if options.root and not options.root.startswith(_ROOTS):
        raise ValueError(
            f"`--root` must be on an object store for kubeflow; got {options.root!r}. Give {' or '.join(_ROOTS)} with "
            "bucket and folder, or leave it out for the cluster's default."
        )
    for flag, value in (("--network", options.network), ("--encryption-key", options.encryption_key)):
        if value:
            raise ValueError(
                f"`{flag}` must go with vertex; got it for kubeflow. Leave it out: a cluster has its own network and "
                "keys."
            )


def _description(options: RunOptions) -> str:
    """Holds the labels, which runs of Kubeflow do not have, and the mark of the submission."""
    labels = ", ".join(f"{name}={value}" for name, value in options.labels.items())
    return f"{labels + '; ' if labels else ''}{_MARK}{options.mark}"


def _specification(pipeline: Any, *, use_cache: bool) -> dict[str, Any]:
    spec = dict(pipeline.spec) if use_cache else without_cache(pipeline.spec)
    return {"pipeline_spec": spec, "platform_spec": dict(pipeline.platforms)} if pipeline.platforms else spec


def _named(found: dict[str, Any], key: str, place: str) -> dict[str, Any]:
    if not found.get(key):
        raise ServiceError(
            f"`--host` must be the address of Kubeflow Pipelines; got an answer without {key} from {place}. Correct "
            "the address.",
            reason="the answer was no message of Kubeflow Pipelines",
        )
    return found


def _quoted(key: str) -> str:
    return urllib.parse.quote(key, safe="")
