"""Errors and Ctrl-C on the command line: one line that says what to do, without a traceback."""

from __future__ import annotations

import collections
import errno
import itertools
import os
import re
import signal
import sys
import traceback
from collections.abc import Collection, Mapping
from typing import Any

import typer

from tfx_gnn.io.folded_help import FoldedGroup
from tfx_gnn.io.plain_console import PlainConsole
from tfx_gnn.io.progress import show_progress
from tfx_gnn.io.urls_in_messages import hide_passwords_of_urls

ERROR_EXIT_CODE = 2
"""Exit code after an error that the user can fix, and after a wrong command line."""
CLOSED_OUTPUT_EXIT_CODE = 128 + signal.SIGPIPE
"""Exit code where the reader of the output, such as `head`, has closed it; a shell's own for such a program."""
INTERRUPTED_EXIT_CODE = 128 + signal.SIGINT
"""Exit code after Ctrl-C; a shell's own for such a program."""

_INTERRUPTED = "Interrupted. No half-written output is left: run the same command again"
_KEPT = {
    "sample": "; it goes on after the shards that are finished",
    "infer": "; it goes on after the tables that are finished",
    "infer-layerwise": "; it goes on after the states that are finished",
    "train": "; it goes on from its newest checkpoint, if it has saved one",
    "tune": "; it goes on after the trials that are finished",
}
"""What the same command goes on from, by the command's name."""
_EXTRA_OF_MODULE = {
    "apache_beam": "beam",
    "cattrs": "beam",
    "httptools": "serve",
    "jinja2": "beam",
    "kfp_server_api": "kfp",
    "matplotlib": "beam",
    "optuna": "tune",
    "prometheus_client": "serve",
    "pyarrow": "beam",
    "starlette": "serve",
    "tenacity": "cli",
    "tensorflow_metadata": "beam",
    "tensorflow_transform": "beam",
    "tfx": "tfx",
    "tfx_bsl": "beam",
    "urllib3": "kfp",
    "uvicorn": "serve",
    "uvloop": "serve",
    "yaml": "cli",
}

_FULL = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_WHILE_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
"""Errors on open files, which Python raises without the file's name."""
_RAISED = re.compile(
    r"^(?:RuntimeError: )?(?:\w+\.)*(\w+(?:Error|Exception)): (.*?)(?: \[while running '.*'\])?$", re.MULTILINE
)
_OF_BEAM = re.compile(r" \[while running '[^']*'\]$")
"""What Beam adds to the messages of errors in this process."""
_PRINTERS = ("click.utils", "rich.console", "typer._click.utils")
"""Modules that print for the commands."""
_MENDABLE = (
    "ValueError", "TypeError", "OSError", "FileNotFoundError", "FileExistsError", "PermissionError",
    "ResourceExhaustedError", "PermissionDeniedError", "NotFoundError",
)  # fmt: skip
"""Names of workers' errors that the user can fix."""
_OF_A_FILE = re.compile(r"([^;]*/[^;]*); (.+)")
"""TensorFlow's error about a file: its path, and the system's message."""


_VERB = "tfx_gnn.verb"
_NAME = re.compile(r"`([a-z]+(?:_[a-z]+)*)`|(?<=\bby )([a-z]+(?:_[a-z]+)+)(?=[ .,])")
"""A possible name of an option: a word in backticks, or one with underscores after "by"."""
_ABOUT = re.compile(
    r"`(?P<inner>path|reference|filename|index_dir)` must .*?; got (?:a mistake in (?P<file>\S+)\. |'(?P<got>[^']*)')"
)
_FILE = re.compile(r"`([^`]*[/.][^`]*)`(?= must be readable)")
_OF_SAMPLING_SPEC = ("label_features", "seed_edge_set", "split_column")
"""Options that complete a sampling spec; other plans have attributes with these names."""
_SAMPLING_SPEC_SUFFIX = ".pbtxt"
_IS_ABOUT_A_COLUMN = re.compile(r", (line|row|record) \d+\.|must be one column of the table|must hold values of type ")


