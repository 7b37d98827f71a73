"""Checks that an edge and its reverse are in the same split, where a column or time decides."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.beam.messages import pack, unpack
from tfx_gnn.sampling.beam.partitioned_graph.job import PartitionJob
from tfx_gnn.sampling.beam.partitioned_graph.messages import partition_key
from tfx_gnn.sampling.beam.partitioned_graph.partitions import ranges_by_partition
from tfx_gnn.sampling.beam.partitioned_graph.rows import GivenRows, KnownEnds, link_splits
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.seed_splits import pair_keys


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairSplits:
    """Splits of edges whose pairs belong to one partition.

    Attributes:
        edge_set: name of the set.
        is_reverse: whether the edges are from a reverse edge set.
        keys: uint64 array, shape [n]: `pair_keys`; for a reverse edge, of its forward edge.
        split_codes: int16 array, shape [n].
        rows: int64 array, shape [n]: rows in the table as written.
    """

    edge_set: str
    is_reverse: bool
    keys: npt.NDArray[np.uint64]
    split_codes: npt.NDArray[np.int16]
    rows: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OtherSplits:
    """Reverse edges of one partition whose forward edges are all in other splits.

    Attributes:
        edge_set: name of the reverse edge set.
        row: row of the first such edge.
        split_code: split of that edge.
        count: number of such edges, at least 1.
    """

    edge_set: str
    row: int
    split_code: int
    count: int


def checks_reverses(plan: SamplingPlan) -> bool:
    """Returns whether an edge and its reverse might be in different splits: not if a hash of both ends decides."""
    if not set(plan.reverse_edge_sets) & set(plan.table_edge_sets):
        return False
    return plan.splits.rule != "hash" or bool(plan.splits.group_column)


def send_splits(job: PartitionJob, edge_set: str, given: GivenRows, ends: KnownEnds) -> Iterator[tuple[str, bytes]]:
    """Yields the splits of edges and of reverse edges, by partition of the pair, so that the two are compared there."""
    keys_by_role = {}
    if edge_set == job.plan.seed_edge_set:
        keys_by_role[False] = pair_keys(ends.sources, ends.targets)
    if edge_set in job.plan.reverse_edge_sets:
        keys_by_role[True] = pair_keys(ends.targets, ends.sources)
    if not keys_by_role:
        return
    split_codes, _ = link_splits(job.plan, edge_set, given, ends)
    for is_reverse, keys in keys_by_role.items():
        order = np.argsort(keys)
        for partition, where in ranges_by_partition(keys[order], job.num_partitions):
            chosen = order[where]
            message = PairSplits(
                edge_set=edge_set,
                is_reverse=is_reverse,
                keys=keys[chosen],
                split_codes=split_codes[chosen],
                rows=given.rows[chosen],
            )
            yield partition_key(partition, "reverses"), pack(message)


class CompareSplits(beam.DoFn):
    """Finds `OtherSplits` among the `PairSplits` of one partition."""

    def process(self, element: tuple[str, Iterable[bytes]]) -> Iterator[OtherSplits]:
        """Compares the splits of edges and their reverses; yields one item for each edge set with differences."""
        parts: list[PairSplits] = [unpack(message) for message in element[1]]
        forward = [part for part in parts if not part.is_reverse]
        keys = np.concatenate([np.zeros(0, np.uint64), *(part.keys for part in forward)])
        known = np.concatenate([np.zeros(0, np.uint64), *(_with_splits(part) for part in forward)])
        for name in sorted({part.edge_set for part in parts if part.is_reverse}):
            bad: list[tuple[int, int]] = []
            for part in parts:
                if part.is_reverse and part.edge_set == name:
                    other = np.isin(part.keys, keys) & ~np.isin(_with_splits(part), known)
                    bad += zip(part.rows[other].tolist(), part.split_codes[other].tolist(), strict=True)
            if bad:
                row, code = min(bad)
                yield OtherSplits(edge_set=name, row=row, split_code=code, count=len(bad))


def refuse_other_splits(job: PartitionJob, found: Sequence[OtherSplits]) -> None:
    """Raises a ValueError for reverse edges that would reveal an edge of another split; names the first row."""
    for edge_set in job.plan.reverse_edge_sets:
        of_set = [part for part in found if part.edge_set == edge_set]
        if of_set:
            first = min(of_set, key=lambda part: part.row)
            name = job.plan.splits.names[first.split_code] if first.split_code >= 0 else "unused"
            raise ValueError(
                f"`splits` must give an edge and its reverse the same split; got {name!r} for row {first.row} "
                f"(from 0) of {job.layouts[f'edges/{edge_set}'].declared_as}, one of "
                f"{sum(part.count for part in of_set)} whose edge in {job.plan.seed_edge_set!r} has another. "
                "Correct the table, or split by hash."
            )


def _with_splits(part: PairSplits) -> npt.NDArray[np.uint64]:
    return pair_keys(part.keys, part.split_codes.astype(np.uint64))
