"""Reports rows that break rules between rows, with the messages of the in-memory reader."""

from __future__ import annotations

import dataclasses
import os
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf

from tfx_gnn.sampling.beam.messages import unpack
from tfx_gnn.sampling.beam.partitioned_graph.job import PartitionJob
from tfx_gnn.sampling.beam.partitioned_graph.messages import BrokenRows
from tfx_gnn.tables.row_rules import (
    DANGLING_SOURCE,
    DANGLING_TARGET,
    DEAD_LETTERS_DIR,
    DUPLICATE_EDGE,
    DUPLICATE_NODE,
    RowProblem,
    RowRules,
    dangling_edge_problem,
    dead_letter_line,
    dead_letters_file,
    duplicate_edge_problem,
    duplicate_node_problem,
)
from tfx_gnn.tables.table_files import read_unit
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import ID_FEATURE

_PARTS_DIR = f".{DEAD_LETTERS_DIR}"
_DROP = RowRules(invalid_rows="drop", max_dropped_share=1.0)  # invalid rows were reported at the first reading


class WriteProblems(beam.DoFn):
    """Writes problems and `BrokenRows`, grouped by unit, to a file of dead letters; yields its path."""

    def __init__(self, job: PartitionJob) -> None:
        self._job = job

    def process(self, element: tuple[str, Iterable[bytes]]) -> Iterator[str]:
        """Writes the dead letters of one unit in the order of its rows."""
        key, messages = element
        problems: list[RowProblem] = []
        for message in messages:
            content = unpack(message)
            problems += _describe_rows(self._job, content) if isinstance(content, BrokenRows) else content
        path = os.path.join(self._job.partitions_dir, _PARTS_DIR, urllib.parse.quote(key, safe=""))
        tf.io.gfile.makedirs(os.path.dirname(path))
        with tf.io.gfile.GFile(path, "w") as file:
            for problem in sorted(problems, key=lambda problem: (problem.row, problem.rule)):
                file.write(dead_letter_line(problem))
        yield path


def join_problems(partitions_dir: str) -> tuple[str, ...]:
    """Joins the files of `WriteProblems` into one file per table, in the order of rows; returns the paths."""
    parts_dir = os.path.join(partitions_dir, _PARTS_DIR)
    if not tf.io.gfile.exists(parts_dir):
        return ()
    by_label: dict[str, list[str]] = {}
    for part in sorted(tf.io.gfile.listdir(parts_dir)):
        _, _, label = urllib.parse.unquote(part).partition("/")
        by_label.setdefault(label, []).append(part)
    folder = os.path.join(partitions_dir, DEAD_LETTERS_DIR)
    tf.io.gfile.makedirs(folder)
    paths = []
    for label, parts in sorted(by_label.items()):
        paths.append(os.path.join(folder, dead_letters_file(label)))
        with tf.io.gfile.GFile(paths[-1], "wb") as joined:
            for part in parts:
                with tf.io.gfile.GFile(os.path.join(parts_dir, part), "rb") as file:
                    while chunk := file.read(1 << 22):
                        joined.write(chunk)
    tf.io.gfile.rmtree(parts_dir)
    return tuple(paths)


def refuse_rows(job: PartitionJob, broken: Sequence[BrokenRows]) -> None:
    """Raises a ValueError if there are broken rows; the message names the first row of the first table."""
    if not broken:
        return
    order = {label: position for position, label in enumerate(job.layouts)}
    rules = (DUPLICATE_NODE, DANGLING_SOURCE, DANGLING_TARGET, DUPLICATE_EDGE)
    first = min(broken, key=lambda rows: (order[rows.label], rules.index(rows.rule), rows.unit, int(rows.rows[0])))
    count = sum(rows.count for rows in broken if (rows.label, rows.rule) == (first.label, first.rule))
    [problem] = _describe_rows(job, first)
    if job.layouts[first.label].kind == "seeds" and first.rule == DUPLICATE_EDGE:
        raise ValueError(
            f"`{first.label}` must name every seed once, or once for each time and identity; got {problem.value} in "
            f"{problem.place}, one of {count}. Remove the repetition, or name the columns that distinguish them in "
            "`identity_features`."
        )
    raise ValueError(problem.message if count == 1 else f"{problem.message} It is one of {count} such rows.")


