"""Beam steps that sum and summarize degrees, and write the edges, hubs and seeds of each partition."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam import pvalue

from tfx_gnn.sampling.beam.messages import pack, unpack, unpack_table
from tfx_gnn.sampling.beam.partitioned_graph import files
from tfx_gnn.sampling.beam.partitioned_graph import rows as table_rows
from tfx_gnn.sampling.beam.partitioned_graph.job import END_OF_DIRECTION, PartitionJob
from tfx_gnn.sampling.beam.partitioned_graph.join_steps import RECORDS, EdgeBlock
from tfx_gnn.sampling.beam.partitioned_graph.messages import (
    Degrees,
    EndCounts,
    Hubs,
    KnownNodes,
    pack_rows,
    partition_key,
    split_key,
)
from tfx_gnn.sampling.beam.partitioned_graph.partitions import (
    bucket_bits,
    bucket_partition_of,
    buckets_of_edges,
    concatenate,
    count_buckets,
    hub_rows,
    partition_of_codes,
    positions_in,
    sort_edges,
    sort_seeds,
    split_by_partition,
)

ANSWERS, HUBS, SUMMARIES, BUCKETS = "answers", "hubs", "summaries", "buckets"
"""Outputs of `SumDegrees`, and of `WriteEdges`."""
NUM_TOP_HUBS = 10
"""Number of nodes of largest degree that are named."""

_MAX_UNSUMMED = 1 << 22  # counts waiting to be summed: 64 MB

_Codes = npt.NDArray[np.uint64]
_Counts = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DegreeSummary:
    """Degrees of the nodes of one edge set in one direction.

    Attributes:
        histogram: number of nodes with a degree in [2**i, 2**(i + 1)), at position i. Nodes without edges
            are not counted.
        top: pairs (degree, code) of the `NUM_TOP_HUBS` nodes of largest degree, descending; ties are broken by
            smaller code.
    """

    histogram: tuple[int, ...] = ()
    top: tuple[tuple[int, int], ...] = ()

    @property
    def num_nodes(self) -> int:
        """Number of nodes with edges."""
        return sum(self.histogram)


def summarize_degrees(codes: npt.NDArray[np.uint64], degrees: npt.NDArray[np.int64]) -> DegreeSummary:
    """Summarizes some nodes with at least one edge each."""
    top = np.lexsort((codes, -degrees))[:NUM_TOP_HUBS]
    return DegreeSummary(
        histogram=tuple(np.bincount(np.frexp(degrees)[1] - 1).tolist()),
        top=tuple(zip(degrees[top].tolist(), codes[top].tolist(), strict=True)),
    )


class MergeDegrees(beam.CombineFn):
    """Merges summaries of different nodes."""

    def create_accumulator(self) -> DegreeSummary:
        """Returns an empty summary."""
        return DegreeSummary()

    def add_input(self, mutable_accumulator: DegreeSummary, element: DegreeSummary) -> DegreeSummary:
        """Adds the summary of other nodes."""
        return self.merge_accumulators([mutable_accumulator, element])

    def merge_accumulators(self, accumulators: Iterable[DegreeSummary]) -> DegreeSummary:
        """Merges summaries."""
        parts = list(accumulators)
        histogram = np.zeros(max((len(part.histogram) for part in parts), default=0), np.int64)
        for part in parts:
            histogram[: len(part.histogram)] += np.array(part.histogram, np.int64)
        top = sorted((pair for part in parts for pair in part.top), key=lambda pair: (-pair[0], pair[1]))
        return DegreeSummary(histogram=tuple(histogram.tolist()), top=tuple(top[:NUM_TOP_HUBS]))

    def extract_output(self, accumulator: DegreeSummary) -> DegreeSummary:
        """Returns the summary."""
        return accumulator


class SumDegrees(beam.DoFn):
    """Sums the `EndCounts` of each partition, end and edge set; with `KnownNodes` where degrees are stored.

    Outputs, by tag:
        ANSWERS: `Degrees`, by key of the block.
        HUBS: `Hubs`.
        SUMMARIES: pairs of (edge set, direction) and `DegreeSummary`.
        RECORDS: `PartitionRecord` of in-degrees.
    """

    def __init__(self, job: PartitionJob) -> None:
        self._job = job

    def process(self, element: tuple[str, Iterable[bytes]]) -> Iterator[Any]:
        """Sums the degrees of the nodes of one partition."""
        key, messages = element
        partition, what = split_key(key)
        end, _, edge_set = what.partition("/")
        requirements = self._job.requirements.edge_sets[edge_set]
        codes, degrees, drawn = _sum(messages)
        for direction in requirements.directions:
            if END_OF_DIRECTION[direction] == end and len(codes):
                is_hub = degrees > self._job.hub_degree
                if is_hub.any():
                    hubs = Hubs(edge_set=edge_set, direction=direction, codes=codes[is_hub], degrees=degrees[is_hub])
                    yield pvalue.TaggedOutput(HUBS, pack(hubs))
                yield pvalue.TaggedOutput(SUMMARIES, ((edge_set, direction), summarize_degrees(codes, degrees)))
        if drawn is not None and end == requirements.stored_degrees:
            positions = positions_in(codes, drawn)
            stored = np.where(positions < 0, 0, degrees[positions] if len(degrees) else 0).astype(np.int64)
            rows = pa.table({files.IN_DEGREE: stored})
            record = files.write_partition(self._job.partitions_dir, files.in_degree_table(edge_set), partition, rows)
            yield pvalue.TaggedOutput(RECORDS, record)
        for message in messages:
            request = unpack(message)
            if isinstance(request, EndCounts) and request.block:
                counts = degrees[positions_in(codes, request.codes)]
                answer = Degrees(end=end, partition=request.partition, counts=counts)
                yield pvalue.TaggedOutput(ANSWERS, (request.block, pack(answer)))


class RouteEdges(beam.DoFn):
    """Routes the edges of `EdgeBlock`s by partition and table; edges of hubs go to their buckets."""

    def __init__(self, job: PartitionJob) -> None:
        self._job = job
        self._hubs: dict[tuple[str, str], tuple[_Codes, _Counts]] = {}

    def start_bundle(self) -> None:
        """Discards the hubs of an earlier run."""
        self._hubs = {}

    def process(self, element: tuple[str, bytes], hubs: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
        """Sends the edges of one block to their partitions; `hubs` holds all `Hubs`."""
        _, message = element
        block: EdgeBlock = unpack(message)
        requirements = self._job.requirements.edge_sets[block.edge_set]
        rows = unpack_table(block.rows)
        for direction in requirements.directions:
            yield from self._route(
                block.edge_set, direction, table_rows.direction_rows(requirements, rows, direction), hubs
            )

    def _route(
        self, edge_set: str, direction: str, rows: pa.Table, hubs: Sequence[bytes]
    ) -> Iterator[tuple[str, bytes]]:
        nodes = files.as_codes(rows.column(files.NODE))
        partitions = partition_of_codes(nodes, self._job.num_partitions)
        if (edge_set, direction) not in self._hubs:
            self._hubs[edge_set, direction] = _hubs_of(hubs, edge_set, direction)
        codes, degrees = self._hubs[edge_set, direction]
        positions = positions_in(codes, nodes)
        of_hub = positions >= 0
        if of_hub.any():
            at_hubs = rows.filter(pa.array(of_hub))
            bits = bucket_bits(degrees, self._job.hub_degree)[positions[of_hub]]
            buckets = buckets_of_edges(at_hubs.column(files.ROW).to_numpy(), bits)
            at_hubs = at_hubs.append_column(files.BUCKET, pa.array(buckets))
            homes = bucket_partition_of(nodes[of_hub], buckets, self._job.num_partitions)
            table = files.bucket_table(edge_set, direction)
            for partition, part in split_by_partition(at_hubs, homes):
                yield partition_key(partition, table), pack_rows(part)
            rows, partitions = rows.filter(pa.array(~of_hub)), partitions[~of_hub]
        for partition, part in split_by_partition(rows, partitions):
            yield partition_key(partition, files.edge_table(edge_set, direction)), pack_rows(part)


class WriteEdges(beam.DoFn):
    """Writes edges, grouped by partition and table, to files.

    Outputs, by tag:
        RECORDS: `PartitionRecord` of each file.
        BUCKETS: numbers of edges in buckets, by partition of the hub and table of hubs.
    """

    def __init__(self, job: PartitionJob) -> None:
        self._job = job

    def process(self, element: tuple[str, Iterable[bytes]]) -> Iterator[Any]:
        """Writes one partition."""
        key, messages = element
        partition, table = split_key(key)
        rows = sort_edges(concatenate([unpack_table(message) for message in messages]))
        yield pvalue.TaggedOutput(RECORDS, files.write_partition(self._job.partitions_dir, table, partition, rows))
        if files.BUCKET in rows.column_names:
            counts = count_buckets(rows)
            homes = partition_of_codes(files.as_codes(counts.column(files.NODE)), self._job.num_partitions)
            hub_table = f"{table.rpartition('/')[0]}/hubs"
            for home, part in split_by_partition(counts, homes):
                yield pvalue.TaggedOutput(BUCKETS, (partition_key(home, hub_table), pack_rows(part)))


class WriteHubs(beam.DoFn):
    """Writes numbers of edges in buckets, grouped by partition and table, to files; yields `PartitionRecord`s."""

    def __init__(self, job: PartitionJob) -> None:
        self._job = job

    def process(self, element: tuple[str, Iterable[bytes]]) -> Iterator[Any]:
        """Writes one partition."""
        key, messages = element
        partition, table = split_key(key)
        counts = concatenate([unpack_table(message) for message in messages])
        nodes, places = np.unique(files.as_codes(counts.column(files.NODE)), return_inverse=True)
        degrees = np.zeros(len(nodes), np.int64)
        np.add.at(degrees, places, counts.column(files.BUCKET_COUNT).to_numpy())
        rows = hub_rows(nodes, bucket_bits(degrees, self._job.hub_degree), counts)
        yield files.write_partition(self._job.partitions_dir, table, partition, rows)


class WriteSeeds(beam.DoFn):
    """Writes seeds, grouped by partition, to files; yields `PartitionRecord`s."""

    def __init__(self, job: PartitionJob) -> None:
        self._job = job

    def process(self, element: tuple[str, Iterable[bytes]]) -> Iterator[Any]:
        """Writes one partition."""
        key, messages = element
        partition, table = split_key(key)
        rows = sort_seeds(concatenate([unpack_table(message) for message in messages]))
        yield files.write_partition(self._job.partitions_dir, table, partition, rows, len(self._job.plan.splits.names))


def _sum(messages: Iterable[bytes]) -> tuple[_Codes, _Counts, _Codes | None]:
    """Returns codes, ascending, the sums of their counts, and the codes of the known nodes, if there are any."""
    codes, counts = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    num_waiting, known = 0, None
    for message in messages:
        content = unpack(message)
        if isinstance(content, KnownNodes):
            known = content.codes
            continue
        codes.append(content.codes)
        counts.append(content.counts)
        num_waiting += len(content.codes)
        if num_waiting > _MAX_UNSUMMED:
            joined, sums = _merge(codes, counts)
            codes, counts, num_waiting = [joined], [sums], 0
    return *_merge(codes, counts), known


def _merge(codes: Sequence[_Codes], counts: Sequence[_Counts]) -> tuple[_Codes, _Counts]:
    distinct, places = np.unique(np.concatenate(codes), return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, places, np.concatenate(counts))
    return distinct, sums


def _hubs_of(hubs: Sequence[bytes], edge_set: str, direction: str) -> tuple[_Codes, _Counts]:
    found: list[Hubs] = [unpack(message) for message in hubs]
    found = [part for part in found if (part.edge_set, part.direction) == (edge_set, direction)]
    codes = np.concatenate([np.zeros(0, np.uint64), *(part.codes for part in found)])
    degrees = np.concatenate([np.zeros(0, np.int64), *(part.degrees for part in found)])
    order = np.argsort(codes)
    return codes[order], degrees[order]
