"""Commands for runs on Kubeflow Pipelines and Vertex AI: `submit`, `status`, `wait`, `logs`, `cancel`, `schedule`."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfx_gnn.cli import arguments, service_options
from tfx_gnn.cli.errors import ERROR_EXIT_CODE
from tfx_gnn.io.folded_help import FOLDED
from tfx_gnn.io.plain_console import escape_controls
from tfx_gnn.io.suggestions import did_you_mean

if TYPE_CHECKING:
    from tfx_gnn_pipelines.services import Service
    from tfx_gnn_pipelines.submission.connection import ConnectionOptions
    from tfx_gnn_pipelines.submission.runs import PipelineService, RunOptions, RunStatus

_CONNECTION = ("host", "namespace", "token_file", "cookie_file", "ca_cert", "project", "region", "endpoint")


def submit(
    file: service_options.CompiledFile,
    *,
    parameter: service_options.Parameter = None,
    root: service_options.Root = "",
    labels: service_options.Labels = None,
    name: service_options.Name = "",
    submission: service_options.Submission = "",
    service_account: service_options.ServiceAccount = "",
    no_cache: service_options.NoCache = False,
    dry_run: service_options.DryRun = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end, as `wait` does.")] = False,
    poll_seconds: Annotated[service_options.PollSeconds, FOLDED] = 15.0,
    timeout: Annotated[service_options.Timeout, FOLDED] = None,
    as_json: service_options.AsJson = False,
    token_file: service_options.TokenFile = "",
    host: service_options.Host = "",
    namespace: service_options.Namespace = "",
    experiment: service_options.Experiment = "",
    cookie_file: service_options.CookieFile = "",
    ca_cert: service_options.CaCert = "",
    project: service_options.Project = "",
    region: service_options.Region = "",
    network: service_options.Network = "",
    encryption_key: service_options.EncryptionKey = "",
    endpoint: service_options.Endpoint = "",
) -> None:
    """Start a run of a compiled pipeline on Kubeflow Pipelines or Vertex AI.

    A request that may have been accepted before a connection broke is not simply sent again: there is one run, or an
    error. With --wait, exit codes are those of `wait`.
    """
    from tfx_gnn_pipelines.services import Service
    from tfx_gnn_pipelines.submission import kubeflow, vertex

    if timeout is not None and not wait:
        raise ValueError(f"`--timeout` must go with --wait; got {timeout:g} without it. Add --wait, or leave it out.")
    pipeline, service = read_file(file)
    connection = complete_connection(
        service, host, namespace, token_file, cookie_file, ca_cert, project, region, endpoint
    )
    options = make_run_options(
        pipeline,
        parameter,
        labels,
        name=name,
        root=root,
        experiment=experiment,
        service_account=service_account,
        network=network,
        encryption_key=encryption_key,
        use_cache=not no_cache,
        submission=submission,
    )
    if dry_run:
        if service is Service.KUBEFLOW:
            experiment_id = experiment_placeholder(options)
            request = kubeflow.run_request(pipeline, options, connection, experiment_id=experiment_id)
        else:
            request = vertex.run_request(pipeline, options, connection)
        print_request(service, request)
        return
    client = connect_to(service, connection, is_patient=False)
    try:
        status = client.submit(pipeline, options)
    except KeyboardInterrupt as interruption:
        again = "give the same command again" if submission else "look at the list of runs before you submit again"
        message = f"Interrupted. The run {options.name!r} may have been started: {again}."
        raise KeyboardInterrupt(message) from interruption
    if not wait:
        _print_run(status, as_json=as_json)
        return
    _say(f"{status.run}: {status.page}")
    client = connect_to(service, connection, is_patient=True, timeout=timeout)
    _wait(client, status.run, poll_seconds, timeout, as_json=as_json)


def status(
    run: service_options.Run,
    *,
    as_json: service_options.AsJson = False,
    token_file: service_options.TokenFile = "",
    host: service_options.Host = "",
    namespace: service_options.Namespace = "",
    cookie_file: service_options.CookieFile = "",
    ca_cert: service_options.CaCert = "",
    project: service_options.Project = "",
    region: service_options.Region = "",
    endpoint: service_options.Endpoint = "",
) -> None:
    """Show the state of a run and of its tasks."""
    client = client_of_run(run, host, namespace, token_file, cookie_file, ca_cert, project, region, endpoint)
    _print_run(client.status(run), as_json=as_json)


def wait(
    run: service_options.Run,
    *,
    poll_seconds: service_options.PollSeconds = 15.0,
    timeout: service_options.Timeout = None,
    as_json: service_options.AsJson = False,
    is_quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only how the run ended, not each change of state.")
    ] = False,
    token_file: service_options.TokenFile = "",
    host: service_options.Host = "",
    namespace: service_options.Namespace = "",
    cookie_file: service_options.CookieFile = "",
    ca_cert: service_options.CaCert = "",
    project: service_options.Project = "",
    region: service_options.Region = "",
    endpoint: service_options.Endpoint = "",
) -> None:
    """Wait for the end of a run, and show each change of state.

    Exits with 0 if the run succeeded, 1 if it failed or was cancelled, and 2 after an error or when the time is up. A
    service may be out of reach for about 25 minutes meanwhile.
    """
    client = client_of_run(
        run,
        host,
        namespace,
        token_file,
        cookie_file,
        ca_cert,
        project,
        region,
        endpoint,
        is_patient=True,
        timeout=timeout,
    )
    _wait(client, run, poll_seconds, timeout, as_json=as_json, is_quiet=is_quiet)


def logs(
    run: service_options.Run,
    *,
    task: Annotated[
        list[str] | None, typer.Option(help="Task to show; repeatable. By default, all.", show_default=False)
    ] = None,
    token_file: service_options.TokenFile = "",
    host: service_options.Host = "",
    namespace: service_options.Namespace = "",
    cookie_file: service_options.CookieFile = "",
    ca_cert: service_options.CaCert = "",
    project: service_options.Project = "",
    region: service_options.Region = "",
    endpoint: service_options.Endpoint = "",
) -> None:
    """Show state, error and log of each task, or where its log is.

    Kubeflow hands out the logs of pods that exist, where it is not set up otherwise; Vertex AI's are in Cloud Logging,
    and the address and command for each task are printed.
    """
    client = client_of_run(run, host, namespace, token_file, cookie_file, ca_cert, project, region, endpoint)
    found = client.status(run)
    names = [one.name for one in found.tasks]
    for wanted in task or []:
        if wanted not in names:
            raise ValueError(
                f"`--task` must name a task of the run, among {sorted(names)}; got {wanted!r}. "
                f"{did_you_mean(wanted, names, otherwise='Check it.')}"
            )
    chosen = [one for one in found.tasks if not task or one.name in task]
    if not chosen:
        print_line(f"The run is {found.state.value} and has no tasks yet: {found.page}")
    for log in client.logs(found, chosen):
        print_line(f"== {log.task.name}: {log.task.state.value}")
        if log.task.error:
            print_line(f"error: {log.task.error}")
        if log.text:
            _print_log(log.text)
        for note in log.notes:
            print_line(note)


def cancel(
    run: service_options.Run,
    *,
    token_file: service_options.TokenFile = "",
    host: service_options.Host = "",
    namespace: service_options.Namespace = "",
    cookie_file: service_options.CookieFile = "",
    ca_cert: service_options.CaCert = "",
    project: service_options.Project = "",
    region: service_options.Region = "",
    endpoint: service_options.Endpoint = "",
) -> None:
    """Ask the service to end a run; it ends a moment later."""
    client = client_of_run(run, host, namespace, token_file, cookie_file, ca_cert, project, region, endpoint)
    found = client.status(run)
    if found.state.is_final:
        raise ValueError(
            f"`run` must not have ended; got {run!r}, which is {found.state.value}. There is nothing to do."
        )
    client.cancel(run)
    print_line(f"Asked to cancel {found.run}; `tfx-gnn wait` tells when it has ended.")


def read_file(file: str) -> tuple[Any, Service]:
    """Reads a compiled pipeline, and tells which service it is for."""
    from tfx_gnn_pipelines.compiled_pipeline import compiled_service, read_compiled

    pipeline = read_compiled(file)
    return pipeline, compiled_service(pipeline)


def given_connection(*texts: str) -> ConnectionOptions:
    """Takes the options in the order of `_CONNECTION`."""
    from tfx_gnn_pipelines.submission.connection import ConnectionOptions

    return ConnectionOptions(**dict(zip(_CONNECTION, texts, strict=True)))


def complete_connection(service: Service, *given: str) -> ConnectionOptions:
    """Completes the options of a connection, given in the order of `_CONNECTION`, for one service."""
    return given_connection(*given).for_service(service)


def client_of_run(run: str, *given: str, is_patient: bool = False, timeout: float | None = None) -> PipelineService:
    """Connects to the service that a run or schedule belongs to."""
    import dataclasses

    from tfx_gnn_pipelines.submission.connection import service_of_run, split_run

    connection = given_connection(*given)
    service = service_of_run(run, connection)
    host = split_run(run)[0]
    # Where pages are on a host of their own, it is not the API's.
    is_of_pages = host == os.environ.get("KF_PIPELINES_UI_ENDPOINT", "").rstrip("/")
    if host and not connection.host and not (is_of_pages and os.environ.get("KF_PIPELINES_ENDPOINT")):
        connection = dataclasses.replace(connection, host=host)
    return connect_to(service, connection, is_patient=is_patient, timeout=timeout)


def connect_to(
    service: Service, connection: ConnectionOptions, *, is_patient: bool, timeout: float | None = None
) -> PipelineService:
    """Connects to a service; `is_patient` for commands that wait, for `timeout` seconds at most."""
    import dataclasses

    from tfx_gnn_pipelines.submission.connection import connect
    from tfx_gnn_pipelines.submission.retries import PATIENT, RetryPolicy

    policy = PATIENT if is_patient else RetryPolicy()
    if timeout is not None:
        policy = dataclasses.replace(policy, longest_time=timeout)
    return connect(service, connection, policy=policy, report=_say)


def make_run_options(
    pipeline: Any,
    parameter: list[str] | None,
    labels: list[str] | None,
    *,
    name: str,
    root: str,
    submission: str = "",
    **options: Any,
) -> RunOptions:
    """Builds the options of a run, or of the runs of a schedule."""
    from tfx_gnn_pipelines.compiled_pipeline import run_parameters
    from tfx_gnn_pipelines.submission.runs import RunOptions

    # What is submitted again must have the same name.
    mark = submission or f"{dt.datetime.now(dt.timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    return RunOptions(
        name=name or f"{pipeline.name} {mark}",
        submission=submission,
        parameters=run_parameters(pipeline, _pairs("--parameter", parameter)),
        labels=_pairs("--labels", labels),
        root=root or pipeline.root,
        **options,
    )


def _pairs(flag: str, texts: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"`{flag}` must have the form NAME=VALUE; got {text!r}. Write one pair for each {flag}.")
        if name in found:
            raise ValueError(f"`{flag}` must give {name!r} once; got {found[name]!r} and {value!r}. Keep one of them.")
        found[name] = value
    return found


def _wait(
    client: PipelineService,
    run: str,
    poll_seconds: float,
    timeout: float | None,
    *,
    as_json: bool,
    is_quiet: bool = False,
) -> None:
    from tfx_gnn_pipelines.submission.runs import RunState, wait_for_run

    report = (lambda _text: None) if is_quiet else _say
    try:
        found = wait_for_run(client, run, poll_seconds=poll_seconds, timeout_seconds=timeout, report=report)
    except KeyboardInterrupt as interruption:
        raise KeyboardInterrupt("Interrupted. The run goes on: wait again, or cancel it.") from interruption
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    else:
        print_line(f"{found.state.value}: {found.page}")
    if not found.state.is_final:
        _say(
            f"`--timeout` must be longer than the run takes; got {timeout:g} s, after which it is {found.state.value}. "
            "The run goes on: wait again, or cancel it."
        )
        raise typer.Exit(ERROR_EXIT_CODE)
    if found.state is not RunState.SUCCEEDED:
        raise typer.Exit(arguments.REFUSED_EXIT_CODE)


def experiment_placeholder(options: RunOptions) -> str:
    """Stands for the id of the experiment, which only the service knows."""
    from tfx_gnn_pipelines.submission.kubeflow import experiment_name

    return f"<id of the experiment {experiment_name(options)!r}>"


def print_request(service: Service, request: Any) -> None:
    """Prints what would be sent, as JSON."""
    shown = {"service": service.value, "method": request.method, "url": request.url, "body": request.body}
    typer.echo(json.dumps(shown, indent=2))


def _print_run(found: RunStatus, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    for title, text in (
        ("run", found.run),
        ("name", found.name),
        ("state", found.state.value),
        ("error", found.error),
        ("page", found.page),
    ):
        if text:
            print_line(f"{title:<6} {text}")
    width = max((len(task.name) for task in found.tasks), default=0)
    for task in found.tasks:
        print_line(f"  {task.name:<{width}}  {task.state.value}{f': {task.error}' if task.error else ''}")


def print_line(text: str) -> None:
    """Prints one line of a result."""
    arguments.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _print_log(text: str) -> None:
    """Prints a log as it is; on a terminal, which would obey control characters of a task, with these escaped."""
    if sys.stdout.isatty():
        text = escape_controls(text.replace("\r\n", "\n").replace("\r", "\n"))
    typer.echo(text, nl=not text.endswith("\n"), color=True)


def _say(text: str) -> None:
    """Prints progress, which is no result."""
    typer.echo(escape_controls(text), err=True)
