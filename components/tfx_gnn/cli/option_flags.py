"""Flags of a command from the dataclass of a step's options: their names, types, defaults and texts."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin

import typer

from tfx_gnn.cli import arguments
from tfx_gnn.io.folded_help import Folded
from tfx_gnn.io.option_groups import choices_of, choices_of_items, from_flat, option_paths
from tfx_gnn.io.option_schema import attribute_texts

_Verb = TypeVar("_Verb", bound=Callable[..., Any])
_NO_STEPS = ("graph_indexer", "row_rules", "server", "table_access", "table_snapshot_gen")
"""Names of classes of options that are no step of a project."""


class _Option(NamedTuple):
    """An option of the class; its default is `inspect.Parameter.empty` if it must be given."""

    name: str
    kind: Any
    default: Any
    meaning: str
    choices: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Flag:
    """A parameter of a command.

    Attributes:
        parameter: what typer reads.
        read: makes the option's value of what typer gives.
    """

    parameter: inspect.Parameter
    read: Callable[[Any], Any]


def flags_of_options(
    options_class: type,
    *,
    into: str = "options",
    only: Collection[str] = (),
    leave_out: Collection[str] = (),
    as_values: bool = False,
    panel: str | None = None,
    names: Mapping[str, str] | None = None,
    comma_separated: Collection[str] = (),
    shown: Collection[str] | None = (),
) -> Callable[[_Verb], _Verb]:
    """Makes the decorator that gives a command the flags of a class of options.

    The command has a parameter for them, which gets the options that were given. A list is a flag that is repeated, a
    mapping of texts a repeated NAME=VALUE, any other mapping JSON, and a choice of texts an enum.

    Args:
        options_class: dataclass of the options; groups have the flat names of their options.
        into: the command's parameter for the options.
        only: flat names of the options with a flag; empty for all.
        leave_out: flat names of options without a flag, which keep their defaults.
        as_values: whether the parameter gets a dict of values by flat name, to be completed by the command.
        panel: panel of the help that lists the flags; None for that of all options.
        names: flags by flat name where they are not the option's own name, or singular of it.
        comma_separated: flat names of lists that are one text with commas.
        shown: flat names of the options that `--help` shows although they have defaults; None for all. `--help-all`
            shows the others, too.

    Returns:
        The decorator.
    """
    mark = Folded(step=_step_of(options_class))
    flags = {
        option.name: _flag(
            option,
            (names or {}).get(option.name, ""),
            panel=panel,
            is_joined=option.name in comma_separated,
            mark=None if shown is None or option.name in shown else mark,
        )
        for option in _options_of(options_class)
        if option.name not in leave_out and (not only or option.name in only)
    }

    def read(given: dict[str, Any]) -> Any:
        values = {name: flag.read(given[name]) for name, flag in flags.items()}
        return values if as_values else from_flat(options_class, values)

    return lambda verb: with_parameters(verb, into, [flag.parameter for flag in flags.values()], read)


def with_parameters(
    verb: _Verb, into: str, parameters: Sequence[inspect.Parameter], read: Callable[[dict[str, Any]], Any]
) -> _Verb:
    """Replaces a parameter of a command by others, of whose values it gets what `read` makes."""
    signature = inspect.signature(verb, eval_str=True)
    replaced: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        replaced += parameters if name == into else [parameter]
    names = [parameter.name for parameter in parameters]

    @functools.wraps(verb)
    def changed(**given: Any) -> Any:
        return verb(**{into: read({name: given.pop(name) for name in names}), **given})

    typed: Any = changed
    typed.__signature__ = signature.replace(parameters=replaced)
    typed.__annotations__ = {parameter.name: parameter.annotation for parameter in replaced}
    return typing.cast(_Verb, changed)


def _options_of(options_class: type) -> list[_Option]:
    found = []
    for path, name, kind in option_paths(options_class):
        holder: Any = options_class
        for part in path[:-1]:
            holder = typing.get_type_hints(holder)[part]
        (field,) = (field for field in dataclasses.fields(holder) if field.name == path[-1])
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        default = inspect.Parameter.empty if default is dataclasses.MISSING else default
        meaning = attribute_texts(holder).get(path[-1], "")
        choices = choices_of(field, kind)
        found.append(_Option(name, kind, default, meaning, choices))
    return found


def _step_of(options_class: type) -> str:
    """The step whose options these are: "graph_trainer" of GraphTrainerOptions; "" if a project has no such step."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", options_class.__name__.removesuffix("Options")).lower()
    return "" if name in _NO_STEPS else name


