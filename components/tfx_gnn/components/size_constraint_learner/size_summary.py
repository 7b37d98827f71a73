"""Mergeable summary of graph sizes: exact totals, and a sample of their joint distribution.

A summary holds each distinct row (sizes of all sets in the order of `SizeRule`, label class, degree bucket) with its
exact count as long as there are few distinct rows. For when there are many, it also holds a sample of graphs: those
with the smallest hashes, so that the sample does not depend on the order in which summaries are merged.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.size_constraints import SetKey, SizeConstraints, SizeRule
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.index_features import IndexFeatures, iter_index_features


@dataclasses.dataclass(frozen=True)
class SizeColumns:
    """The meaning of the columns in an array of sizes.

    Attributes:
        sets: ("nodes", name), ..., ("edges", name), ...
        edge_positions: column of the edge set of each edge end.
        end_positions: column of the node set of each edge end.
        readouts: columns of the node sets of readouts.
        readout_of: for each edge set that leads to readouts, its column and the column of these readouts.
        indexed: columns of the node sets that features hold indices of.
    """

    sets: tuple[SetKey, ...]
    edge_positions: tuple[int, ...]
    end_positions: tuple[int, ...]
    readouts: tuple[int, ...]
    readout_of: tuple[tuple[int, int], ...]
    indexed: tuple[int, ...] = ()

    @staticmethod
    def of(spec: GraphTensorSpec, index_features: IndexFeatures | None = None) -> SizeColumns:
        """Derives the columns from the spec of one graph and its features that hold indices of nodes."""
        indexed = {name for one in iter_index_features(index_features or {}) for name in one.node_sets}
        nothing = SizeConstraints(1, dict.fromkeys(spec.node_sets_spec, 0), dict.fromkeys(spec.edge_sets_spec, 0))
        rule = SizeRule.from_constraints(spec, nothing)
        ends = list(zip(rule.edge_positions.tolist(), rule.end_positions.tolist(), strict=True))
        readouts = tuple(
            column
            for column, (kind, name) in enumerate(rule.sets)
            if kind == const.NODES and name.startswith(READOUT_NODE_SET)
        )
        return SizeColumns(
            sets=rule.sets,
            edge_positions=tuple(edge for edge, _ in ends),
            end_positions=tuple(end for _, end in ends),
            readouts=readouts,
            readout_of=tuple((edge, end) for edge, end in ends if end in readouts),
            indexed=tuple(
                column for column, (kind, name) in enumerate(rule.sets) if kind == const.NODES and name in indexed
            ),
        )

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The sets' prefixes, such as "nodes/package"."""
        return tuple(f"{kind}/{name}" for kind, name in self.sets)

    @property
    def size_keys(self) -> tuple[str, ...]:
        """The tf.Example key of each column."""
        return tuple(f"{prefix}.{const.SIZE_NAME}" for prefix in self.prefixes)


MAX_DISTINCT = 200_000
"""Distinct rows that are counted exactly; if there are more, a sample represents them."""

SAMPLE_SIZE = 200_000
"""Graphs in the sample."""

MAX_GRAPHS = 1 << 19
"""Maximum number of graphs that represent a split."""

NO_LABEL = np.iinfo(np.int32).min
"""Label class of graphs without a label."""

Integers = npt.NDArray[np.int64]

Hashes = npt.NDArray[np.uint64]

Rows = npt.NDArray[np.int32]

_NUM_BINS = 33

