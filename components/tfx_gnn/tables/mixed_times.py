"""Columns that look like times, but have values for which they cannot be read as times."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.column_values import ColumnValues, parse_times

_LEAST_BY_LOOKS = 0.9
"""Share of the rows with a value whose value begins as a date does, from which on a column is meant to hold times."""
_BEGINS_AS_DATE = r"^\d{4}-\d{2}-\d{2}($|[T ]\d{2})"
_OTHER_DATE = (
    r"^(\d{1,2}[./-]\d{1,2}[./-](\d{2}|\d{4})|\d{4}[./]\d{1,2}[./]\d{1,2}|"
    r"(\d{1,2}[ -])?(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?[ -](\d{1,2}, ?)?\d{4})($|[T ,])"
)
"""Dates of other countries, such as 31.12.2026, 12/31/2026, 2026/12/31 and Dec 31, 2026."""
_PLAIN = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}(:\d{2}(:\d{2}(\.\d+)?)?)?)?$"
_ZONED = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}(:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}(:?\d{2})?)$"
_LEAST_OF_TIMES = 2


def describe_mixed_times(column: ColumnValues) -> str:
    """Says why a column that looks like times is none, and what would make it one.

    Args:
        column: the values of the column.

    Returns:
        Two sentences, the first without its subject, the second without its full stop; empty if the column holds times,
        or does not look like times.
    """
    if column.num_distinct < _LEAST_OF_TIMES or column.holds_times:
        return ""
    if _share(column, _OTHER_DATE) >= _LEAST_BY_LOOKS:
        return (
            f"has dates that are not in ISO 8601, such as {column.values[0].as_py()!r}. Spell them as 2026-05-01 or "
            "2026-05-01T12:00:00Z"
        )
    if _share(column, _BEGINS_AS_DATE) < _LEAST_BY_LOOKS:
        return ""
    is_plain = pc.match_substring_regex(column.values, _PLAIN)
    is_zoned = pc.match_substring_regex(column.values, _ZONED)
    plain, zoned = column.values.filter(is_plain), column.values.filter(is_zoned)
    others = column.values.filter(pc.invert(pc.or_(is_plain, is_zoned)))
    wrong = others if len(others) else next((one for one in map(_unreadable, (plain, zoned)) if one is not None), None)
    if wrong is not None:
        return (
            f"has values that are no times in ISO 8601, such as {wrong[0].as_py()!r}. Spell them as "
            "2026-05-01T12:00:00Z, or leave these cells empty"
        )
    if not len(plain) or not len(zoned):
        return ""
    return (
        f"has times with a zone, such as {zoned[0].as_py()!r}, and {_num_rows(column, is_plain):,} without one, such "
        f"as {plain[0].as_py()!r}. Give all a zone, or none"
    )


def _share(column: ColumnValues, pattern: str) -> float:
    return _num_rows(column, pc.match_substring_regex(column.values, pattern)) / max(column.num_counted, 1)


def _num_rows(column: ColumnValues, mask: pa.Array) -> int:
    return int(pc.sum(column.counts.filter(mask)).as_py() or 0)


def _unreadable(texts: pa.Array) -> pa.Array | None:
    """Finds a text that cannot be read, such as that of a day that no month has; None if all can."""
    if not len(texts) or parse_times(texts) is not None:
        return None
    while len(texts) > 1:
        half = texts[: len(texts) // 2]
        texts = texts[len(texts) // 2 :] if parse_times(half) is not None else half
    return texts
