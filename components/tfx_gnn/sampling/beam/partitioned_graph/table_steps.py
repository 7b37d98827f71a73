"""Beam steps that read tables and route their rows."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam import pvalue

from tfx_gnn.sampling.beam.messages import pack
from tfx_gnn.sampling.beam.partitioned_graph import files
from tfx_gnn.sampling.beam.partitioned_graph import rows as table_rows
from tfx_gnn.sampling.beam.partitioned_graph.job import PartitionJob
from tfx_gnn.sampling.beam.partitioned_graph.messages import (
    EndRequest,
    LinkBlock,
    Pairs,
    name_nodes,
    pack_rows,
    partition_key,
)
from tfx_gnn.sampling.beam.partitioned_graph.partitions import (
    partition_of_codes,
    ranges_by_partition,
    split_by_partition,
)
from tfx_gnn.sampling.engine.negatives import MAX_NODE_WEIGHT
from tfx_gnn.sampling.plan.drawing_weights import check_hop_weights, check_node_weights
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE
from tfx_gnn.sampling.plan.seed_splits import pair_keys
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.table_files import TableBlock, read_unit
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import TableLayout

BLOCKS, NODES, REQUESTS, PAIRS, PROBLEMS = "blocks", "nodes", "requests", "pairs", "problems"
ROW_COUNTS, UNIT_COUNTS = "row_counts", "unit_counts"
"""Outputs of `SendBlocks`."""
DROPPED = "dropped"
"""Kind of the counts in `SendBlocks.ROW_COUNTS`, by table label and rule."""


class ReadUnits(beam.DoFn):
    """Reads pairs (label, position of the unit) as pairs (label, `TableBlock`)."""

    def __init__(self, job: PartitionJob) -> None:
        self._job = job

    def process(self, element: tuple[str, int]) -> Iterator[tuple[str, TableBlock]]:
        """Reads the blocks of one unit."""
        label, unit = element
        for block in read_unit(self._job.layouts[label], self._job.units[label][unit], self._job.rules):
            yield label, block


class SendBlocks(beam.DoFn):
    """Converts pairs (label, `TableBlock`) to messages.

    Outputs, by tag:
        NODES: nodes, by partition and node set.
        BLOCKS: `LinkBlock`, by its key.
        REQUESTS: `EndRequest`, by partition and node set.
        PAIRS: `Pairs`, by partition of the pairs and label of the table.
        PROBLEMS: rows that were left out, as tuples of `RowProblem`, by unit.
        ROW_COUNTS: pairs of (`DROPPED`, label, rule) and a count.
        UNIT_COUNTS: pairs of (label, unit) and the numbers of rows that were read and that are usable.
    """

    def __init__(self, job: PartitionJob) -> None:
        self._job = job

    def process(self, element: tuple[str, TableBlock]) -> Iterator[Any]:
        """Splits one block into messages."""
        label, block = element
        layout = self._job.layouts[label]
        yield pvalue.TaggedOutput(UNIT_COUNTS, ((label, block.unit), (block.num_rows_read, block.num_rows)))
        if block.problems:
            yield pvalue.TaggedOutput(PROBLEMS, (unit_key(label, block.unit), pack(block.problems)))
            for rule, count in collections.Counter(problem.rule for problem in block.problems).items():
                yield pvalue.TaggedOutput(ROW_COUNTS, ((DROPPED, label, rule), (count,)))
        if not block.num_rows:
            return
        _check_weights(self._job, layout, block)
        if layout.kind == "node":
            yield from self._nodes(layout, block)
        else:
            yield from self._links(layout, block)

    def _nodes(self, layout: TableLayout, block: TableBlock) -> Iterator[Any]:
        given = table_rows.GivenRows(
            columns=pa.table(dict(block.columns)),
            rows=block.rows,
            place_of=place_in_file(self._job, layout.label, block.unit, block.rows),
        )
        rows = table_rows.node_rows(self._job.plan, self._job.requirements, layout.name, given)
        rows = rows.append_column(files.UNIT, pa.array(np.full(block.num_rows, block.unit, np.int32)))
        partitions = partition_of_codes(files.as_codes(rows.column(files.CODE)), self._job.num_partitions)
        for partition, part in split_by_partition(rows, partitions):
            yield pvalue.TaggedOutput(NODES, (partition_key(partition, layout.name), pack_rows(part)))

    def _links(self, layout: TableLayout, block: TableBlock) -> Iterator[Any]:
        end_keys = self._job.end_keys(layout.label)
        codes = tuple(hash_ids(block.columns[key]) for key in end_keys)
        ends = tuple(map(name_nodes, codes))
        key = f"{layout.label}#{block.unit}#{block.rows[0]}"
        # Rows that cannot be read again keep their ids, for error messages.
        dropped_keys = () if self._job.is_read_once(layout.label) else end_keys
        columns = {name: values for name, values in block.columns.items() if name not in dropped_keys}
        # The unit column keeps the number of rows, which a table without columns would lose.
        message = LinkBlock(
            key=key,
            label=layout.label,
            unit=block.unit,
            rows=block.rows,
            ends=ends,
            columns=pack_rows(pa.table({files.UNIT: pa.nulls(block.num_rows), **columns})),
        )
        yield pvalue.TaggedOutput(BLOCKS, (key, pack(message)))
        for end, (nodes, node_set) in enumerate(zip(ends, self._job.end_sets(layout.label), strict=True)):
            for partition, where in ranges_by_partition(nodes.distinct, self._job.num_partitions):
                request = EndRequest(block=key, end=end, partition=partition, codes=nodes.distinct[where])
                yield pvalue.TaggedOutput(REQUESTS, (partition_key(partition, node_set), pack(request)))
        yield from self._pairs(layout.label, key, block, codes)

    def _pairs(
        self, label: str, key: str, block: TableBlock, ends: tuple[npt.NDArray[np.uint64], ...]
    ) -> Iterator[Any]:
        time_key = self._job.time_key(label)
        times = _integers(block.columns[time_key]) if time_key else None
        identity = [hash_ids(block.columns[name]) for name in self._job.identity_keys(label)]
        keys = pair_keys(ends[0], ends[-1])  # for a single node, the pair of the node and itself
        order = np.argsort(keys)
        for partition, where in ranges_by_partition(keys[order], self._job.num_partitions):
            chosen = order[where]
            message = Pairs(
                block=key,
                unit=block.unit,
                first_row=int(block.rows[0]),
                positions=chosen.astype(np.min_scalar_type(block.num_rows - 1)),
                ends=tuple(codes[chosen] for codes in ends),
                times=None if times is None else times[chosen],
                identity=tuple(codes[chosen] for codes in identity),
            )
            yield pvalue.TaggedOutput(PAIRS, (partition_key(partition, label), pack(message)))


def _check_weights(job: PartitionJob, layout: TableLayout, block: TableBlock) -> None:
    """Refuses weights that the plan cannot choose edges or negatives by."""
    place_of = place_in_file(job, layout.label, block.unit, block.rows)
    negatives = job.plan.negatives
    if layout.kind == "edge":
        for hop in job.plan.hops:
            if hop.edge_set == layout.name and hop.weight_feature:
                check_hop_weights(hop, _floats(block.columns[hop.weight_feature]), place_of)
    elif layout.kind == "node" and negatives and negatives.weight_feature:
        drawn_set = job.requirements.root_sets[0 if negatives.side == ROOT_SOURCE else 1]
        if layout.name == drawn_set:
            feature = negatives.weight_feature
            check_node_weights(_floats(block.columns[feature]), MAX_NODE_WEIGHT, feature, place_of)


def place_in_file(job: PartitionJob, label: str, unit: int, rows: npt.NDArray[np.int64]) -> Callable[[int], str]:
    """Returns a function that describes the place of a row of a block, as in "/data/nodes.csv, line 12".

    `rows` are the block's positions in the unit. The file is opened only when the function is called.
    """
    layout, read = job.layouts[label], job.units[label][unit]
    return lambda position: table_format(layout).place(read.path, read.part, int(rows[position]))


class SumByKey(beam.CombineFn):
    """Sums pairs of a key and a tuple of numbers into one dict."""

    def create_accumulator(self) -> dict[Any, tuple[int, ...]]:
        """Returns an empty dict."""
        return {}

    def add_input(self, mutable_accumulator: dict[Any, tuple[int, ...]], element: Any) -> dict[Any, tuple[int, ...]]:
        """Adds one pair."""
        key, numbers = element
        known = mutable_accumulator.get(key)
        mutable_accumulator[key] = numbers if known is None else tuple(map(sum, zip(known, numbers, strict=True)))
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Any) -> dict[Any, tuple[int, ...]]:
        """Merges sums."""
        merged: dict[Any, tuple[int, ...]] = {}
        for accumulator in accumulators:
            for item in accumulator.items():
                self.add_input(merged, item)
        return merged

    def extract_output(self, accumulator: dict[Any, tuple[int, ...]]) -> dict[Any, tuple[int, ...]]:
        """Returns the sums."""
        return accumulator


def unit_key(label: str, unit: int) -> str:
    """Returns the key of one unit; within a table, keys sort by unit."""
    return f"{unit:08d}/{label}"


def starts_of_units(counts: dict[tuple[str, int], tuple[int, int]]) -> dict[tuple[str, int], int]:
    """Returns the row of the table at which each unit begins, by label and unit."""
    starts: dict[tuple[str, int], int] = {}
    sums: collections.Counter[str] = collections.Counter()
    for label, unit in sorted(counts):
        starts[label, unit] = sums[label]
        sums[label] += counts[label, unit][0]
    return starts


def _floats(values: pa.Array) -> npt.NDArray[np.float64]:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)


def _integers(values: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.int64)