#: Bit of a record's hash that assigns a graph to one half of its split.
_HALF_BIT = np.uint64(1)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SplitSummary:
    """Sizes of the graphs of one split. S is the number of sets in `SizeColumns`.

    Attributes:
        num_graphs: graphs seen.
        totals: int64 [S], items of all graphs.
        minima: int64 [S], smallest size of a graph.
        maxima: int64 [S], largest size of a graph.
        histograms: int64 [S, 33]: number of graphs with no items (i = 0), and with [2**(i-1), 2**i) items.
        is_tied: bool [S]: whether in each graph the set has as many items as the set that it is tied to.
        rows: int32 [num_distinct, S + 2], in ascending order: sizes, label class, degree bucket. None
            if there are too many.
        counts: int64 [num_distinct, 2]: graphs with that row in each half of the split; None if `rows` is None.
        sample_hashes: uint64 [num_sampled], in ascending order: the smallest hashes of records.
        sample_rows: int32 [num_sampled, S + 2]: the rows of the sampled records.
    """

    num_graphs: int
    totals: Integers
    minima: Integers
    maxima: Integers
    histograms: Integers
    is_tied: npt.NDArray[np.bool_]
    rows: Rows | None
    counts: Integers | None
    sample_hashes: Hashes
    sample_rows: Rows

    def __eq__(self, other: object) -> bool:
        """Compares all values of two summaries."""
        if not isinstance(other, SplitSummary):
            return NotImplemented
        mine, theirs = self.arrays(), other.arrays()
        return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        """Returns the same hash for equal summaries."""
        return hash((self.num_graphs, self.totals.tobytes()))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All values by name, except those that are None."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: np.asarray(value) for name, value in values.items() if value is not None}

    @staticmethod
    def of_graphs(rows: Rows, hashes: Hashes, ties: Mapping[int, int]) -> SplitSummary:
        """Summarizes at least one graph: `rows` are int32 [n, S + 2], `hashes` of their records uint64 [n].

        `ties` maps a column to the one that it is compared with, for `is_tied`.
        """
        sizes = rows[:, :-2].astype(np.int64)
        is_tied = np.zeros(sizes.shape[1], bool)
        for column, other in ties.items():
            is_tied[column] = bool((sizes[:, column] == sizes[:, other]).all())
        bins = np.ceil(np.log2(sizes + 1.0)).astype(np.int64)
        histograms = np.stack([np.bincount(column, minlength=_NUM_BINS) for column in bins.T])
        halves = (hashes & _HALF_BIT).astype(np.int64)
        distinct, counts = _count_rows(rows, np.stack([1 - halves, halves], axis=1))
        order = _sample_order(hashes, rows)
        return SplitSummary(
            num_graphs=len(rows),
            totals=sizes.sum(axis=0),
            minima=sizes.min(axis=0),
            maxima=sizes.max(axis=0),
            histograms=histograms,
            is_tied=is_tied,
            rows=distinct if len(distinct) <= MAX_DISTINCT else None,
            counts=counts if len(distinct) <= MAX_DISTINCT else None,
            sample_hashes=hashes[order],
            sample_rows=rows[order],
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeSummary:
    """Sizes of the graphs in a part of the data.

    Attributes:
        splits: summaries by split.
        problem: message for the first file that could not be read; empty if all could.
    """

    splits: dict[str, SplitSummary] = dataclasses.field(default_factory=dict)
    problem: str = ""


def merge_size_summaries(summaries: Iterable[SizeSummary]) -> SizeSummary:
    """Merges summaries of disjoint parts, in any order and grouping."""
    parts = list(summaries)
    by_split: dict[str, list[SplitSummary]] = {}
    for part in parts:
        for split, summary in part.splits.items():
            by_split.setdefault(split, []).append(summary)
    return SizeSummary(
        splits={split: merge_split_summaries(found) for split, found in sorted(by_split.items())},
        problem=min((part.problem for part in parts if part.problem), default=""),
    )


def merge_split_summaries(parts: list[SplitSummary]) -> SplitSummary:
    """Merges summaries of disjoint parts of a split, at least one, in any order and grouping."""
    if len(parts) == 1:
        return parts[0]
    rows: Rows | None = None
    counts: Integers | None = None
    # If a part has too many distinct rows to count, so does the whole.
    counted = [(part.rows, part.counts) for part in parts if part.rows is not None and part.counts is not None]
    if len(counted) == len(parts):
        rows, counts = _count_rows(
            np.concatenate([some_rows for some_rows, _ in counted]),
            np.concatenate([some_counts for _, some_counts in counted]),
        )
        if len(rows) > MAX_DISTINCT:
            rows = counts = None
    hashes = np.concatenate([part.sample_hashes for part in parts])
    sampled = np.concatenate([part.sample_rows for part in parts])
    order = _sample_order(hashes, sampled)
    return SplitSummary(
        num_graphs=sum(part.num_graphs for part in parts),
        totals=np.sum([part.totals for part in parts], axis=0),
        minima=np.min([part.minima for part in parts], axis=0),
        maxima=np.max([part.maxima for part in parts], axis=0),
        histograms=np.sum([part.histograms for part in parts], axis=0),
        is_tied=np.all([part.is_tied for part in parts], axis=0),
        rows=rows,
        counts=counts,
        sample_hashes=hashes[order],
        sample_rows=sampled[order],
    )


@dataclasses.dataclass(frozen=True, eq=False)
class SampledGraphs:
    """Graphs that represent a split.

    Attributes:
        sizes: int32 [num_graphs, num_sets].
        labels: int32 [num_graphs], label classes.
        degrees: int32 [num_graphs], degree buckets.
        weight: number of graphs in the split that each of these represents.
    """

    sizes: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int32]
    degrees: npt.NDArray[np.int32]
    weight: float = 1.0


