"""Groups of options, and the options' flat names in flags and component parameters.

A dataclass of options may contain others, its groups, so that related options are together in Python and in JSON.
Flags and TFX parameters have no groups. So each option has one flat name: the name of its field, or the one given to
`grouped_option` if the field's name makes sense only inside its group.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from tfx_gnn.io.suggestions import did_you_mean

_FLAT_NAME = "flat_name"
_IS_GROUP = "is_group"
_CHOICES = "choices"

_Options = TypeVar("_Options")


def option_group(group: type[_Options]) -> _Options:
    """Declares a field for a group, a frozen dataclass whose fields all have defaults, with these defaults."""
    field: Any = dataclasses.field(default_factory=group, metadata={_IS_GROUP: True})
    return typing.cast(_Options, field)


def grouped_option(default: _Options, *, flat_name: str) -> _Options:
    """Declares an option of a group whose flat name differs from the field's name."""
    field: Any = dataclasses.field(default=default, metadata={_FLAT_NAME: flat_name})
    return typing.cast(_Options, field)


def choice_option(default: str, choices: Sequence[str], *, flat_name: str = "") -> str:
    """Declares an option that is one of several texts which are computed; others are declared by `Literal`.

    `flat_name` is given where `grouped_option` would be.
    """
    metadata = {_CHOICES: tuple(choices), **({_FLAT_NAME: flat_name} if flat_name else {})}
    field: Any = dataclasses.field(default=default, metadata=metadata)
    return typing.cast(str, field)


def choices_of(field: dataclasses.Field[Any], kind: Any) -> tuple[str, ...]:
    """Returns the texts that an option of this type may be; empty if it has no choices."""
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else tuple(field.metadata.get(_CHOICES, ()))


def choices_of_items(kind: Any) -> tuple[str, ...]:
    """Returns the texts that an option of this type, a list, may hold; empty if it is none, or has no choices."""
    item = next(iter(typing.get_args(kind)), None) if typing.get_origin(kind) is tuple else None
    return typing.get_args(item) if typing.get_origin(item) is Literal else ()


def check_choices(options: object, *, place: str = "") -> None:
    """Refuses a value that is not one of its option's choices, or a list of some, each once; for `__post_init__`.

    `place` tells which of several objects it is, as in " in `negatives`".
    """
    for field, kind in _fields(type(options)):
        choices, value = choices_of(field, kind), getattr(options, field.name)
        of_items = choices_of_items(kind)
        unknown = [item for item in value if item not in of_items] if of_items else []
        if unknown or (of_items and len(set(value)) != len(value)):
            alike = did_you_mean(unknown[0], of_items, otherwise="Correct the names.") if unknown else ""
            raise ValueError(
                f"`{_flat_name(field)}` must name some of {list(of_items)}, each once; got {list(value)}{place}. "
                f"{alike or 'Remove the repetition.'}"
            )
        if choices and value not in choices:
            raise ValueError(
                f"`{_flat_name(field)}` must be one of {list(choices)}; got {value!r}{place}. "
                f"{did_you_mean(value, choices, otherwise='Choose one of these.')}"
            )


def flat_options(options_class: type) -> dict[str, Any]:
    """Lists the types of all options of a class by flat name, including those of groups, in the order of fields."""
    return {name: kind for _, name, kind in option_paths(options_class)}


def flat_values(options: object) -> dict[str, Any]:
    """Reads the values of all options by flat name, including those of groups, in the order of fields."""
    values: dict[str, Any] = {}
    for path, name, _ in option_paths(type(options)):
        value: Any = options
        for field in path:
            value = getattr(value, field)
        values[name] = value
    return values


def flat_defaults(options_class: type) -> dict[str, Any]:
    """Reads the defaults of all options by flat name, including those of groups; options without one are absent."""
    found: dict[str, Any] = {}
    for field, hint in _fields(options_class):
        if field.metadata.get(_IS_GROUP):
            found |= flat_defaults(hint)
        elif field.default is not dataclasses.MISSING:
            found[_flat_name(field)] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[_flat_name(field)] = field.default_factory()
    return found


def from_flat(options_class: type[_Options], values: Mapping[str, Any]) -> _Options:
    """Builds options from values by flat name; absent options keep their defaults."""
    known = flat_options(options_class)
    unknown = sorted(values.keys() - known.keys())
    if unknown:
        raise TypeError(f"`{options_class.__name__}` must get options of {sorted(known)}; got {unknown}. Name these.")
    arguments: dict[str, Any] = {}
    for field, hint in _fields(options_class):
        if field.metadata.get(_IS_GROUP):
            own = {name: values[name] for name in flat_options(hint) if name in values}
            arguments[field.name] = from_flat(hint, own)
        elif _flat_name(field) in values:
            arguments[field.name] = values[_flat_name(field)]
    return options_class(**arguments)


def check_groups(options: object) -> None:
    """Refuses a bare value where a group belongs; call it in `__post_init__`."""
    for field, hint in _fields(type(options)):
        value = getattr(options, field.name)
        if field.metadata.get(_IS_GROUP) and not isinstance(value, hint):
            names = [inner.name for inner in dataclasses.fields(hint)]
            raise TypeError(
                f"`{field.name}` must be a {hint.__name__}; got {value!r}. Write {hint.__name__}(...) with its options "
                f"{names}, or give all options by their flat names to `{type(options).__name__}.from_flat`."
            )


def option_paths(options_class: type) -> list[tuple[tuple[str, ...], str, Any]]:
    """Lists, for each option, the fields that lead to it, its flat name and its type."""
    paths: list[tuple[tuple[str, ...], str, Any]] = []
    for field, hint in _fields(options_class):
        if field.metadata.get(_IS_GROUP):
            paths += [((field.name, *path), name, kind) for path, name, kind in option_paths(hint)]
        else:
            paths.append(((field.name,), _flat_name(field), hint))
    return paths


def _fields(options_class: Any) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = _type_hints(options_class)
    return [(field, hints[field.name]) for field in dataclasses.fields(options_class)]


@functools.cache
def _type_hints(options_class: Any) -> dict[str, Any]:
    return typing.get_type_hints(options_class)


def _flat_name(field: dataclasses.Field[Any]) -> str:
    return str(field.metadata.get(_FLAT_NAME, field.name))
