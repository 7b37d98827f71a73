"""Durations of a fixed length, as task files write them: `30 days`."""

from __future__ import annotations

import re

from tfx_gnn.io.suggestions import did_you_mean

_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_WITHOUT_FIXED_LENGTH = {"month": "30 days", "quarter": "13 weeks", "year": "365 days"}
_FORM = re.compile(r"\s*(\d+)\s*([A-Za-z]+)\s*")


def seconds_of_unit(word: str, place: str) -> int:
    """Returns the seconds of a unit of time, written in the singular or the plural.

    Args:
        word: the unit.
        place: where it stands, which begins the error.

    Raises:
        ValueError: if the unit is unknown, or has no fixed length.
    """
    singular = word.casefold().removesuffix("s")
    if singular in _WITHOUT_FIXED_LENGTH:
        raise ValueError(
            f"{place} must have a unit of fixed length; got {word!r}, of which some are longer than others, so that "
            f"windows would differ. Write, for example, {_WITHOUT_FIXED_LENGTH[singular]}."
        )
    if singular not in _SECONDS:
        units = [f"{unit}s" for unit in _SECONDS]
        raise ValueError(f"{place} must have one of the units {units}; got {word!r}. {did_you_mean(word, units)}")
    return _SECONDS[singular]


def parse_duration(text: str, name: str) -> int:
    """Reads a duration as seconds; errors call the text `name`.

    Raises:
        ValueError: if it is no positive whole number of a unit of fixed length.

    Example:
        >>> parse_duration("2 days", "every")
        172800
    """
    match = _FORM.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ValueError(
            f"`{name}` must be a whole number above 0 and a unit, such as 30 days; got {text!r}. Write one."
        )
    return int(match[1]) * seconds_of_unit(match[2], f"`{name}`")


def describe_duration(seconds: int) -> str:
    """Writes seconds in the largest unit that they are a whole number of.

    Example:
        >>> describe_duration(-7_200)
        '-2 hours'
    """
    unit = next(unit for unit, length in reversed(_SECONDS.items()) if seconds % length == 0)
    number = seconds // _SECONDS[unit]
    return f"{number} {unit}{'' if abs(number) == 1 else 's'}"