def refuses(job: PartitionJob, label: str, rule: str) -> bool:
    """Returns whether rows of a table that break a rule are refused; repeated seeds always are."""
    if rule == DUPLICATE_NODE:
        return job.rules.duplicate_nodes == "refuse"
    if rule == DUPLICATE_EDGE:
        return job.rules.duplicate_edges == "refuse" or job.layouts[label].kind == "seeds"
    return job.rules.dangling_edges == "refuse"


def shorten_refused(job: PartitionJob, broken: BrokenRows) -> BrokenRows:
    """Keeps only the first of refused rows, which the error names; returns other rows unchanged."""
    if not refuses(job, broken.label, broken.rule):
        return broken
    values = None if broken.values is None else broken.values[:1]
    return dataclasses.replace(broken, rows=broken.rows[:1], values=values)


def _describe_rows(job: PartitionJob, broken: BrokenRows) -> list[RowProblem]:
    """Looks up the places and values of broken rows, which earlier steps did not send along."""
    layout = job.layouts[broken.label]
    unit = job.units[broken.label][broken.unit]
    reader = table_format(layout)
    values = (
        _values(job, broken) if broken.values is None else dict(zip(broken.rows.tolist(), broken.values, strict=True))
    )
    numbers = reader.locate(unit.path, unit.part, broken.rows.tolist())
    problems = []
    for row, number in zip(broken.rows.tolist(), numbers, strict=True):
        place: dict[str, Any] = {
            "table": broken.label,
            "file": unit.path,
            "row": number,
            "row_word": reader.row_word,
        }
        problems.append(_problem(job, broken, values[row], place))
    return problems


def value_keys(job: PartitionJob, label: str, rule: str) -> list[str]:
    """Lists the columns whose values are shown in a message about a row."""
    keys = [ID_FEATURE] if job.layouts[label].kind == "node" else list(job.end_keys(label))
    has_time = rule == DUPLICATE_EDGE and job.time_key(label)
    return [*keys, job.time_key(label)] if has_time else keys


def _problem(job: PartitionJob, broken: BrokenRows, values: Mapping[str, Any], place: dict[str, Any]) -> RowProblem:
    layout = job.layouts[broken.label]
    if broken.rule == DUPLICATE_NODE:
        return duplicate_node_problem(column=layout.columns[ID_FEATURE].name, value=values[ID_FEATURE], **place)
    if broken.rule == DUPLICATE_EDGE:
        return duplicate_edge_problem(value=tuple(values.values()), **place)
    end = (DANGLING_SOURCE, DANGLING_TARGET).index(broken.rule)
    key = job.end_keys(broken.label)[end]
    node_set = job.end_sets(broken.label)[end]
    return dangling_edge_problem(
        rule=broken.rule,
        column=layout.columns[key].name,
        node_set=node_set,
        node_file=job.layouts[f"nodes/{node_set}"].declared_as,
        value=values[key],
        **place,
    )


def _values(job: PartitionJob, broken: BrokenRows) -> dict[int, dict[str, Any]]:
    """Returns ids and times by row in the unit."""
    layout = job.layouts[broken.label]
    keys = value_keys(job, broken.label, broken.rule)
    values: dict[int, dict[str, Any]] = {}
    for block in read_unit(layout, job.units[broken.label][broken.unit], _DROP):
        for position in np.flatnonzero(np.isin(block.rows, broken.rows)).tolist():
            values[int(block.rows[position])] = {key: block.columns[key][position].as_py() for key in keys}
        if len(values) == len(broken.rows):
            break
    return values
