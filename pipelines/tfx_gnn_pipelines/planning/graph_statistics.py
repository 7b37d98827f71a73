"""Estimates the examples of a pipeline from its tables alone: how many there are, and how large their subgraphs are.

Seconds at most: columns of ids are read, of large tables a part, and no subgraph is sampled.
"""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn_pipelines.config import PipelineConfig, is_uri
from tfx_gnn_pipelines.planning.light_schema import SetTable, read_light_schema

_MOST_ROWS = 2_000_000
_MOST_BYTES = 64 * 2**20
_MEASURE = "Plan with --measure, which reads every kind of table."
_Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphStatistics:
    """What tables tell of examples.

    Attributes:
        num_examples: by split.
        nodes: mean number of nodes of a subgraph, its seed included.
        edges: mean number of its different edges.
        edges_by_hop: mean number of the edges that each hop takes.
        table_bytes: size of the files of all tables.
        num_rows: rows of all tables.
        notes: what was not counted exactly, as sentences.
    """

    num_examples: dict[str, int]
    nodes: float
    edges: float
    edges_by_hop: dict[str, float]
    table_bytes: int
    num_rows: int
    notes: tuple[str, ...]

    @property
    def row_bytes(self) -> float:
        """Mean bytes of a row in its file."""
        return self.table_bytes / max(self.num_rows, 1)


@dataclasses.dataclass(frozen=True)
class _Columns:
    """Columns of a table, or of the first part of it.

    Attributes:
        table: the rows that were read.
        share: their share of all rows.
    """

    table: pa.Table
    share: float

    @property
    def num_rows(self) -> int:
        """Rows of the whole table, estimated if a part was read."""
        return round(self.table.num_rows / self.share)


def estimate_statistics(config: PipelineConfig) -> GraphStatistics:
    """Reads the tables of a pipeline.

    Seeds are counted by split. For each hop, the edges of a node are the mean of the smaller of its degree and the
    fan-out: over all seeds for the first hop, and over the ends of edges for later ones, which reach nodes in
    proportion to their degree. A hop that goes back over the edges of the one before takes the edge that it came by as
    often as any other. Nodes that are reached twice are expected once. Times are not looked at: subgraphs of a temporal
    plan are smaller.

    Raises:
        ValueError: if the tables are remote, of another format than CSV, TSV or Parquet, or the pipeline has no plan.
    """
    plan = config.subgraph_example_gen.plan
    if is_uri(config.tables_dir) or plan is None or config.tables_pattern:
        raise ValueError(
            "`tables` must be one folder of this machine, from which a plan samples, to be estimated from statistics; "
            f"got {config.tables_dir!r}. {_MEASURE}"
        )
    node_sets, edge_sets = read_light_schema(config.tables_dir)
    tables = _Tables(config.tables_dir, node_sets, edge_sets)
    num_examples = tables.count_seeds(plan)
    nodes, edges, by_hop = tables.expand(plan)
    notes = list(tables.notes)
    if plan.temporal is not None:
        notes.append("Edges that are newer than a seed are counted, although examples do not have them.")
    if plan.negatives is not None or plan.induced_edge_sets:
        notes.append("Negatives and induced edges are not counted.")
    return GraphStatistics(
        num_examples=num_examples,
        nodes=nodes,
        edges=edges,
        edges_by_hop=by_hop,
        table_bytes=tables.num_bytes,
        num_rows=sum(tables.count_rows(one) for one in [*node_sets.values(), *edge_sets.values()] if one.filename),
        notes=tuple(notes),
    )


