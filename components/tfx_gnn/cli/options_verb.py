"""The command `options`: lists or searches what a project file may hold."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from tfx_gnn.cli import arguments

if TYPE_CHECKING:
    from tfx_gnn.io.option_schema import OptionEntry


def options(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="A group: 'project', an option with options of its own, such as plan, or a step, such as "
            "graph_trainer. Or words to search for in names and meanings, such as: early stopping.",
            show_default="all",
            metavar="[GROUP|WORD...]",
        ),
    ] = None,
    *,
    json_schema: Annotated[
        bool,
        typer.Option("--json-schema", help="Print the JSON Schema of project.yaml, by which editors complete it."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per option.")] = False,
) -> None:
    """List every option that project.yaml and --set can change, with its type, default and meaning, or search them.

    A search also finds the hyperparameters of the ready-made networks.
    """
    from tfx_gnn_pipelines.project_schema import (
        is_option_group,
        list_project_options,
        project_schema,
        search_project_options,
    )

    if json_schema:
        if words or as_json:
            raise typer.BadParameter("--json-schema describes a whole project file; give it alone.")
        typer.echo(json.dumps(project_schema(), indent=1))
        return
    if not words or (len(words) == 1 and is_option_group(words[0])):
        _print_options(list_project_options(words[0] if words else ""), as_json=as_json)
        return
    found = search_project_options(words)
    _print_options([*found.by_name, *found.by_meaning], as_json=as_json)
    if not as_json:
        number = len(found.by_name) + len(found.by_meaning)
        arguments.console.print(
            f"Found {number} of {found.num_options} options: {len(found.by_name)} by name, {len(found.by_meaning)} by "
            "meaning.",
            style="bold",
            highlight=False,
        )


def _print_options(entries: Sequence[OptionEntry], *, as_json: bool) -> None:
    for entry in entries:
        if as_json:
            typer.echo(json.dumps(dataclasses.asdict(entry)))
            continue
        default = f" = {entry.default}" if entry.default else ", required"
        arguments.console.print(
            Text.assemble((entry.name, "bold cyan"), f": {entry.kind}{default}"), soft_wrap=True, highlight=False
        )
        arguments.console.print(Padding(Text(entry.meaning), (0, 0, 0, 4)), highlight=False)
