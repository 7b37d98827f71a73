"""Rules for rows, what to do with rows that break them, and the counts and files of dropped rows."""

from __future__ import annotations

import dataclasses
import json
import os
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Literal

from tfx_gnn.io.option_groups import check_choices

CELLS = "cells"
"""A record has as many cells as the header, or, without a header, can be parsed."""
ENCODING = "encoding"
"""Text is UTF-8."""
MISSING = "missing"
"""A value is present, or a default is declared."""
TYPE = "type"
"""A value is of the declared type, without loss."""
FINITE = "finite"
"""A number is neither NaN nor infinite."""
SHAPE = "shape"
"""There are as many values as the declared shape has."""
DECODER = "decoder"
"""A packed column can be split by its decoder."""
EMPTY_ID = "empty_id"
"""An id is not the empty text."""
DUPLICATE_NODE = "duplicate_node"
"""No two nodes of a set have the same id."""
DUPLICATE_EDGE = "duplicate_edge"
"""No two edges of a set have the same ends (and time)."""
DANGLING_SOURCE = "dangling_source"
"""The source of an edge is a node."""
DANGLING_TARGET = "dangling_target"
"""The target of an edge is a node."""
UNKNOWN_GRAPH = "unknown_graph"
"""The graph that a row belongs to exists."""
UNKNOWN_NODE = "unknown_node"
"""The node whose index a feature holds is one of the row's graph. Such rows are always refused."""

INVALID_ROW_RULES = (CELLS, ENCODING, MISSING, TYPE, FINITE, SHAPE, DECODER, EMPTY_ID)
"""Rules that a row breaks by itself; `RowRules.invalid_rows` decides what happens."""

DANGLING_RULES = (DANGLING_SOURCE, DANGLING_TARGET, UNKNOWN_GRAPH)
"""Rules about nodes or graphs that do not exist; `RowRules.dangling_edges` decides what happens."""

DEAD_LETTERS_DIR = "dead_letters"
"""Folder for `write_dead_letters` within the output of a stage."""

_MAX_VALUE_LENGTH = 120


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowRules:
    """What to do with rows that break a rule; by default they are errors, except duplicate edges.

    Attributes:
        invalid_rows: "refuse", or "drop" rows that break one of `INVALID_ROW_RULES`.
        duplicate_nodes: "refuse", or "keep_first" in the order of the files.
        duplicate_edges: "keep" all, "refuse", or "keep_first".
        dangling_edges: "refuse", or "drop" edges to or from nodes that do not exist, and
            rows of graphs that do not exist.
        max_dropped_share: fraction of a table's rows that "drop" may remove, in [0, 1].
            More is an error that reports the counts. None: 1 if an option is "drop",
            otherwise 0; see `most_dropped`. Rows that "keep_first" drops are counted and
            reported too, but do not count towards this fraction, because an equal row is
            kept.
    """

    invalid_rows: Literal["refuse", "drop"] = "refuse"
    duplicate_nodes: Literal["refuse", "keep_first"] = "refuse"
    duplicate_edges: Literal["keep", "refuse", "keep_first"] = "keep"
    dangling_edges: Literal["refuse", "drop"] = "refuse"
    max_dropped_share: float | None = None

    def __post_init__(self) -> None:
        check_choices(self)
        if not 0.0 <= self.most_dropped <= 1.0:
            raise ValueError(
                f"`max_dropped_share` must be a fraction in [0, 1]; got {self.max_dropped_share}. "
                "Say how much of a table may be lost."
            )
        if self._drops and not self.most_dropped:
            raise ValueError(
                "`max_dropped_share` must be above 0 where rows may be dropped; got 0 with "
                f"invalid_rows={self.invalid_rows!r}, dangling_edges={self.dangling_edges!r}. "
                "Say how much of a table may be lost, or leave it out for any share."
            )

    @property
    def _drops(self) -> bool:
        return "drop" in (self.invalid_rows, self.dangling_edges)

    @property
    def most_dropped(self) -> float:
        """`max_dropped_share`, or its default if that is None."""
        return float(self._drops) if self.max_dropped_share is None else self.max_dropped_share


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowProblem:
    """A row that breaks a rule, and where it is.

    Attributes:
        table: label of the table, see `TableLayout.label`.
        file: path of the file; for BigQuery the table or query.
        row: position in the file, in `row_word`s.
        row_word: "line", counted from 1, or another word, counted from 0.
        rule: name of the broken rule, one of this module's.
        column: name of the column in the file; "" if the row as a whole is wrong.
        requirement: what the column must do, as in "be of type int64".
        value: the actual value, as error messages show it; long values are cut.
        advice: what to do about it.
        option: the option by which such rows are no error, which is no advice where they were dropped by it.
    """

    table: str
    file: str
    row: int
    rule: str
    value: str
    column: str = ""
    requirement: str = ""
    advice: str = ""
    option: str = ""
    row_word: str = "row"

    @property
    def place(self) -> str:
        """Text of the form "/data/nodes.csv, line 12"."""
        return f"{self.file}, {self.row_word} {self.row}"

    @property
    def message(self) -> str:
        """The whole error message."""
        return f"{self.dropped_message[:-1]}, or {self.option}." if self.option else self.dropped_message

    @property
    def dropped_message(self) -> str:
        """The message about a row that an option drops: it does not advise that option."""
        subject = self.column or self.table
        return f"`{subject}` must {self.requirement}; got {self.value} in {self.place}. {self.advice}"


