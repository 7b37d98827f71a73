"""The command `plan`: tells what a pipeline costs before it is run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tfx_gnn.cli import arguments

_DEFAULT_SECONDS = 30.0
_NEED_MEASUREMENTS = "--seconds, --resources, --prices, --against and --ignore-runs"


def plan(
    project: arguments.Project = "",
    *,
    tables: arguments.ProjectTables = "",
    options: arguments.ProjectOptions = "",
    set_: arguments.ProjectSettings = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Take each step's cost from a run that executed the same step, or try it on a sample, which takes as "
            f"long as a small run; {_NEED_MEASUREMENTS} do so, too.",
        ),
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="Time to measure steps at other sizes in, after each has run once on a sample.",
            show_default=f"{_DEFAULT_SECONDS:g}",
        ),
    ] = None,
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

    Estimates examples and subgraphs from the statistics of the tables, and the cost of each step from earlier runs on
    this machine, with 80 % intervals that later runs are counted against; nothing is run. Exits with 1 if a step needs
    more memory than its machine has.
    """
    if not (measure or seconds is not None or resources or prices or against or ignore_runs):
        _estimate(project, tables=tables, options=options, set_=set_, root=root, as_json=as_json)
        return
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
            seconds=_DEFAULT_SECONDS if seconds is None else seconds,
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


def _estimate(project: str, *, tables: str, options: str, set_: list[str] | None, root: str, as_json: bool) -> None:
    """Plans from statistics, and keeps the prediction."""
    import dataclasses
    import os

    from tfx_gnn_pipelines.config import is_uri
    from tfx_gnn_pipelines.planning.plan_table import print_estimate
    from tfx_gnn_pipelines.planning.predictions import count_hits, describe_hits, keep_prediction, read_predictions
    from tfx_gnn_pipelines.planning.statistical_plan import plan_from_statistics
    from tfx_gnn_pipelines.project import read_config

    config = read_config(
        project,
        is_remote=False,
        options_file=options,
        assignments=set_ or [],
        shortcuts={name: value for name, value in {"tables_dir": tables, "root": root}.items() if value},
    )
    found, statistics, runs = plan_from_statistics(config)
    hits = {}
    if config.root and not is_uri(config.root):
        own_root = os.path.abspath(config.root)
        own = [(one.run, one.num_examples) for one in runs if os.path.abspath(one.run.root) == own_root]
        hits = count_hits(read_predictions(config.root), own)
        keep_prediction(config.root, found)
    if as_json:
        more = {
            "statistics": dataclasses.asdict(statistics),
            "hits": {step: dataclasses.asdict(one) for step, one in hits.items()},
            "actual": [],
        }
        typer.echo(json.dumps({**found.to_json(), **more}, indent=2))
    else:
        print_estimate(found, statistics, describe_hits(hits), arguments.console)
    if found.objections:
        raise typer.Exit(arguments.REFUSED_EXIT_CODE)
