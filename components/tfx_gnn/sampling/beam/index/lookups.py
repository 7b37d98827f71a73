"""Beam steps that gather the nodes of a partition, and look up nodes and pairs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam import pvalue

from tfx_gnn.sampling.beam.index import files
from tfx_gnn.sampling.beam.index import rows as index_rows
from tfx_gnn.sampling.beam.index.job import TARGET_END, IndexJob
from tfx_gnn.sampling.beam.index.messages import (
    BrokenRows,
    KnownNodes,
    NodeAnswer,
    NodeQuestion,
    Pairs,
    Repeats,
    partition_key,
    split_key,
    write_recorded,
)
from tfx_gnn.sampling.beam.index.partitions import concatenate
from tfx_gnn.sampling.beam.index.reader import group_starts, positions_in
from tfx_gnn.sampling.beam.index.table_steps import starts_of_units
from tfx_gnn.sampling.beam.messages import pack, unpack, unpack_table
from tfx_gnn.tables.row_rules import DUPLICATE_NODE

RECORDS, BROKEN, TARGETS = "records", "broken", "targets"
"""Further outputs of `IndexNodes`."""


class IndexNodes(beam.DoFn):
    """Writes the nodes of each partition, from `SendBlocks.NODES` grouped by key.

    Outputs, by tag:
        (main): `KnownNodes`, by partition and node set.
        TARGETS: the same under the keys of in-degrees, for edge sets that store them.
        RECORDS: `PartitionRecord` of each file.
        BROKEN: `BrokenRows` of ids that come again.
    """

    def __init__(self, job: IndexJob) -> None:
        self._job = job

    def process(
        self, element: tuple[str, Iterable[bytes]], counts: dict[tuple[str, int], tuple[int, int]]
    ) -> Iterator[Any]:
        """Writes the nodes of one partition; `counts` are all sums of `SendBlocks.COUNTS`."""
        key, messages = element
        partition, node_set = split_key(key)
        job, label = self._job, f"nodes/{node_set}"
        rows = concatenate([unpack_table(message) for message in messages])
        starts = starts_of_units(counts)
        units = rows.column(files.UNIT).to_numpy()
        in_unit = rows.column(files.ROW).to_numpy()
        unit_starts = np.array([starts.get((label, unit), 0) for unit in range(int(units.max()) + 1)], np.int64)
        order = np.lexsort((in_unit, units, files.as_codes(rows.column(files.CODE))))
        rows = rows.set_column(
            rows.column_names.index(files.ROW), files.ROW, pa.array(in_unit + unit_starts[units])
        ).take(pa.array(order))
        units, in_unit = units[order], in_unit[order]
        is_again = _find_again(rows)
        if is_again.any():
            again = rows.filter(pa.array(is_again))
            for broken in _broken_by_unit(label, units[is_again], in_unit[is_again]):
                if job.is_read_once(label):
                    ids = dict(zip(in_unit[is_again].tolist(), again.column(files.ID).to_pylist(), strict=True))
                    values = tuple({files.ID: ids[row]} for row in broken.rows.tolist())
                    broken = dataclasses.replace(broken, values=values)
                if job.rules.duplicate_nodes == "refuse":
                    broken = first_of(broken)
                yield pvalue.TaggedOutput(BROKEN, broken)
            rows = rows.filter(pa.array(~is_again))
        stored = index_rows.stored_nodes(job.requirements, node_set, rows)
        yield pvalue.TaggedOutput(RECORDS, write_recorded(job.index_dir, files.node_table(node_set), partition, stored))
        if node_set == job.plan.seed_node_set and job.plan.seed_table is None:
            seeds = index_rows.node_seeds(job.plan, rows)
            if seeds.num_rows:
                num_splits = len(job.plan.splits.names)
                yield pvalue.TaggedOutput(
                    RECORDS, write_recorded(job.index_dir, files.SEED_TABLE, partition, seeds, num_splits)
                )
        known = KnownNodes(
            codes=files.as_codes(rows.column(files.CODE)), ranks=index_rows.node_ranks(job.plan, node_set, rows)
        )
        yield key, pack(known)
        for edge_set, requirements in job.requirements.edge_sets.items():
            if requirements.stores_in_degrees and requirements.target_set == node_set:
                yield pvalue.TaggedOutput(TARGETS, (partition_key(partition, f"{TARGET_END}/{edge_set}"), pack(known)))


class AnswerQuestions(beam.DoFn):
    """`KnownNodes` and `NodeQuestion`s of each partition to `NodeAnswer`s by key of the block."""

    def process(self, element: tuple[str, Iterable[bytes]]) -> Iterator[tuple[str, bytes]]:
        """Answers all questions about one partition."""
        _, messages = element
        known = KnownNodes(codes=np.zeros(0, np.uint64), ranks=None)
        for message in messages:
            content = unpack(message)
            if isinstance(content, KnownNodes):
                known = content
        for message in messages:
            question = unpack(message)
            if isinstance(question, NodeQuestion):
                positions = positions_in(known.codes, question.codes)
                is_known = positions >= 0
                ranks = None
                if known.ranks is not None:
                    ranks = np.where(is_known, known.ranks[positions], 0).astype(np.int8)
                answer = NodeAnswer(end=question.end, partition=question.partition, is_known=is_known, ranks=ranks)
                yield question.block, pack(answer)


class FindRepeats(beam.DoFn):
    """`Pairs` of each partition to `Repeats` by key of the block, for blocks that have any."""

    def process(self, element: tuple[str, Iterable[bytes]]) -> Iterator[tuple[str, bytes]]:
        """Finds what comes again among the pairs of one partition."""
        _, messages = element
        blocks: list[Pairs] = [unpack(message) for message in messages]
        # Blocks in the order of their rows, so that a stable sort leaves what came first in front.
        blocks.sort(key=lambda pairs: (pairs.unit, pairs.first_row))
        positions = np.concatenate([pairs.positions for pairs in blocks])
        owners = np.repeat(np.arange(len(blocks)), [len(pairs.positions) for pairs in blocks])
        identity: list[npt.NDArray[Any]] = [
            np.concatenate(codes) for codes in zip(*((*p.ends, *p.identity) for p in blocks), strict=True)
        ]
        times = [pairs.times for pairs in blocks if pairs.times is not None]
        if times:
            identity.append(np.concatenate(times))
        order = np.lexsort((positions, owners, *identity))
        is_same = np.ones(max(len(order) - 1, 0), np.bool_)
        for values in identity:
            is_same &= values[order][1:] == values[order][:-1]
        repeated = np.sort(order[1:][is_same])
        if not len(repeated):
            return
        starts = group_starts(owners[repeated]).tolist()
        for start, stop in itertools.pairwise(starts):
            again = repeated[start:stop]
            yield blocks[owners[again[0]]].block, pack(Repeats(positions=positions[again]))


def first_of(broken: BrokenRows) -> BrokenRows:
    """Keeps the first of some rows that are refused, and how many they are."""
    values = None if broken.values is None else broken.values[:1]
    return dataclasses.replace(broken, rows=broken.rows[:1], values=values)


def _find_again(rows: pa.Table) -> npt.NDArray[np.bool_]:
    """Returns which rows, sorted by code, have the id of the row before."""
    codes = files.as_codes(rows.column(files.CODE))
    is_again = np.zeros(len(codes), np.bool_)
    is_again[1:] = codes[1:] == codes[:-1]
    places = np.flatnonzero(is_again)
    if len(places):
        ids = files.one_array(rows, files.ID)
        before, after = ids.take(pa.array(places - 1)), ids.take(pa.array(places))
        collided = np.flatnonzero(pc.not_equal(before, after).to_numpy(zero_copy_only=False))
        if len(collided):
            first = int(collided[0])
            ids_of_one = before[first].as_py(), after[first].as_py()
            raise ValueError(
                f"`{files.ID}` must have a 64-bit hash that no other node of its set has; got {ids_of_one} "
                f"with {int(codes[places[first]]):#018x}. Rename one of the nodes."
            )
    return is_again


def _broken_by_unit(label: str, units: npt.NDArray[np.int32], rows: npt.NDArray[np.int64]) -> Iterator[BrokenRows]:
    for unit in np.unique(units).tolist():
        of_unit = np.sort(rows[units == unit])
        yield BrokenRows(label=label, unit=unit, rule=DUPLICATE_NODE, rows=of_unit, count=len(of_unit))