class OneLineErrors(FoldedGroup):
    """Group of commands that shows an error as one red line; with `--debug`, as a traceback.

    It also shows the progress of their stages, and after Ctrl-C how to go on.
    """

    def invoke(self, ctx: Any) -> Any:
        """Runs the command line; shows an error that the user can fix and exits with code 2, after Ctrl-C with 130."""
        console = PlainConsole(stderr=True)
        try:
            with show_progress(console):
                return super().invoke(ctx)
        except KeyboardInterrupt as interruption:
            # Stages that know more about how to go on say so.
            how_to_go_on = str(interruption) or f"{_INTERRUPTED}{_KEPT.get(ctx.invoked_subcommand, '')}."
            console.print(how_to_go_on, style="bold yellow", soft_wrap=True)
            raise typer.Exit(INTERRUPTED_EXIT_CODE) from interruption
        except Exception as error:
            if isinstance(error, OSError) and _is_of_printing(error):
                # What is still buffered would fail once more, with another exit code, when the interpreter ends.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                if isinstance(error, BrokenPipeError):
                    raise typer.Exit(CLOSED_OUTPUT_EXIT_CODE) from error
            line = None if (ctx.obj or {}).get("debug") else error_line(error)
            if line is None:
                raise
            line = hide_passwords_of_urls(name_flags(line, *ctx.meta.get(_VERB, ({}, {}))))
            console.print(line, style="bold red", soft_wrap=True)
            raise typer.Exit(ERROR_EXIT_CODE) from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Remembers the flags of the command that is run, for `name_flags`."""
        name, command, rest = super().resolve_command(ctx, args)
        verb: Any = getattr(command, "commands", {}).get(rest[0] if rest else "", command)
        flags = flags_of(verb)
        ctx.meta[_VERB] = flags, _given(rest, set(flags.values()))
        return name, command, rest


def flags_of(verb: Any) -> dict[str, str]:
    """Lists the flags of a command by their Python names."""
    return {option.name: option.opts[0] for option in verb.params}


def _given(arguments: list[str], flags: Collection[str]) -> dict[str, str]:
    """Returns flags by the value given to each; leaves out values that were given twice."""
    pairs = [(value, flag) for flag, value in itertools.pairwise(arguments) if flag in flags]
    pairs += [(found[2], found[0]) for found in (text.partition("=") for text in arguments) if found[0] in flags]
    counts = collections.Counter(value for value, _ in pairs)
    return {value: flag for value, flag in pairs if counts[value] == 1}


def name_flags(line: str, flags: Mapping[str, str], given: Mapping[str, str] | None = None) -> str:
    """Replaces Python names of options in a message by the flags of the command.

    A message about an inner name or a file also gets the flag that it comes from: `given` holds flags by the value
    given to each. Column names stay as they are.

    Example:
        >>> name_flags("`num_shards` must be in [1, 9]; got 0.", {"num_shards": "--num-shards"})
        '`--num-shards` must be in [1, 9]; got 0.'
    """
    if "`--" in line:
        # Written for the command line: other names in it are fields of a flag's value.
        return line
    given = {value: of_value for value, of_value in (given or {}).items() if value.rstrip("/")}
    flags = _usable_flags(flags, given)
    is_column = _IS_ABOUT_A_COLUMN.search(line) is not None

    def flag(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        name = name if name in flags else f"{name}s"  # a repeatable option has a plural name
        # In a message about a row, the first name is a column's.
        if name not in flags or (is_column and match.start() == 0):
            return match[0]
        return f"`{flags[name]}`"

    by_length = sorted(given.items(), key=lambda item: -len(item[0]))
    about = _ABOUT.match(line)
    if about and about["inner"] not in flags:
        for value, of_value in by_length:
            got = about["got"] or about["file"]
            is_in_folder = got.startswith(value.rstrip("/") + "/")
            if is_in_folder or got in (value, value.rpartition("=")[2], value.rpartition(",")[2]):
                return line.replace(about["inner"], of_value, 1)
    of_file = _FILE.match(line)
    if of_file:
        for value, of_value in by_length:
            if of_file[1] == value or of_file[1].startswith(value.rstrip("/") + "/"):
                return f"`{of_file[1]}` (`{of_value}`){line[of_file.end() :]}"
    return _NAME.sub(flag, line)


def _usable_flags(flags: Mapping[str, str], given: Mapping[str, str]) -> Mapping[str, str]:
    """Leaves out the flags that go with a sampling spec where the plan is none: it has fields of these names."""
    has_spec = any(of == flags.get("plan") and value.endswith(_SAMPLING_SPEC_SUFFIX) for value, of in given.items())
    if has_spec or "plan" not in flags:
        return flags
    return {name: text for name, text in flags.items() if name not in _OF_SAMPLING_SPEC}


def error_line(error: Exception) -> str | None:
    """Describes an error to the user in one line; None for a bug, whose traceback should be shown."""
    if isinstance(error, ModuleNotFoundError):
        extra = _EXTRA_OF_MODULE.get((error.name or "").partition(".")[0])
        if extra is not None:
            return (
                f"This command must have {error.name!r} installed; got none. Install tfx-gnn with its extra {extra!r}."
            )
        return str(error)
    if isinstance(error, (OSError, TypeError, ValueError)):
        return _line_of_system(error) or _OF_BEAM.sub("", str(error))
    # Only a command that has imported protobuf or TensorFlow can raise their errors.
    if isinstance(error, getattr(sys.modules.get("google.protobuf.text_format"), "ParseError", ())):
        return " ".join(str(error).split())
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow is not None and isinstance(error, tensorflow.errors.OpError):
        message = " ".join(str(getattr(error, "message", error)).split())
        # This library's own messages, which start with a backtick, need nothing added.
        return message if message.startswith("`") else _line_of_tensorflow(type(error).__name__, message)
    return _line_of_worker(str(error)) if isinstance(error, RuntimeError) else None


def _line_of_worker(text: str) -> str | None:
    """Finds what a Beam worker raised; it arrives as a RuntimeError with the traceback as text."""
    is_of_worker = text.startswith("Traceback (most recent call last)") or _RAISED.match(text)
    raised = _RAISED.findall(text) if is_of_worker else []
    if not raised or raised[-1][0] not in _MENDABLE:
        return None
    name, message = raised[-1]
    return message if message.startswith("`") or name in _MENDABLE[:6] else _line_of_tensorflow(name, message)


def _line_of_system(error: Exception) -> str | None:
    if not isinstance(error, OSError) or not error.strerror:
        return None
    path = error.filename
    if path is None and error.errno in _WHILE_WRITING:
        path = _path_in_use(error) or ("standard output" if _is_of_printing(error) else "")
    return _line_of_file(str(path), error.strerror) if path else None


def _line_of_tensorflow(name: str, message: str) -> str:
    of_file = _OF_A_FILE.fullmatch(message)
    return _line_of_file(of_file[1], of_file[2]) if of_file else f"{name}: {message}"


def _line_of_file(path: str, reason: str) -> str:
    advice = "Free some space, or choose another disk." if reason in _FULL else "Check the path."
    return f"`{path}` must be readable and writable as needed; got {reason}. {advice}"


def _path_in_use(error: BaseException) -> str:
    """Finds the file of an error that does not name it, such as a disk that fills up during a write."""
    path = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        path = next((str(frame.f_locals[name]) for name in ("path", "filename") if frame.f_locals.get(name)), path)
    return path


def _is_of_printing(error: BaseException) -> bool:
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") in _PRINTERS for frame, _ in frames)
