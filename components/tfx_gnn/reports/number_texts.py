"""Formats numbers and names for readers of reports and tables."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any

_NAME_PARTS = re.compile(r"(?<=[_./:@])(?=\w)|(?<=[a-z])(?=[A-Z])")


def as_count(number: float) -> str:
    """Formats a whole number, as in "12,345"."""
    return f"{round(number):,}"


def as_amount(number: float) -> str:
    """Formats a number with three significant digits, or all before the point: "0.25", "7.31", "12,345"."""
    decimals = max(0, 2 - math.floor(math.log10(abs(number)))) if number else 0
    if number == round(number) or decimals == 0:
        return as_count(number)
    return f"{number:,.{min(decimals, 3)}f}".rstrip("0").rstrip(".")


def as_percent(share: float, decimals: int = 1) -> str:
    """Formats a fraction as a percentage, which is 0 or 100 only if exact, as in "96.1%" or "<0.1%"."""
    smallest = 10.0**-decimals
    if 0 < share * 100 < smallest:
        return f"<{smallest:g}%"
    if 100 - smallest < share * 100 < 100:
        return f">{100 - smallest:g}%"
    return f"{100 * share:.{0 if share in (0, 1) else decimals}f}%"


def as_bytes(number: int) -> str:
    """Formats an amount of memory, as in "1.21 MiB"."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    power = min(max(0, number.bit_length() - 1) // 10, len(units) - 1)
    return f"{as_amount(number / 1024**power)} {units[power]}"


def as_duration(seconds: float) -> str:
    """Formats a duration, as in "7.3 s", "2 min 5 s" or "3 h 20 min"."""
    if seconds < 60:
        return f"{as_amount(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def as_figure(number: float) -> str:
    """Formats a measured figure with four significant digits, as in "0.7312", "0.5000" or "1.500e-05"."""
    return f"{number:#.4g}".rstrip(".")


def as_option(value: Any) -> str:
    """Formats the value of an option; an empty value is "none"."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return str(value) if value not in ("", {}) else "none"


def as_aligned(number: float, largest: float) -> str:
    """Formats a number of a column with the decimals that give the column's largest one four significant digits."""
    decimals = 3 - math.floor(math.log10(abs(largest))) if largest else 0
    return f"{number:,.{min(max(0, decimals), 9)}f}"


def as_time(text: str) -> str:
    """Formats a time in ISO 8601 to the second, as in "2026-11-27 08:33:56"; another text stays as it is."""
    try:
        return dt.datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return text


def name_parts(name: str) -> list[str]:
    """Splits a long name where a line may break, as into "balanced_" and "accuracy"."""
    return _NAME_PARTS.split(name)


def shorten(text: str, length: int) -> str:
    """Shortens a text to at most `length` characters; an ellipsis stands for the rest."""
    return text if len(text) <= length else text[: length - 1] + "\u2026"
