"""Spans of tables: folders with the data of one period each, found by a pattern such as `data/{SPAN}`."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import os
import re
from collections.abc import Iterator

_DATE = ("YYYY", "MM", "DD")
_PLACEHOLDER = re.compile(r"\{([A-Z]+)(?::([^{}]*))?\}")
_WIDTHS = {"YYYY": "4", "MM": "2", "DD": "2"}
_DATE_PATTERN = "{YYYY}-{MM}-{DD}"
_EPOCH = dt.date(1970, 1, 1)
_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_MAX_SHOWN = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class TablesSpan:
    """One tables folder, and its place in a series of them.

    Attributes:
        folder: the tables folder.
        span: number of the span; for a date, its days since 1970-01-01, as in TFX. None: the folder is in no series.
        version: number of the version of the span; None if the pattern has none.
        name: the span as its folder is named: a number, or a date such as 2026-01-31; empty if it is in no series.
    """

    folder: str
    span: int | None = None
    version: int | None = None
    name: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpansWindow:
    """The newest tables folders of a series, whose examples are trained on together.

    Attributes:
        spans: the folders, the newest last; at least one.
        gaps: names of neighbours among `spans` between which a span seems to be missing: they are apart by at least
            one and a half times the smallest distance of two neighbours.
    """

    spans: tuple[TablesSpan, ...]
    gaps: tuple[tuple[str, str], ...] = ()

    @property
    def newest(self) -> TablesSpan:
        """The folder of the newest span."""
        return self.spans[-1]


def has_span(tables_dir: str) -> bool:
    """Tells whether a tables folder is given as a pattern of spans."""
    return _PLACEHOLDER.search(tables_dir) is not None


def find_span(tables_dir: str, span: str = "", *, version: int | None = None) -> TablesSpan:
    """Finds the tables folder of a span: of the newest one, unless one is named.

    A pattern is a path with `{SPAN}`, a number; with `{YYYY}`, `{MM}` and `{DD}` in any order; or with `{DATE}`, which
    means `{YYYY}-{MM}-{DD}`. It may also have `{VERSION}`; the span's largest version counts. `{SPAN:4}` and
    `{VERSION:4}` are numbers of just four digits, with zeros in front. Folders with other names are no spans.

    Args:
        tables_dir: a tables folder, or a pattern of such folders; any path or URI that TensorFlow reads.
        span: number of the span, or its date in the form 2026-01-31; empty for the newest.
        version: number of its version; None for the largest.

    Returns:
        The folder; for one without placeholders, just that.

    Raises:
        ValueError: if the pattern is none of these, no folder matches it, there is no such span, or two folders have
            the same span and version.
    """
    if not has_span(tables_dir):
        if span:
            raise ValueError(
                f"`span` must be left out, unless `tables_dir` is a pattern of spans; got {span!r} for {tables_dir!r}. "
                "Write the folder of the tables as data/{SPAN} or data/{DATE}, for example."
            )
        return TablesSpan(folder=tables_dir)
    pattern, found = _find_spans(tables_dir)
    wanted = _read_span(span, pattern) if span else max(one.span for one in found if one.span is not None)
    of_span = [one for one in found if one.span == wanted]
    if not of_span:
        raise ValueError(
            f"`span` must be a span of {tables_dir!r}, which has {_list_names(found)}; got {span!r}. Name one of "
            "these, or leave it out for the newest."
        )
    return _choose_version(of_span, tables_dir, version)


def find_window(tables_dir: str, span: str = "", *, num_spans: int) -> SpansWindow:
    """Finds the tables folder of a span, as `find_span` does, and those of the spans before it.

    Args:
        tables_dir: a tables folder, or a pattern of such folders.
        span: number of the last span of the window, or its date; empty for the newest.
        num_spans: how many spans the window has, at least 1. Where there are fewer, it has all of them.

    Returns:
        The folders, and where a span seems to be missing between them.

    Raises:
        ValueError: as `find_span` does, or if there is no pattern to find several spans by.
    """
    check_num_spans(tables_dir, num_spans)
    newest = find_span(tables_dir, span)
    if num_spans == 1 or newest.span is None:
        return SpansWindow(spans=(newest,))
    by_number: dict[int, list[TablesSpan]] = {}
    for one in _find_spans(tables_dir)[1]:
        if one.span is not None and one.span < newest.span:
            by_number.setdefault(one.span, []).append(one)
    numbers = sorted(by_number)[1 - num_spans :]
    spans = (*(_choose_version(by_number[number], tables_dir) for number in numbers), newest)
    neighbours = list(itertools.pairwise(zip((*numbers, newest.span), spans, strict=True)))
    usual = min((later - earlier for (earlier, _), (later, _) in neighbours), default=1)
    gaps = tuple((a.name, b.name) for (earlier, a), (later, b) in neighbours if 2 * (later - earlier) >= 3 * usual)
    return SpansWindow(spans=spans, gaps=gaps)


def check_num_spans(tables_dir: str, num_spans: int) -> None:
    """Refuses a window of several spans, unless a tables folder is given as a pattern of spans."""
    if num_spans > 1 and not has_span(tables_dir):
        raise ValueError(
            f"`num_spans` must be 1, unless `tables_dir` is a pattern of spans; got {num_spans} for {tables_dir!r}. "
            "Write the folder of the tables as data/{SPAN} or data/{DATE}, for example."
        )


def _find_spans(tables_dir: str) -> tuple[str, list[TablesSpan]]:
    """Returns a pattern without `{DATE}`, and the folders that it matches, at least one."""
    check_span_pattern(tables_dir)
    pattern = tables_dir.replace("{DATE}", _DATE_PATTERN)
    found = _find_all(pattern)
    if not found:
        raise ValueError(
            f"`tables_dir` must be a pattern that matches at least one folder; got {tables_dir!r}, and "
            f"{_describe_siblings(pattern)}. Write the tables of each span to a folder of its own, such as "
            f"{_example(pattern)}."
        )
    return pattern, found


def _choose_version(of_span: list[TablesSpan], tables_dir: str, version: int | None = None) -> TablesSpan:
    """Returns the folder of a version of a span; of the largest one, unless one is given."""
    if version is None:
        version = max((one.version for one in of_span if one.version is not None), default=None)
    chosen = [one for one in of_span if one.version == version]
    if not chosen:
        raise ValueError(
            f"`version` must be a version of span {of_span[0].name} of {tables_dir!r}, which has "
            f"{sorted(one.version for one in of_span if one.version is not None)}; got {version}. Put its folder back."
        )
    if len(chosen) > 1:
        raise ValueError(
            f"`tables_dir` must match one folder for a span and version; got {sorted(one.folder for one in chosen)} "
            f"for {tables_dir!r}. Remove or rename one of them."
        )
    return chosen[0]


def folder_of_spans(tables_dir: str) -> str:
    """Returns the folder below which all spans of a pattern lie; of a plain tables folder, that folder."""
    before = _PLACEHOLDER.split(tables_dir, maxsplit=1)[0]
    return before[: before.rfind("/") + 1] or "." if has_span(tables_dir) else tables_dir


def check_span_pattern(tables_dir: str) -> None:
    """Checks the placeholders of a pattern, without looking for folders; see `find_span`.

    Raises:
        ValueError: if one is unknown, or a span cannot be told from them.
    """
    pattern = tables_dir.replace("{DATE}", _DATE_PATTERN)
    names = [match[1] for match in _PLACEHOLDER.finditer(pattern)]
    for name, width in _PLACEHOLDER.findall(pattern):
        if name not in ("SPAN", "VERSION", *_DATE):
            raise ValueError(
                "`tables_dir` must have placeholders among {SPAN}, {VERSION}, {DATE}, {YYYY}, {MM} and {DD}; got "
                f"{{{name}}} in {tables_dir!r}. Correct its name."
            )
        if width and (name in _DATE or not width.isdecimal() or int(width) == 0):
            raise ValueError(
                "`tables_dir` must have a whole number of digits behind SPAN: or VERSION:, as in {SPAN:4}, and nothing "
                f"behind the parts of a date; got {{{name}:{width}}} in {tables_dir!r}. Correct it or leave it out."
            )
    dates = sorted(name for name in names if name in _DATE)
    is_complete = (dates == sorted(_DATE) and "SPAN" not in names) or (not dates and names.count("SPAN") == 1)
    if not is_complete or names.count("VERSION") > 1:
        raise ValueError(
            "`tables_dir` must have {SPAN} once, or each of {YYYY}, {MM} and {DD} once, and {VERSION} at most once; "
            f"got {tables_dir!r}. Write, for example, data/{{SPAN}} or data/{{DATE}}."
        )


def _find_all(pattern: str) -> list[TablesSpan]:
    """Lists the folders that a pattern matches."""
    spans = []
    for folder, values in _match("", pattern.rstrip("/").split("/"), {}):
        if "SPAN" in values:
            number, name = int(values["SPAN"]), values["SPAN"]
        else:
            try:
                day = dt.date(*(int(values[part]) for part in _DATE))
            except ValueError:
                continue  # such as 2026-02-31: another folder
            number, name = (day - _EPOCH).days, day.isoformat()
        version = int(values["VERSION"]) if "VERSION" in values else None
        spans.append(TablesSpan(folder=folder, span=number, version=version, name=name))
    return spans


def _match(prefix: str, parts: list[str], values: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields folders behind a prefix that match the parts of a pattern, with the values of the placeholders."""
    if not parts:
        if _is_folder(prefix):
            yield prefix.rstrip("/"), values
        return
    part, *rest = parts
    if not has_span(part):
        yield from _match(f"{prefix}{part}/", rest, values)
        return
    expression = _expression(part)
    for name in _list_names_in(prefix):
        if matched := expression.fullmatch(name):
            yield from _match(f"{prefix}{name}/", rest, {**values, **matched.groupdict()})


