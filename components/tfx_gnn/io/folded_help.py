"""Help that fits a screen: `--help` leaves out what a first use does not need, and `--help-all` shows everything."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import re
from typing import Annotated, Any, cast

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from tfx_gnn.io.suggestions import did_you_mean

_WHOLE = "tfx_gnn.help_all"
_END_OF_CLAUSE = re.compile(r"\.\s+(?=[A-Z0-9`\"'-])|;\s")
_NO_CHOICE = re.compile(r"'(?P<given>.*)' is not one of (?P<choices>'.*'\.)", re.DOTALL)
"""Typer's message about a value that is none of an option's choices."""
_QUOTED = re.compile("'([^']*)'")
_SHORT = 90
"""Characters of a help that is shown whole."""
_FEWEST = 3
"""Folded parameters from which on it is worth while to fold."""
_OF_TYPER = ("install_completion", "show_completion")
"""Options that typer gives to a program."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Folded:
    """Marks a parameter of a command, in its `Annotated`, as one that only `--help-all` shows.

    Attributes:
        step: the step that has the option, as `tfx-gnn options` names it; "" if none does.
    """

    step: str = ""


FOLDED = Folded()
"""The mark of an option that is no step's."""


class FoldedCommand(TyperCommand):
    """Command whose `--help` leaves out the parameters that are marked as folded, unless they are required.

    Where it leaves out any, it gives the first clause about each of the others.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Lists all parameters, with `--help-all`."""
        return [*super().get_params(ctx), _help_all()]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments; an unknown choice gets the advice of `did_you_mean`, which typer has for other names."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if found := _NO_CHOICE.search(error.message):
                advice = did_you_mean(found["given"], _QUOTED.findall(found["choices"]), otherwise="")
                error.message = f"{error.message} {advice}".rstrip()
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the folded help, or after `--help-all` the whole one."""
        TyperCommand.format_help(_as_asked(self, ctx), ctx, formatter)


class FoldedGroup(TyperGroup):
    """Group of commands whose `--help` leaves out options that are marked, and prose behind the first paragraph."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Lists all options, with `--help-all`."""
        return [*super().get_params(ctx), _help_all()]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the folded help, or after `--help-all` the whole one."""
        TyperGroup.format_help(_as_asked(self, ctx), ctx, formatter)


def folded_parameters(command: Any) -> dict[str, Folded]:
    """Finds the parameters of a command that `--help` leaves out.

    Args:
        command: command or group, as typer makes it.

    Returns:
        The marks by Python name, in the order of the parameters.
    """
    signature = inspect.signature(command.callback, eval_str=True) if command.callback else inspect.Signature()
    marks = {
        name: mark
        for name, parameter in signature.parameters.items()
        for mark in getattr(parameter.annotation, "__metadata__", ())
        if isinstance(mark, Folded)
    }
    marks |= dict.fromkeys(_OF_TYPER, FOLDED)
    return {one.name: marks[one.name] for one in command.params if one.name in marks and not one.required}


def _as_asked(command: Any, ctx: Any) -> Any:
    """Returns the command, or a copy of it without what `--help` leaves out."""
    folded = folded_parameters(command)
    if ctx.meta.pop(_WHOLE, False) or len(folded) < _FEWEST:
        return command
    shown = copy.copy(command)
    shown.params = [_in_short(parameter) for parameter in command.params if parameter.name not in folded]
    # That there is `--help`, its reader knows; the last line names the other.
    shown.get_params = lambda _: shown.params
    program, whole = ctx.find_root().command_path, f"`{ctx.command_path} --help-all`"
    if hasattr(command, "commands"):
        shown.help = command.help.partition("\n\n")[0]
        shown.epilog = f"Options, exit codes: {whole}. A command's: `{ctx.command_path} COMMAND --help`"
    else:
        steps = sorted({mark.step for mark in folded.values() if mark.step})
        more = f"{len(folded)} more options: {whole}"
        shown.epilog = "; ".join([more, *(f"`{program} options {step}`" for step in steps)])
    return shown


def _in_short(parameter: Any) -> Any:
    """Returns a parameter with the first clause of its help, unless all of it is short."""
    text = parameter.help or ""
    ends = (found.start() for found in _END_OF_CLAUSE.finditer(text))
    end = next((end for end in ends if text.count("(", 0, end) == text.count(")", 0, end)), len(text))
    if len(text) <= _SHORT or end + 1 >= len(text):
        return parameter
    shown = copy.copy(parameter)
    shown.help = f"{text[:end]} …"
    return shown


def _print_whole_help(context: typer.Context, wanted: bool) -> None:  # noqa: FBT001 - typer calls it so.
    if wanted and not context.resilient_parsing:
        context.meta[_WHOLE] = True
        typer.echo(context.get_help(), color=context.color)
        raise typer.Exit


@functools.cache
def _help_all() -> Any:
    """Makes the option `--help-all`, which all commands share, as typer makes options."""
    program = typer.Typer(add_completion=False)

    @program.command()
    def _command(
        *,
        _help_all: Annotated[
            bool,
            typer.Option(
                "--help-all",
                help="Show all options and exit.",
                is_eager=True,
                expose_value=False,
                callback=_print_whole_help,
            ),
        ] = False,
    ) -> None: ...

    return cast("Any", typer.main.get_command(program)).params[0]