class _Tables:
    """The tables of a folder."""

    def __init__(self, folder: str, node_sets: Mapping[str, SetTable], edge_sets: Mapping[str, SetTable]) -> None:
        self._folder, self._node_sets, self._edge_sets = folder, node_sets, edge_sets
        self.notes: dict[str, None] = {}
        self.num_bytes = 0
        self._ids: dict[str, pa.Array | None] = {}
        self._rows: dict[str, int] = {}
        for one in {one.filename: one for one in [*node_sets.values(), *edge_sets.values()] if one.filename}.values():
            self.num_bytes += sum(os.path.getsize(path) for path in self._paths(one.filename))

    def count_rows(self, table: SetTable) -> int:
        """Counts the rows of a table, by the metadata of Parquet files."""
        if table.filename not in self._rows:
            if self._paths(table.filename)[0].endswith(".parquet"):
                paths = self._paths(table.filename)
                self._rows[table.filename] = sum(pq.read_metadata(path).num_rows for path in paths)
            else:
                self._rows[table.filename] = self._read(table, []).num_rows
        return self._rows[table.filename]

    def count_seeds(self, plan: SamplingPlan) -> dict[str, int]:
        """Counts the examples by split."""
        if plan.seed_table is not None:
            table = SetTable(filename=plan.seed_table.filename, extra={}, ends=())
        else:
            table = {**self._node_sets, **self._edge_sets}[plan.seed_node_set or plan.seed_edge_set]
        splits = plan.splits
        column = splits.column or splits.time_feature
        if not column or column == splits.group_column:
            total, weights = self.count_rows(table), splits.weights
            return {name: round(total * weight / sum(weights.values())) for name, weight in weights.items()}
        found = self._read(table, [column])
        values = found.table.column(column).drop_null()
        if splits.column:
            counted = {str(one["values"]): int(one["counts"]) for one in pc.value_counts(values).to_pylist()}
            counted = {name: count for name, count in counted.items() if name and name not in splits.unused_values}
        else:
            times = _as_seconds(values).to_numpy()
            counted, start = {}, -np.inf
            for name, end in splits.until.items():
                stop = np.inf if end is None else float(end)
                counted[name] = int(((times >= start) & (times < stop)).sum())
                start = stop
        return {name: round(count / found.share) for name, count in sorted(counted.items())}

    def expand(self, plan: SamplingPlan) -> tuple[float, float, dict[str, float]]:
        """Returns the mean numbers of nodes and of different edges of a subgraph, and of edges by hop."""
        roots = [plan.seed_node_set] if plan.seed_node_set else list(self._edge_sets[plan.seed_edge_set].ends)
        # By hop: the nodes that it found in a subgraph, their set, and how likely each node of the set is.
        reached: dict[str, tuple[float, str, _Floats | None]] = {}
        names = ("seed",) if plan.seed_node_set else ("source", "target")
        for name, root in zip(names, roots, strict=False):
            reached[name] = (1.0, root, None)
        by_hop: dict[str, float] = {}
        all_edges = 0.0
        hops = {hop.name: hop for hop in plan.hops}
        found: dict[str, list[tuple[float, _Floats]]] = {}
        for hop in plan.hops:
            edges, new, likely = 0.0, 0.0, None
            for name in hop.inputs:
                if name not in reached:
                    continue
                count, node_set, weights = reached[name]
                before = hops.get(name)
                goes_back = before is not None and before.edge_set == hop.edge_set and before.direction != hop.direction
                mean, of_new, likely = self._hop(hop, node_set, weights, goes_back=goes_back)
                edges, new = edges + count * mean, new + count * of_new
            target = self._edge_sets[hop.edge_set].ends[hop.direction == "forward"]
            by_hop[hop.name] = edges
            all_edges += new
            if likely is not None:
                found.setdefault(target, []).append((new, likely))
                # Later hops also start from the nodes that this one came from.
                reached[hop.name] = (max(_distinct(new, likely), min(edges, 1.0)), target, likely)
        nodes = float(len(roots))
        for drawn in found.values():
            missed = np.prod([_missed(edges, likely) for edges, likely in drawn], axis=0)
            nodes += float((1.0 - missed).sum())
        return nodes, all_edges, by_hop

    def _hop(
        self, hop: Hop, node_set: str, weights: _Floats | None, *, goes_back: bool
    ) -> tuple[float, float, _Floats]:
        """Returns how many edges a hop takes from a node on average, and how likely each node is at the other end.

        The second number is without those by which the node was reached.
        """
        start, end = ("source", "target") if hop.direction == "forward" else ("target", "source")
        table = self._edge_sets[hop.edge_set]
        read = self._read(table, [table.column(start), table.column(end)])
        degrees = self._degrees(read, table.column(start), node_set)
        taken = np.minimum(degrees, hop.fan_out) if hop.fan_out else degrees
        new = taken - np.minimum(taken / np.maximum(degrees, 1.0), 1.0) if goes_back else taken
        if weights is None or len(weights) != len(taken) or not weights.sum():
            weights = np.ones_like(taken)
        total = float(weights.sum()) or 1.0
        mean, of_new = float((taken * weights).sum()) / total, float((new * weights).sum()) / total
        other = self._degrees(read, table.column(end), table.ends[hop.direction == "forward"])
        return mean, of_new, other / max(float(other.sum()), 1.0)

    def _degrees(self, read: _Columns, column: str, node_set: str) -> _Floats:
        """Counts the edges of each node of a set."""
        ids = self._ids_of(node_set)
        values = _as_text(read.table.column(column)).drop_null()
        if ids is None:
            counts = pc.value_counts(values).field("counts").to_numpy()
            return np.asarray(counts, np.float64) / read.share
        positions = pc.index_in(values, value_set=ids).drop_null().to_numpy()
        return np.bincount(positions, minlength=len(ids)).astype(np.float64) / read.share

    def _ids_of(self, node_set: str) -> pa.Array | None:
        """Returns the ids of a node set; None if it has no table."""
        if node_set not in self._ids:
            table = self._node_sets[node_set]
            ids = None
            if table.filename:
                ids = _as_text(self._read(table, [table.column("id")]).table.column(0)).unique()
            self._ids[node_set] = ids
        return self._ids[node_set]

    def _paths(self, filename: str) -> list[str]:
        paths = [
            path for name in filename.split(",") for path in sorted(glob.glob(os.path.join(self._folder, name.strip())))
        ]
        known = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
        if not paths or not all(path.endswith(known) for path in paths):
            raise ValueError(
                f"`metadata.filename` must name CSV, TSV or Parquet files to be estimated from statistics; got "
                f"{filename!r} in {self._folder!r}. {_MEASURE}"
            )
        return paths

    def _read(self, table: SetTable, columns: Sequence[str]) -> _Columns:
        parts = [_read_part(path, columns) for path in self._paths(table.filename)]
        found = pa.concat_tables([part.table for part in parts], **_promoted())
        share = found.num_rows / max(sum(part.num_rows for part in parts), 1)
        if any(part.share < 1.0 for part in parts):
            self.notes[f"Of {table.filename}, {100 * share:.1f}% of the rows were read; the rest was scaled."] = None
        return _Columns(found, share or 1.0)


