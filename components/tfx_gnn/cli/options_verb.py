"""The command `options`: what a project file may hold."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from tfx_gnn.cli import arguments


def options(
    group: Annotated[
        str,
        typer.Argument(
            help="'project', an option with options of its own, such as plan, or a step, such as graph_trainer.",
            show_default="all",
            metavar="GROUP",
        ),
    ] = "",
    *,
    json_schema: Annotated[
        bool,
        typer.Option("--json-schema", help="Print the JSON Schema of project.yaml, by which editors complete it."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per option.")] = False,
) -> None:
    """List every option that project.yaml and --set can change, with its type, default and meaning."""
    from tfx_gnn_pipelines.project_schema import list_project_options, project_schema

    if json_schema:
        if group or as_json:
            raise typer.BadParameter("--json-schema describes a whole project file; give it alone.")
        typer.echo(json.dumps(project_schema(), indent=1))
        return
    entries = list_project_options(group)
    if as_json:
        for entry in entries:
            typer.echo(json.dumps(dataclasses.asdict(entry)))
        return
    for entry in entries:
        default = f" = {entry.default}" if entry.default else ", required"
        arguments.console.print(
            Text.assemble((entry.name, "bold cyan"), f": {entry.kind}{default}"), soft_wrap=True, highlight=False
        )
        arguments.console.print(Padding(Text(entry.meaning), (0, 0, 0, 4)), highlight=False)
