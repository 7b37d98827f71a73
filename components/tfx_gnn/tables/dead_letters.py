"""Writes dropped rows as JSON lines beside the output."""

from __future__ import annotations

import dataclasses
import json
import os
import urllib.parse
from collections.abc import Iterable

import tensorflow as tf

from tfx_gnn.tables.row_rules import RowProblem

DEAD_LETTERS_DIR = "dead_letters"
"""Folder for `write_dead_letters` within the output of a stage."""


def dead_letters_file(table: str) -> str:
    """Names the file of a table's dead letters, such as "nodes.user.jsonl"; names of sets are percent-encoded."""
    kind, _, name = table.partition("/")
    return f"{kind}.{urllib.parse.quote(name, safe='')}.jsonl" if name else f"{kind}.jsonl"


def write_dead_letters(folder: str, problems: Iterable[RowProblem]) -> tuple[str, ...]:
    """Writes dropped rows, one file a table, one JSON object a line, in the order of files and rows.

    The keys are those of `RowProblem` and `message`. Without problems not even the folder is made.
    """
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
    """Writes one dropped row as a line of JSON with its end."""
    fields = dataclasses.asdict(problem) | {"message": problem.message}
    return json.dumps(fields, sort_keys=True, ensure_ascii=False) + "\n"