def _promoted() -> dict[str, Any]:
    return {"promote_options": "permissive"} if int(pa.__version__.partition(".")[0]) >= 14 else {}


def _read_part(path: str, columns: Sequence[str]) -> _Columns:
    """Reads columns of one file, of a large one the beginning; all columns of a CSV file if none are named."""
    if path.endswith(".parquet"):
        file = pq.ParquetFile(path)
        groups: list[int] = []
        rows = 0
        while len(groups) < file.num_row_groups and rows < _MOST_ROWS:
            rows += file.metadata.row_group(len(groups)).num_rows
            groups.append(len(groups))
        table = file.read_row_groups(groups, columns=list(columns)) if groups else file.read(columns=list(columns))
        return _Columns(table, rows / max(file.metadata.num_rows, 1) or 1.0)
    size, source, share = os.path.getsize(path), path, 1.0
    if size > _MOST_BYTES and not path.endswith(".gz"):
        with open(path, "rb") as opened:
            data = opened.read(_MOST_BYTES)
        data = data[: data.rfind(b"\n") + 1]
        source, share = pa.BufferReader(data), len(data) / size
    delimiter = "\t" if ".tsv" in os.path.basename(path) else ","
    table = pa_csv.read_csv(
        source,
        parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            include_columns=list(columns) or None, column_types=dict.fromkeys(columns, pa.string())
        ),
    )
    return _Columns(table, share)


def _as_seconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Reads times, which a CSV file may spell as whole seconds or as dates."""
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if is_text and pc.all(pc.match_substring_regex(column, "^-?[0-9]+$")).as_py():
        return column.cast(pa.int64())
    if not pa.types.is_integer(column.type):
        column = column.cast(pa.timestamp("s"), safe=False)
    return column.cast(pa.int64())


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    found = column.cast(pa.large_string()).combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def _missed(draws: float, likely: _Floats) -> _Floats:
    """Returns how likely it is that draws miss each node."""
    return np.asarray((1.0 - np.minimum(likely, 1.0)) ** draws)


def _distinct(draws: float, likely: _Floats) -> float:
    """Returns how many different nodes draws find on average."""
    return float((1.0 - _missed(draws, likely)).sum())
