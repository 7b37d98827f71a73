"""Arguments of Beam pipelines: checked, because Beam itself ignores those that it does not know.

Beam logs a warning about an option with a typo and runs without it, and ends the process for a value that it cannot
read. An option that only the runner's job server knows, as of Flink's, is written `--runner_option=NAME=VALUE`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners import create_runner

from tfx_gnn.io.suggestions import closest_names

_RUNNER_OPTION = "--runner_option="
_HELP = {"-h", "--help"}


def read_beam_args(beam_args: Sequence[str]) -> list[str]:
    """Checks arguments of Beam.

    Args:
        beam_args: options of Beam, or of any `PipelineOptions` that is loaded, such as "--runner=DataflowRunner".

    Returns:
        The arguments as Beam takes them.

    Raises:
        ValueError: if an argument is no option that this Beam knows, or its value is none that Beam takes.
    """
    args = [arg for arg in beam_args if not arg.startswith(_RUNNER_OPTION)]
    parser = _parser_of_all_options()
    try:
        values, unknown = parser.parse_known_args([arg for arg in args if arg not in _HELP])
    except (argparse.ArgumentError, ValueError) as error:
        raise ValueError(f"`beam_args` must hold values that Beam takes; got {error}. Correct it.") from error
    unknown += [arg for arg in args if arg in _HELP]
    if unknown:
        raise ValueError(_about_unknown(unknown[0], parser))
    if values.runner is not None:
        _check_runner(values.runner)
    return args + [_as_flag(arg) for arg in beam_args if arg.startswith(_RUNNER_OPTION)]


def _parser_of_all_options() -> argparse.ArgumentParser:
    found: list[argparse.ArgumentParser] = []
    # Beam shows its parser, with the options of all loaded classes, to whoever wants to add to it.
    PipelineOptions([]).get_all_options(add_extra_args_fn=found.append)
    (parser,) = found
    parser.exit_on_error = False
    return parser


def _about_unknown(arg: str, parser: argparse.ArgumentParser) -> str:
    names = sorted({*re.findall(r"--\w+", parser.format_help())} - _HELP)
    name, value = re.fullmatch(r"-*(\w*)[ =]?(.*)", arg, re.DOTALL).groups()  # type: ignore[union-attr]
    if f"--{name}" in names:
        hint = f"Write --{name}={value}."
    else:
        close = closest_names(f"--{name}", names)
        hint = f"Did you mean {close[0]}? " if close else ""
        hint += f"Write an option that only the runner's job server knows as {_RUNNER_OPTION}NAME=VALUE."
    return f"`beam_args` must hold options that Beam {beam.__version__} knows; got {arg!r}. {hint}"


def _check_runner(name: str) -> None:
    try:
        create_runner(name)
    # All but the first are for the import path of a class.
    except (ValueError, ImportError, AttributeError, TypeError) as error:
        raise ValueError(f"`beam_args` must name a runner of Beam; got --runner={name}. {error}") from error


def _as_flag(arg: str) -> str:
    name, has_value, value = arg.removeprefix(_RUNNER_OPTION).partition("=")
    if not re.fullmatch(r"\w+", name) or not has_value:
        raise ValueError(f"`beam_args` must have the form {_RUNNER_OPTION}NAME=VALUE; got {arg!r}. Correct it.")
    return f"--{name}={value}"
