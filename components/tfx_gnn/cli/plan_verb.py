"""The command `plan`: tells what a pipeline costs before it is run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tfx_gnn.cli import arguments

_DEFAULT_SECONDS = 30.0


def plan(
    project: arguments.Project = "",
    *,
    tables: arguments.ProjectTables = "",
    options: arguments.ProjectOptions = "",
    set_: arguments.ProjectSettings = None,
    seconds: Annotated[
        float,
        typer.Option(help="Time to measure steps at other sizes in, after each has run once on a sample."),
    ] = _DEFAULT_SECONDS,
    resources: Annotated[
        str,
        typer.Option(
            help="YAML file with the machines of each component, as for `run --runner kubeflow` or `vertex`.",
            metavar="FILE",
            show_default="this machine",
        ),
    ] = "",
    prices: Annotated[
        str,
        typer.Option(
            help="YAML file with your prices of an hour of these machines.", metavar="FILE", show_default=False
        ),
    ] = "",
    against: Annotated[
        str,
        typer.Option(
            help="Run to set beside the plan, which then ignores all runs: ROOT of a pipeline for its latest run, or "
            "ROOT@N.",
            metavar="RUN",
            show_default=False,
        ),
    ] = "",
    root: Annotated[
        str,
        typer.Option(help="Folder of the pipeline's runs, which are measurements, too.", show_default="runs/TASK"),
    ] = "",
    ignore_runs: Annotated[
        bool, typer.Option("--ignore-runs", help="Measure every step anew, even those that a run has measured.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Tell what a pipeline costs before it is paid: examples, disk, steps, memory, time, machines and money.

    Counts the examples in the tables, and extrapolates the cost of each step from the newest run in the root that
    executed the same step, or else from running it on a sample. Nothing is kept. Exits with 1 if a step needs more
    memory than its machine has.
    """
    arguments.say_begun(f"Planning {project or 'the project in this folder'}", as_json=as_json)
    import dataclasses

    from rich.console import Console

    from tfx_gnn_pipelines.planning.earlier_runs import read_actual_steps
    from tfx_gnn_pipelines.planning.machines import read_prices
    from tfx_gnn_pipelines.planning.plan_table import print_comparison, print_plan
    from tfx_gnn_pipelines.planning.planner import plan_pipeline
    from tfx_gnn_pipelines.project import read_config
    from tfx_gnn_pipelines.resources import read_resources

    config = read_config(
        project,
        is_remote=bool(resources),
        options_file=options,
        assignments=set_ or [],
        shortcuts={name: value for name, value in {"tables_dir": tables, "root": root}.items() if value},
    )
    machines = read_resources(resources) if resources else None
    their_prices = read_prices(prices) if prices else None
    actual = read_actual_steps(against) if against else ()
    with Console(stderr=True).status("reading earlier runs") as status:
        found = plan_pipeline(
            config,
            seconds=seconds,
            resources=machines,
            prices=their_prices,
            uses_runs=not ignore_runs and not against,
            say=lambda step: status.update(f"measuring a sample: {step}"),
        )
    if as_json:
        typer.echo(json.dumps({**found.to_json(), "actual": [dataclasses.asdict(step) for step in actual]}, indent=2))
    else:
        if actual:
            print_comparison(found, actual, against, arguments.console)
        print_plan(found, arguments.console)
    if found.objections:
        raise typer.Exit(arguments.REFUSED_EXIT_CODE)
