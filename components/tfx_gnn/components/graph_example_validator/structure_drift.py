"""Drift of the graph's structure: rows of tables and mean degrees, compared with those of earlier data."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping

import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.io.json_shapes import read_shaped_json
from tfx_gnn.records.example_gen_report import read_table_rows, read_tables_span

TABLES_FILE = "tables.json"
"""File beside the statistics of the splits with the `TableSizes` as JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableSizes:
    """How large the tables are that examples were made of.

    Attributes:
        span: number or date of the span of the tables; empty if they are of none.
        rows: rows that are in the graph, by "nodes/<set>" and "edges/<set>".
    """

    span: str
    rows: Mapping[str, int]

    def write(self, statistics_dir: str) -> None:
        """Writes the sizes into a folder of statistics."""
        with tf.io.gfile.GFile(os.path.join(statistics_dir, TABLES_FILE), "w") as file:
            file.write(json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StructureShift:
    """A number of the graph's structure that has changed.

    Attributes:
        about: the table, "nodes/<set>" or "edges/<set>".
        words: what has changed, from what to what, and the threshold.
    """

    about: str
    words: str


def read_sizes_of_examples(examples_dir: str) -> TableSizes | None:
    """Reads the sizes of the tables from examples; None if the examples are not from SubgraphExampleGen."""
    rows, span = read_table_rows(examples_dir), read_tables_span(examples_dir)
    return None if rows is None else TableSizes(span=span.name if span else "", rows=rows)


def read_sizes(statistics_dir: str) -> TableSizes | None:
    """Reads the sizes from a folder of statistics; None if it has none, as that of another tool."""
    path = os.path.join(statistics_dir, TABLES_FILE)
    if not statistics_dir or not tf.io.gfile.exists(path):
        return None
    return TableSizes(**read_shaped_json(path, {"span": str, "rows": {"*": int}}))


def measure_structure_drift(
    current: TableSizes, earlier: TableSizes, schema: GraphSchema, threshold: float
) -> list[StructureShift]:
    """Lists the tables whose rows, and the edge sets whose mean degrees, have changed by more than a threshold.

    The change is `1 - smaller / larger`, so half as many and twice as many both are 0.5. What only one of them has is
    not compared.
    """
    now, before = (dict(_numbers(sizes, schema)) for sizes in (current, earlier))
    shifts = []
    for key in now.keys() & before.keys():
        smaller, larger = sorted((now[key], before[key]))
        change = 1 - smaller / larger if larger else 0.0
        if change > threshold:
            about, name = key
            words = f"{name} {_text(now[key])} after {_text(before[key])}: change {change:.4f}, allowed {threshold:g}"
            shifts.append(StructureShift(about=about, words=words))
    return sorted(shifts, key=lambda shift: (shift.about, shift.words))


def compared_spans(current: TableSizes | None, earlier: TableSizes | None) -> str:
    """Says which spans are compared, to be put behind a finding; empty if they have no names."""
    if current is None or earlier is None or not current.span or not earlier.span:
        return ""
    return f", span {current.span} compared with span {earlier.span}"


def _numbers(sizes: TableSizes, schema: GraphSchema) -> Iterator[tuple[tuple[str, str], float]]:
    """Yields the numbers to compare, by table and name."""
    for label, rows in sizes.rows.items():
        yield (label, "rows"), rows
    for name, edge_set in schema.edge_sets.items():
        for end, node_set in (("source", edge_set.source), ("target", edge_set.target)):
            edges, nodes = sizes.rows.get(f"edges/{name}"), sizes.rows.get(f"nodes/{node_set}")
            if edges is not None and nodes:
                yield (f"edges/{name}", f"mean degree of its {end} nodes {node_set!r}"), edges / nodes


def _text(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:.4g}"
