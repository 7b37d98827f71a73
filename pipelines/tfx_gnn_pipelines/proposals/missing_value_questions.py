"""Asks about values that may stand for no value: of a label, and of times."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.column_values import NULL_SPELLINGS, ColumnValues, parse_times

_WORDS = frozenset({"missing", "not available", "undefined", "unknown", "unlabeled", "unlabelled"})
_LEAST_OTHERS = 2
_YEAR = 365 * 86_400
_FAR_AWAY = 10 * _YEAR
"""Seconds between a time and the next one, from which on it may be none."""
_DAYS_OF_NO_TIME = ((1, 1), (12, 30), (12, 31))
"""Months and days of such times, as in 1900-01-01, 1899-12-30 and 9999-12-31."""


def ask_about_label(label: str, values: ColumnValues) -> Iterator[str]:
    """Asks about the only negative number of a label, such as -1, and about words such as unknown.

    Args:
        label: the table and the column.
        values: its values. Beside what is asked about there must be two others, between which a model can choose.
    """
    if values.is_time or values.num_distinct <= _LEAST_OTHERS:
        return
    numbers = values.numbers()
    if numbers is not None:
        found = values.values.filter(pc.less(numbers, 0)).to_pylist()
        found = found if len(found) == 1 else []
        what = "its only negative number"
    else:
        words = _WORDS.union(NULL_SPELLINGS.to_pylist())
        found = [text for text in values.values.to_pylist() if text.strip().casefold() in words]
        what = "a class like any other so far"
    for value in found:
        num_rows = values.counts[values.values.index(value).as_py()].as_py()
        yield (
            f"{label} is {value} in {num_rows:,} {'row' if num_rows == 1 else 'rows'}, {what}. If that stands for no "
            f"label, give --missing-value {label}={value}: such rows are not predicted then."
        )


def ask_about_time(place: str, values: ColumnValues) -> Iterator[str]:
    """Asks about a first or last time that is years before or after all others, at the begin or end of a year.

    Args:
        place: the table and the column.
        values: its values; nothing is asked unless they are times.
    """
    if not values.holds_times or values.num_distinct <= _LEAST_OTHERS:
        return
    parsed = values.values.cast(pa.int64()).cast(pa.timestamp("s")) if values.is_time else parse_times(values.values)
    assert parsed is not None
    times = parsed.cast(pa.timestamp("us")).cast(pa.timestamp("s"), safe=False)
    order = pc.sort_indices(times).to_pylist()
    for one, next_one in ((order[0], order[1]), (order[-1], order[-2])):
        gap = abs(times[one].value - times[next_one].value)
        if gap >= _FAR_AWAY and (pc.month(times[one]).as_py(), pc.day(times[one]).as_py()) in _DAYS_OF_NO_TIME:
            spelled = str(times[one]).removesuffix(" 00:00:00") if values.is_time else values.values[one].as_py()
            num_rows = values.counts[one].as_py()
            yield (
                f"{place} is {spelled} in {num_rows:,} {'row' if num_rows == 1 else 'rows'}, {gap // _YEAR:,} years "
                f"away from all other times. If that stands for no time, give --missing-value '{place}={spelled}'."
            )