def _flag(option: _Option, flag: str, *, panel: str | None, is_joined: bool, mark: Folded | None) -> _Flag:
    name, kind, default, meaning, choices = option
    origin, items = get_origin(kind), get_args(kind)
    own_name = f"--{name.replace('_', '-')}"
    more: dict[str, Any] = {"help": meaning[:1].upper() + meaning[1:], "rich_help_panel": panel}
    annotation = kind
    read: Callable[[Any], Any] = _as_given
    if choices:
        annotation = _choices(name, choices)
        default, read = annotation(default), _value_of_choice
    elif is_joined:
        annotation, default, read = str, ",".join(default), _split
    elif _is_a(origin, Mapping) and items[1] is str:
        flag = flag or _singular(own_name)
        annotation, default, read = list[str] | None, None, functools.partial(_read_pairs, flag)
        more.update(help=f"{more['help']} Repeat for several.", metavar="NAME=VALUE", show_default=False)
    elif _is_a(origin, Mapping):
        annotation, default, read = str, json.dumps(default), functools.partial(arguments.read_object, own_name)
        more.update(metavar="JSON")
    elif _is_a(origin, Sequence):
        flag = flag or _singular(own_name)
        of_items = choices_of_items(kind)
        item = _choices(name, of_items) if of_items else items[0]
        annotation = list[item] | None  # type: ignore[valid-type]
        read = functools.partial(_list_or_default, default)
        more.update(help=f"{more['help']} Repeat for several.", show_default=", ".join(map(str, default)) or False)
        default = None
    elif origin in (typing.Union, types.UnionType) and any(_is_a(get_origin(item), Mapping) for item in items):
        annotation, read = str, functools.partial(_read_text_or_object, own_name)
        more.update(metavar="TEXT|JSON")
    declared = typer.Option(*([flag] if flag else []), **more)
    return _Flag(
        parameter=inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, declared, mark]
        ),
        read=read,
    )


def _choices(name: str, values: Sequence[str]) -> Any:
    # Typer shows the values; a name cannot be empty, as a value can.
    return enum.Enum(name, {f"choice_{value}": value for value in values}, type=str)


def _is_a(origin: Any, kind: type) -> bool:
    return isinstance(origin, type) and issubclass(origin, kind)


def _as_given(value: Any) -> Any:
    return value


def _value_of_choice(choice: enum.Enum) -> Any:
    return choice.value


def _split(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _list_or_default(default: tuple[Any, ...], values: Sequence[Any] | None) -> tuple[Any, ...]:
    return tuple(value.value if isinstance(value, enum.Enum) else value for value in values or default)


def _singular(flag: str) -> str:
    return f"{flag.removesuffix('ies')}y" if flag.endswith("ies") else flag.removesuffix("s")


def _read_pairs(flag: str, texts: Sequence[str] | None) -> dict[str, str]:
    found = {}
    for text in texts or ():
        name, separator, value = text.rpartition("=")
        if not separator or not name or not value:
            raise ValueError(f"`{flag}` must have the form '<name>=<value>'; got {text!r}. Write it that way.")
        found[name] = value
    return found


def _read_text_or_object(flag: str, text: str) -> Any:
    return arguments.read_object(flag, text) if text.startswith("{") else text