def _expression(part: str) -> re.Pattern[str]:
    text, end = "", 0
    for match in _PLACEHOLDER.finditer(part):
        width = match[2] or _WIDTHS.get(match[1], "1,18")
        text += f"{re.escape(part[end : match.start()])}(?P<{match[1]}>[0-9]{{{width}}})"
        end = match.end()
    return re.compile(text + re.escape(part[end:]))


def _list_names_in(folder: str) -> list[str]:
    if not _is_folder(folder):
        return []
    if "://" not in folder:
        return sorted(os.listdir(folder or "."))
    import tensorflow as tf

    return sorted(name.rstrip("/") for name in tf.io.gfile.listdir(folder))


def _is_folder(path: str) -> bool:
    if "://" not in path:
        # Local folders need no TensorFlow.
        return os.path.isdir(path or ".")
    import tensorflow as tf

    return bool(tf.io.gfile.isdir(path))


def _read_span(text: str, pattern: str) -> int:
    if text.isdecimal():
        return int(text)
    day = _DAY.fullmatch(text)
    if day and "{YYYY}" in pattern:
        try:
            return (dt.date(int(day[1]), int(day[2]), int(day[3])) - _EPOCH).days
        except ValueError:
            pass  # refused below, as anything else that is no date
    raise ValueError(
        f"`span` must be a number{', or a date such as 2026-01-31,' if '{YYYY}' in pattern else ''} for {pattern!r}; "
        f"got {text!r}. Correct it, or leave it out for the newest."
    )


def _list_names(found: list[TablesSpan]) -> str:
    names = [name for _, name in sorted({(one.span or 0, one.name) for one in found})]
    shown = ", ".join(names[-_MAX_SHOWN:])
    return f"{len(names)} spans up to {shown}" if len(names) > _MAX_SHOWN else shown


def _describe_siblings(pattern: str) -> str:
    """Says what lies where the first placeholder of a pattern is."""
    folder = folder_of_spans(pattern)
    names = _list_names_in(folder)
    shown = f"{names[:_MAX_SHOWN]}{' and more' if len(names) > _MAX_SHOWN else ''}"
    return f"{folder!r} has {shown if names else 'nothing'} in it"


def _example(pattern: str) -> str:
    values = {"SPAN": "1", "VERSION": "1", "YYYY": "2026", "MM": "01", "DD": "31"}
    return _PLACEHOLDER.sub(lambda match: values[match[1]].zfill(int(match[2] or 1)), pattern)
