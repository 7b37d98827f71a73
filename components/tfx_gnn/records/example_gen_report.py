"""What SubgraphExampleGen says about the examples that it made: `statistics.json`, beside their splits."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.io.json_shapes import Shape, read_shaped_json
from tfx_gnn.sampling.engine.sampled_subgraphs import SubgraphStatistics
from tfx_gnn.tables.row_rules import TableReport
from tfx_gnn.tables.spans import TablesSpan, find_span

EXAMPLE_GEN_REPORT_FILE = "statistics.json"
"""File next to the splits with the `ExampleGenReport` as JSON."""

_SPAN: Shape = {"folder": str, "span": (int,), "version": (int,), "name": str}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EarlierSpan:
    """An earlier span of a window, of which there are examples in the first split.

    Attributes:
        tables_span: the tables folder.
        num_seeds: examples, without those of negatives.
        tables: by label of the table, what happened to its rows.
    """

    tables_span: TablesSpan
    num_seeds: int
    tables: Mapping[str, TableReport]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleGenReport:
    """What a run of SubgraphExampleGen read and wrote.

    Attributes:
        statistics: sizes of the examples, and statistics of the hops.
        num_seeds: by split, the number of seeds or, for graph-level examples, of graphs or pairs.
        num_no_seeds: rows that could be seeds but are not: those that `SplitPlan.unused_values` excludes, edges of the
            first split that are for message passing only, and pairs of graphs of different splits. Those of the newest
            span.
        num_negatives: by split, negative pairs that were drawn; empty without negatives.
        num_missing_negatives: by split, negative pairs for which every draw was refused.
        tables: by label of the table, what happened to its rows; of the newest span.
        tables_span: the tables folder that was found, if it was given as a pattern of spans; of the newest span.
        earlier_spans: the earlier spans of the window, in order.
        gaps: neighbours in the window between which a span seems to be missing; see `SpansWindow`.
    """

    statistics: SubgraphStatistics
    num_seeds: Mapping[str, int]
    num_no_seeds: int
    num_negatives: Mapping[str, int]
    num_missing_negatives: Mapping[str, int]
    tables: Mapping[str, TableReport]
    tables_span: TablesSpan | None = None
    earlier_spans: tuple[EarlierSpan, ...] = ()
    gaps: tuple[tuple[str, str], ...] = ()

    def write(self, examples_dir: str) -> None:
        """Writes the report into a folder of examples."""
        with tf.io.gfile.GFile(os.path.join(examples_dir, EXAMPLE_GEN_REPORT_FILE), "w") as file:
            file.write(json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n")


def read_num_seeds(examples_dir: str) -> dict[str, int] | None:
    """Reads the seeds, graphs or pairs of each split; None if the examples are not from SubgraphExampleGen."""
    found = _read(examples_dir, {"num_seeds": {"*": int}})
    return found and found["num_seeds"]


def read_table_rows(examples_dir: str) -> dict[str, int] | None:
    """Reads the rows in the graph, by label of the table; None if the examples are not from SubgraphExampleGen."""
    found = _read(examples_dir, {"tables": {"*": {"rows_used": int}}})
    return found and {label: table["rows_used"] for label, table in found["tables"].items()}


def read_tables_span(examples_dir: str) -> TablesSpan | None:
    """Reads the span of tables that examples were made of; None if they are of none, or do not say it."""
    found = _read(examples_dir, {"tables_span?": (_SPAN,)})
    span = found and found.get("tables_span")
    return TablesSpan(**span) if span else None


def find_same_span(tables_dir: str, examples_dir: str, span: str = "") -> TablesSpan:
    """Finds the tables folder that examples were made of, given the pattern of spans.

    The newest span may be another one by now.

    Args:
        tables_dir: a pattern of tables folders; see `find_span`.
        examples_dir: the examples.
        span: number or date of the span that they must be of; empty for any.

    Raises:
        ValueError: if the examples do not say of which span they are, are of another one, or its folder is gone.
    """
    found = read_tables_span(examples_dir)
    if found is None:
        raise ValueError(
            f"`tables_dir` must be a folder for examples that were not made of a span of tables; got {tables_dir!r} "
            f"with the examples {examples_dir!r}. Name the folder that the examples were sampled from."
        )
    if span and find_span(tables_dir, span).span != found.span:
        raise ValueError(
            f"`span` must be that of the examples {examples_dir!r}, {found.name}; got {span!r}. Leave it out."
        )
    return find_span(tables_dir, found.name, version=found.version)


def _read(examples_dir: str, shape: dict[str, Shape]) -> dict[str, Any] | None:
    path = os.path.join(examples_dir, EXAMPLE_GEN_REPORT_FILE)
    return read_shaped_json(path, shape) if tf.io.gfile.exists(path) else None