def show_value(value: object) -> str:
    """Formats a value for error messages and dead letters."""
    text = repr(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}... ({len(text)} characters)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableReport:
    """Counts of a table's rows: `rows_read == rows_used + sum(dropped.values())`.

    Attributes:
        table: label of the table, see `TableLayout.label`.
        rows_read: records of all files, good or not.
        rows_used: rows that are in the graph.
        dropped: by rule, rows that are not in the graph; each row is counted under the
            first rule that it broke, and has one `RowProblem`.
        duplicate_edges: edges with the same ends (and time) as an earlier one, whether
            kept or not; 0 for other tables.
        self_loops: used edges from a node to itself.
    """

    table: str
    rows_read: int
    rows_used: int
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    duplicate_edges: int = 0
    self_loops: int = 0

    def __post_init__(self) -> None:
        if self.rows_read != self.rows_used + sum(self.dropped.values()):
            raise ValueError(
                "`rows_read` must be the sum of the rows used and dropped; got "
                f"{self.rows_read} != {self.rows_used} + {sum(self.dropped.values())} for {self.table}. "
                "Count every row once."
            )


def check_dropped_share(report: TableReport, rules: RowRules) -> None:
    """Refuses a table of which too many rows were dropped."""
    dropped = {
        rule: count for rule, count in sorted(report.dropped.items()) if rule in INVALID_ROW_RULES + DANGLING_RULES
    }
    if sum(dropped.values()) > rules.most_dropped * report.rows_read:
        raise ValueError(
            f"`max_dropped_share` must cover the rows that are dropped; got {rules.most_dropped} for "
            f"{sum(dropped.values())} of {report.rows_read} rows of {report.table}: {dropped}. "
            "Correct the table, or allow a larger share."
        )


def check_used_edges(report: TableReport, rules: RowRules, first_problem: str) -> None:
    """Refuses an edge table of which too many rows, or all, were dropped; `first_problem` is a message."""
    check_dropped_share(report, rules)
    if report.rows_read and not report.rows_used:
        raise ValueError(
            f"`{report.table}` must have at least one usable edge; got none, after {report.rows_read} were "
            f"dropped: {dict(report.dropped)}. The first: {first_problem}"
        )


def refusal(problem: RowProblem, count: int) -> ValueError:
    """Returns the error for `count` rows that break a rule; `problem` is the first."""
    return ValueError(problem.message if count == 1 else f"{problem.message} It is one of {count} such rows.")


def duplicate_node_problem(*, table: str, file: str, row: int, row_word: str, column: str, value: object) -> RowProblem:
    """Describes a node with the id of an earlier one."""
    return RowProblem(
        table=table,
        file=file,
        row=row,
        row_word=row_word,
        rule=DUPLICATE_NODE,
        column=column,
        requirement="be different in every record",
        value=f"{show_value(value)} again",
        advice=f"Remove one of the records of {table}.",
        option="keep the first by duplicate_nodes",
    )


def duplicate_edge_problem(*, table: str, file: str, row: int, row_word: str, value: object) -> RowProblem:
    """Describes an edge with the ends (and time) of an earlier one."""
    return RowProblem(
        table=table,
        file=file,
        row=row,
        row_word=row_word,
        rule=DUPLICATE_EDGE,
        requirement="name every edge once",
        value=f"{show_value(value)} again",
        advice="Remove one of the records.",
        option="choose keep or keep_first by duplicate_edges",
    )


def dangling_edge_problem(
    *,
    table: str,
    file: str,
    row: int,
    row_word: str,
    rule: str,
    column: str,
    node_set: str,
    node_file: str,
    value: object,
) -> RowProblem:
    """Describes an edge to or from a node that does not exist."""
    return RowProblem(
        table=table,
        file=file,
        row=row,
        row_word=row_word,
        rule=rule,
        column=column,
        requirement=f"name a node of {node_set!r} ({node_file})",
        value=show_value(value),
        advice="Add the nodes or remove the edges.",
        option="drop them by dangling_edges",
    )


def dead_letters_file(table: str) -> str:
    """Names the file of a table's dead letters, such as "nodes.user.jsonl"; set names are percent-encoded."""
    kind, _, name = table.partition("/")
    return f"{kind}.{urllib.parse.quote(name, safe='')}.jsonl" if name else f"{kind}.jsonl"


def write_dead_letters(folder: str, problems: Iterable[RowProblem]) -> tuple[str, ...]:
    """Writes dropped rows, one file per table, one JSON object per line, in the order of files and rows.

    The keys are the fields of `RowProblem` without `option`, and `message`. Without problems, not even the folder is
    created.
    """
    # This module is imported with options, which must not cost an import of TensorFlow.
    import tensorflow as tf

    by_table: dict[str, list[RowProblem]] = {}
    for problem in problems:
        by_table.setdefault(problem.table, []).append(problem)
    paths = []
    for table, dropped in sorted(by_table.items()):
        tf.io.gfile.makedirs(folder)
        paths.append(os.path.join(folder, dead_letters_file(table)))
        with tf.io.gfile.GFile(paths[-1], "w") as file:
            for problem in sorted(dropped, key=lambda problem: (problem.file, problem.row, problem.rule)):
                file.write(dead_letter_line(problem))
    return tuple(paths)


def dead_letter_line(problem: RowProblem) -> str:
    """Formats one dropped row as a line of JSON, with its line end."""
    fields = dataclasses.asdict(problem) | {"message": problem.dropped_message}
    del fields["option"]
    return json.dumps(fields, sort_keys=True, ensure_ascii=False) + "\n"
