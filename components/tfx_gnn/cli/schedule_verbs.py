"""The command group `schedule`: runs of a compiled pipeline at fixed times."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Annotated

import typer

from tfx_gnn.cli import service_options, service_verbs
from tfx_gnn.io.folded_help import FOLDED

if TYPE_CHECKING:
    from tfx_gnn_pipelines.submission.runs import ScheduleStatus

Schedule = Annotated[
    str,
    typer.Argument(help="Schedule, as `create` printed it, or the address of its page.", metavar="ID"),
]

schedule = typer.Typer(name="schedule", help="Start runs of a compiled pipeline at fixed times.", no_args_is_help=True)


@schedule.command("create")
def create_schedule(
    file: service_options.CompiledFile,
    *,
    cron: Annotated[
        str,
        typer.Option(
            help="Minute, hour, day of the month, month, day of the week, as in '30 6 * * 1-5'.", show_default=False
        ),
    ],
    timezone: Annotated[
        str,
        typer.Option(
            help="Time zone of --cron, as in Europe/Berlin.",
            show_default="UTC",
            rich_help_panel=service_options.VERTEX_PANEL,
        ),
        FOLDED,
    ] = "",
    max_concurrent_runs: Annotated[
        int, typer.Option(help="Runs of the schedule at the same time, 1 to 10."), FOLDED
    ] = 1,
    start: Annotated[
        str, typer.Option(help="No run before, as in 2030-01-31T06:00+01:00.", metavar="TIME", show_default="now")
    ] = "",
    end: Annotated[str, typer.Option(help="No run after.", metavar="TIME", show_default="never")] = "",
    parameter: service_options.Parameter = None,
    root: service_options.Root = "",
    labels: service_options.Labels = None,
    name: service_options.Name = "",
    service_account: service_options.ServiceAccount = "",
    no_cache: service_options.NoCache = False,
    dry_run: service_options.DryRun = False,
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
    """Create a schedule; runs that were missed while it was paused are not made up for."""
    from tfx_gnn_pipelines.services import Service
    from tfx_gnn_pipelines.submission import kubeflow, vertex
    from tfx_gnn_pipelines.submission.runs import ScheduleOptions

    pipeline, service = service_verbs.read_file(file)
    connection = service_verbs.complete_connection(
        service, host, namespace, token_file, cookie_file, ca_cert, project, region, endpoint
    )
    options = service_verbs.make_run_options(
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
    )
    times = ScheduleOptions(
        cron=cron,
        timezone=timezone,
        max_concurrent_runs=max_concurrent_runs,
        start=_time("--start", start),
        end=_time("--end", end),
    )
    if dry_run:
        if service is Service.KUBEFLOW:
            experiment_id = service_verbs.experiment_placeholder(options)
            request = kubeflow.schedule_request(pipeline, options, times, connection, experiment_id=experiment_id)
        else:
            request = vertex.schedule_request(pipeline, options, times, connection)
        service_verbs.print_request(service, request)
        return
    created = service_verbs.connect_to(service, connection, is_patient=False).create_schedule(pipeline, options, times)
    _print_schedules([created], as_json=as_json)


@schedule.command("list")
def list_schedules(
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
    """List all schedules."""
    from tfx_gnn_pipelines.submission.connection import service_of_options

    given = service_verbs.given_connection(host, namespace, token_file, cookie_file, ca_cert, project, region, endpoint)
    client = service_verbs.connect_to(service_of_options(given), given, is_patient=False)
    _print_schedules(client.list_schedules(), as_json=as_json)


@schedule.command("pause")
def pause_schedule(
    schedule: Schedule,
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
    """Let a schedule start no runs until it is resumed."""
    client = service_verbs.client_of_run(
        schedule, host, namespace, token_file, cookie_file, ca_cert, project, region, endpoint
    )
    client.change_schedule(schedule, "pause")
    service_verbs.print_line(f"Paused {schedule}")


@schedule.command("resume")
def resume_schedule(
    schedule: Schedule,
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
    """Let a paused schedule start runs again."""
    client = service_verbs.client_of_run(
        schedule, host, namespace, token_file, cookie_file, ca_cert, project, region, endpoint
    )
    client.change_schedule(schedule, "resume")
    service_verbs.print_line(f"Resumed {schedule}")


@schedule.command("delete")
def delete_schedule(
    schedule: Schedule,
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
    """Delete a schedule; runs that it has started go on."""
    client = service_verbs.client_of_run(
        schedule, host, namespace, token_file, cookie_file, ca_cert, project, region, endpoint
    )
    client.change_schedule(schedule, "delete")
    service_verbs.print_line(f"Deleted {schedule}")


def _time(flag: str, text: str) -> dt.datetime | None:
    if not text:
        return None
    try:
        found = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
        found.astimezone(dt.timezone.utc)
    except (ValueError, OverflowError):
        found = None
    if found is None or found.tzinfo is None:
        raise ValueError(
            f"`{flag}` must be a time with its distance from UTC; got {text!r}. Write, for example, "
            "2030-01-31T06:00+01:00."
        )
    return found


def _print_schedules(found: list[ScheduleStatus], *, as_json: bool) -> None:
    import dataclasses

    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(one) for one in found], indent=2))
        return
    if not found:
        service_verbs.print_line("no schedules")
    for one in found:
        following = f", next {one.next_run}" if one.next_run else ""
        service_verbs.print_line(
            f"{one.schedule}  {'active' if one.is_active else 'paused'}  {one.cron}{following}  {one.name}"
        )
        service_verbs.print_line(f"  {one.page}")
