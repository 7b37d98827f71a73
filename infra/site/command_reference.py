"""The page of the command line, from its own objects: what `--help` says, for all commands at once."""

from __future__ import annotations

import enum
import inspect
import pathlib
import re
import typing
from typing import Any

import typer.main

from tfx_gnn.cli.app import app

_KINDS = {str: "text", int: "whole number", float: "number", bool: "yes or no", pathlib.Path: "path"}


def page() -> str:
    """The page's text."""
    command = typer.main.get_command(app)
    return "\n".join(["# Commands", "", *_about(command), *_table(command), *_commands(command, "tfx-gnn", 2)]) + "\n"


def _commands(group: Any, path: str, level: int) -> list[str]:
    lines = []
    for name in group.list_commands(None):
        command = group.commands[name]
        if command.hidden:
            continue
        lines += [f"{'#' * level} {path} {name}", "", *_about(command), *_table(command)]
        if hasattr(command, "list_commands"):
            lines += _commands(command, f"{path} {name}", level + 1)
    return lines


def _about(command: Any) -> list[str]:
    return [inspect.cleandoc(command.help or ""), ""]


def _table(command: Any) -> list[str]:
    rows = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name in ("help", "install_completion", "show_completion"):
            continue
        is_argument = parameter.param_type_name == "argument"
        names = (
            [(parameter.metavar or parameter.name).upper()]
            if is_argument
            else [*parameter.opts, *parameter.secondary_opts]
        )
        help_text = " ".join((parameter.help or "").split())
        cells = [", ".join(f"`{name}`" for name in names), _values(parameter), help_text + _default(parameter)]
        rows.append("| " + " | ".join(_escaped(cell) for cell in cells) + " |")
    return ["| option | values | meaning |", "|---|---|---|", *rows, ""] if rows else []


def _values(parameter: Any) -> str:
    """What may be written: choices, or the kind of value."""
    if getattr(parameter, "is_flag", False):
        return ""
    kinds = [kind for kind in _kinds(parameter.type_descriptor.annotation) if kind is not type(None)]
    choices = [
        choice for kind in kinds for choice in (kind if isinstance(kind, enum.EnumMeta) else typing.get_args(kind))
    ]
    if choices:
        text = ", ".join(f"`{getattr(choice, 'value', choice)}`" for choice in choices)
    else:
        text = parameter.metavar or " or ".join(_KINDS.get(kind, kind.__name__) for kind in kinds)
    return f"{text}, repeatable" if parameter.multiple or parameter.nargs == -1 else text


def _kinds(annotation: Any) -> list[Any]:
    """The types of single values in an annotation: of `list[str] | None`, str and NoneType."""
    if typing.get_origin(annotation) in (None, typing.Literal):
        return [annotation]
    return [kind for inner in typing.get_args(annotation) if inner is not ... for kind in _kinds(inner)]


def _default(parameter: Any) -> str:
    if parameter.required:
        return " Required."
    value = getattr(parameter.default, "value", parameter.default)
    if value in (None, "", False, True, (), []) or callable(value):
        return ""
    return f" Default: `{value}`."


def _escaped(cell: str) -> str:
    """Escapes what would end a cell or begin a tag; inside of backticks, nothing does."""
    return re.sub(r"`[^`]*`|[|<]", lambda found: {"|": "\\|", "<": "&lt;"}.get(found[0], found[0]), cell)