def sample_graphs(summary: SplitSummary, half: int | None = None) -> SampledGraphs:
    """Takes graphs from a summary: all if there are few, else a proportional sample; the result may be empty.

    `half` is 0 or 1 for one half of the split, as determined by the hashes of records; None for all.
    """
    if summary.rows is not None and summary.counts is not None:
        counts = summary.counts.sum(axis=1) if half is None else summary.counts[:, half]
        total = int(counts.sum())
        num_taken = min(total, MAX_GRAPHS)
        # Every n-th graph: each row is taken in proportion to its count, to within one graph.
        taken = (np.arange(num_taken) * total + total // 2) // max(num_taken, 1)
        rows = summary.rows[np.searchsorted(np.cumsum(counts), taken, side="right")]
        weight = total / max(num_taken, 1)
    else:
        rows = summary.sample_rows
        weight = summary.num_graphs / len(rows)
        if half is not None:
            rows = rows[(summary.sample_hashes & _HALF_BIT) == half]
    return SampledGraphs(
        sizes=np.ascontiguousarray(rows[:, :-2]), labels=rows[:, -2], degrees=rows[:, -1], weight=weight
    )


def write_summary(summary: SizeSummary, path: str) -> None:
    """Writes a summary to a file, for `read_summary`."""
    arrays: dict[str, npt.NDArray[Any]] = {"problem": np.asarray(summary.problem)}
    for number, (split, part) in enumerate(summary.splits.items()):
        arrays[f"{number}/split"] = np.asarray(split)
        arrays.update({f"{number}/{name}": value for name, value in part.arrays().items()})
    content = io.BytesIO()
    np.savez(content, **arrays)
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(content.getvalue())


def read_summary(path: str) -> SizeSummary:
    """Reads a summary that `write_summary` wrote."""
    with tf.io.gfile.GFile(path, "rb") as file:
        arrays = dict(np.load(io.BytesIO(file.read()), allow_pickle=False))
    splits = {}
    for number in range(sum(name.endswith("/split") for name in arrays)):
        part: dict[str, Any] = {
            field.name: arrays.get(f"{number}/{field.name}") for field in dataclasses.fields(SplitSummary)
        }
        part["num_graphs"] = int(arrays[f"{number}/num_graphs"])
        splits[str(arrays[f"{number}/split"])] = SplitSummary(**part)
    return SizeSummary(splits=splits, problem=str(arrays["problem"]))


def _count_rows(rows: Rows, counts: Integers) -> tuple[Rows, Integers]:
    """Adds up the counts of equal rows; returns the distinct rows in ascending order."""
    order = np.lexsort(rows.T[::-1])
    rows, counts = rows[order], counts[order]
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[is_first], np.add.reduceat(counts, np.flatnonzero(is_first), axis=0)


def _sample_order(hashes: Hashes, rows: Rows) -> Integers:
    """Positions of the graphs with the smallest hashes, in an order that does not depend on the input's."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    if (ordered[1:] == ordered[:-1]).any():
        # Different records may have the same hash: the rows break the tie, independently of the order of the input.
        order = np.lexsort([*rows.T[::-1], hashes])
    return order[:SAMPLE_SIZE]
