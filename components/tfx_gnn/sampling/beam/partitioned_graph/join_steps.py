"""Beam steps that join edges and seeds with the nodes that they refer to.

One step writes the nodes of each partition, and another looks up there which of the node codes of a block exist. Pairs
of ends are also compared by partition, to find repetitions. Once a block has all answers, it is converted to edges and
seeds.
"""

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

from tfx_gnn.sampling.beam.messages import pack, unpack, unpack_table
from tfx_gnn.sampling.beam.partitioned_graph import files
from tfx_gnn.sampling.beam.partitioned_graph import rows as table_rows
from tfx_gnn.sampling.beam.partitioned_graph.broken_rows import shorten_refused, value_keys
from tfx_gnn.sampling.beam.partitioned_graph.job import ENDS, TARGET_END, PartitionJob
from tfx_gnn.sampling.beam.partitioned_graph.messages import (
    BrokenRows,
    Degrees,
    EndAnswer,
    EndCounts,
    EndRequest,
    KnownNodes,
    LinkBlock,
    Pairs,
    Repeats,
    pack_rows,
    partition_key,
    split_key,
)
from tfx_gnn.sampling.beam.partitioned_graph.partitions import (
    concatenate,
    group_starts,
    partition_of_codes,
    positions_in,
    ranges_by_partition,
    split_by_partition,
)
from tfx_gnn.sampling.beam.partitioned_graph.reverse_edge_splits import checks_reverses, send_splits
from tfx_gnn.sampling.beam.partitioned_graph.table_steps import ROW_COUNTS, place_in_file, starts_of_units
from tfx_gnn.tables.row_rules import DANGLING_SOURCE, DANGLING_TARGET, DUPLICATE_EDGE, DUPLICATE_NODE

RECORDS, BROKEN, DRAWN = "records", "broken", "drawn"
"""Further outputs of `PartitionNodes`."""
EDGES, COUNTED, SEEDS, SPLITS = "edges", "counted", "seeds", "splits"
"""Outputs of `JoinBlocks`, in addition to BROKEN and ROW_COUNTS."""
REPEATS, SELF_LOOPS = "repeats", "self_loops"
"""Kinds of the counts in its ROW_COUNTS, by table label."""

_DANGLING_RULES = (DANGLING_SOURCE, DANGLING_TARGET)


class PartitionNodes(beam.DoFn):
    """Writes the nodes of each partition, from `SendBlocks.NODES` grouped by key.

    Outputs, by tag:
        (main): `KnownNodes`, by partition and node set.
        DRAWN: `KnownNodes` again, under the keys of degrees, for edge sets that store degrees.
        RECORDS: `PartitionRecord` of each file.
        BROKEN: `BrokenRows` of repeated ids.
    """

    def __init__(self, job: PartitionJob) -> None:
        self._job = job

    def process(
        self, element: tuple[str, Iterable[bytes]], counts: dict[tuple[str, int], tuple[int, int]]
    ) -> Iterator[Any]:
        """Writes the nodes of one partition; `counts` holds all sums of `SendBlocks.UNIT_COUNTS`."""
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
                yield pvalue.TaggedOutput(BROKEN, shorten_refused(job, broken))
            rows = rows.filter(pa.array(~is_again))
        stored = table_rows.stored_nodes(job.requirements, node_set, rows)
        yield pvalue.TaggedOutput(
            RECORDS, files.write_partition(job.partitions_dir, files.node_table(node_set), partition, stored)
        )
        if node_set == job.plan.seed_node_set and job.plan.seed_table is None:
            seeds = table_rows.node_seeds(job.plan, rows)
            if seeds.num_rows:
                num_splits = len(job.plan.splits.names)
                yield pvalue.TaggedOutput(
                    RECORDS, files.write_partition(job.partitions_dir, files.SEED_TABLE, partition, seeds, num_splits)
                )
        known = KnownNodes(
            codes=files.as_codes(rows.column(files.CODE)), ranks=table_rows.node_ranks(job.plan, node_set, rows)
        )
        yield key, pack(known)
        for edge_set, requirements in job.requirements.edge_sets.items():
            end = requirements.stored_degrees
            if end and node_set == (requirements.target_set if end == TARGET_END else requirements.source_set):
                yield pvalue.TaggedOutput(DRAWN, (partition_key(partition, f"{end}/{edge_set}"), pack(known)))


class AnswerEnds(beam.DoFn):
    """Answers the `EndRequest`s of each partition from its `KnownNodes` with `EndAnswer`s, by key of the block."""

    def process(self, element: tuple[str, Iterable[bytes]]) -> Iterator[tuple[str, bytes]]:
        """Answers all requests about one partition."""
        _, messages = element
        # The nodes may come last and there may be many requests, so a second pass over the messages answers them.
        known = KnownNodes(codes=np.zeros(0, np.uint64), ranks=None)
        for message in messages:
            content = unpack(message)
            if isinstance(content, KnownNodes):
                known = content
        for message in messages:
            request = unpack(message)
            if isinstance(request, EndRequest):
                positions = positions_in(known.codes, request.codes)
                is_known = positions >= 0
                ranks = None
                if known.ranks is not None:
                    ranks = np.where(is_known, known.ranks[positions], 0).astype(np.int8)
                answer = EndAnswer(end=request.end, partition=request.partition, is_known=is_known, ranks=ranks)
                yield request.block, pack(answer)


class FindRepeats(beam.DoFn):
    """Finds `Repeats` among the `Pairs` of each partition, by key of the block, for blocks with repetitions."""

    def process(self, element: tuple[str, Iterable[bytes]]) -> Iterator[tuple[str, bytes]]:
        """Finds repeated pairs in one partition."""
        _, messages = element
        blocks: list[Pairs] = [unpack(message) for message in messages]
        # Blocks are sorted by their rows, so that the first of equal rows is kept.
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


def _find_again(rows: pa.Table) -> npt.NDArray[np.bool_]:
    """Returns which rows, sorted by code, have the same id as the previous row."""
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class EdgeBlock:
    """A block of edges between existing nodes.

    Attributes:
        edge_set: name of the set.
        rows: rows of `table_rows.edge_rows`, as written by `pack_rows`.
    """

    edge_set: str
    rows: bytes


class JoinBlocks(beam.DoFn):
    """Converts blocks with all their answers, grouped by the key of the block, to edges and seeds.

    Outputs, by tag:
        EDGES: `EdgeBlock`, by key of the block.
        COUNTED: `EndCounts`, by partition, end and edge set.
        SEEDS: seeds, by partition.
        SPLITS: `PairSplits`, by partition of the pairs, if reverse edges must be checked.
        BROKEN: `BrokenRows`.
        ROW_COUNTS: pairs of (kind of count, label) and a count.
    """

    def __init__(self, job: PartitionJob) -> None:
        self._job = job
        self._starts: dict[tuple[str, int], int] = {}

    def start_bundle(self) -> None:
        """Discards the unit starts of an earlier run."""
        self._starts = {}

    def process(
        self, element: tuple[str, Iterable[bytes]], counts: dict[tuple[str, int], tuple[int, int]]
    ) -> Iterator[Any]:
        """Converts one block; `counts` holds all sums of `SendBlocks.UNIT_COUNTS`."""
        block, answers, repeats = _sort_out(*element)
        self._starts = self._starts or starts_of_units(counts)
        job, layout = self._job, self._job.layouts[block.label]
        known, ranks = self._known_ends(block, answers)
        is_used = np.ones(len(block.rows), np.bool_)
        for is_known, rule in zip(known, _DANGLING_RULES, strict=False):
            yield from self._broken(block, rule, is_used & ~is_known)
            is_used &= is_known
        is_repeat = np.zeros(len(block.rows), np.bool_)
        is_repeat[repeats] = True
        is_repeat &= is_used
        is_seeds = layout.kind == "seeds"
        if not is_seeds:
            yield pvalue.TaggedOutput(ROW_COUNTS, ((REPEATS, block.label), (int(is_repeat.sum()),)))
        if is_seeds or job.rules.duplicate_edges != "keep":
            yield from self._broken(block, DUPLICATE_EDGE, is_repeat)
            is_used &= ~is_repeat
        if not is_used.any():
            return
        kept = pa.array(np.flatnonzero(is_used))
        given = table_rows.GivenRows(
            columns=unpack_table(block.columns).take(kept),
            rows=block.rows[is_used] + self._starts[block.label, block.unit],
            place_of=place_in_file(job, block.label, block.unit, block.rows[is_used]),
        )
        ends = tuple(nodes.distinct[nodes.places[is_used]] for nodes in block.ends)
        if is_seeds:
            yield from self._send_seeds(table_rows.table_seeds(job.plan, job.requirements, given, ends))
            return
        if job.end_sets(block.label)[0] == job.end_sets(block.label)[1]:
            num_loops = int((ends[0] == ends[1]).sum())
            yield pvalue.TaggedOutput(ROW_COUNTS, ((SELF_LOOPS, block.label), (num_loops,)))
        source_ranks, target_ranks = (None if r is None else r[is_used] for r in ranks)
        known_ends = table_rows.KnownEnds(
            sources=ends[0], targets=ends[1], source_ranks=source_ranks, target_ranks=target_ranks
        )
        rows = table_rows.edge_rows(job.plan, job.requirements, layout.name, given, known_ends)
        if checks_reverses(job.plan):
            for message in send_splits(job, layout.name, given, known_ends):
                yield pvalue.TaggedOutput(SPLITS, message)
        if layout.name == job.plan.seed_edge_set and job.plan.seed_table is None:
            yield from self._send_seeds(table_rows.edge_seeds(job.plan, job.requirements, rows))
        yield from self._send_edges(block.key, layout.name, rows, ends)

    def _known_ends(
        self, block: LinkBlock, answers: list[EndAnswer]
    ) -> tuple[list[npt.NDArray[np.bool_]], list[npt.NDArray[np.int8] | None]]:
        known, ranks = [], []
        for end, nodes in enumerate(block.ends):
            distinct, places = nodes.distinct, nodes.places
            is_known = np.zeros(len(distinct), np.bool_)
            of_end = {answer.partition: answer for answer in answers if answer.end == end}
            has_ranks = any(answer.ranks is not None for answer in of_end.values())
            distinct_ranks = np.zeros(len(distinct), np.int8)
            for partition, where in ranges_by_partition(distinct, self._job.num_partitions):
                if partition not in of_end:
                    raise _incomplete(block.key, f"no answer of partition {partition} about end {end}")
                answer = of_end[partition]
                is_known[where] = answer.is_known
                if answer.ranks is not None:
                    distinct_ranks[where] = answer.ranks
            known.append(is_known[places])
            ranks.append(distinct_ranks[places] if has_ranks else None)
        return known, ranks

    def _broken(self, block: LinkBlock, rule: str, is_broken: npt.NDArray[np.bool_]) -> Iterator[Any]:
        rows = block.rows[is_broken]
        if len(rows):
            values = None
            if self._job.is_read_once(block.label):
                of_rows = unpack_table(block.columns).filter(pa.array(is_broken))
                values = tuple(of_rows.select(value_keys(self._job, block.label, rule)).to_pylist())
            broken = BrokenRows(
                label=block.label, unit=block.unit, rule=rule, rows=rows, count=len(rows), values=values
            )
            yield pvalue.TaggedOutput(BROKEN, shorten_refused(self._job, broken))

    def _send_seeds(self, seeds: pa.Table) -> Iterator[Any]:
        keys = files.as_codes(seeds.column(files.KEY))
        partitions = partition_of_codes(keys, self._job.num_partitions)
        for partition, part in split_by_partition(seeds, partitions):
            yield pvalue.TaggedOutput(SEEDS, (partition_key(partition, files.SEED_TABLE), pack_rows(part)))

    def _send_edges(
        self, key: str, edge_set: str, rows: pa.Table, ends: tuple[npt.NDArray[np.uint64], ...]
    ) -> Iterator[Any]:
        yield pvalue.TaggedOutput(EDGES, (key, pack(EdgeBlock(edge_set=edge_set, rows=pack_rows(rows)))))
        asked = {self._job.degree_end(d) for d in self._job.requirements.edge_sets[edge_set].degree_directions}
        for end in self._job.counted_ends(edge_set):
            codes, counts = np.unique(ends[ENDS.index(end)], return_counts=True)
            for partition, where in ranges_by_partition(codes, self._job.num_partitions):
                message = EndCounts(
                    block=key if end in asked else "",
                    partition=partition,
                    codes=codes[where],
                    counts=counts[where].astype(np.int64),
                )
                yield pvalue.TaggedOutput(COUNTED, (partition_key(partition, f"{end}/{edge_set}"), pack(message)))


class AttachDegrees(beam.DoFn):
    """Adds degrees to `EdgeBlock`s from the `Degrees` that answer them, grouped by key."""

    def __init__(self, job: PartitionJob) -> None:
        self._job = job

    def process(self, element: tuple[str, Iterable[bytes]]) -> Iterator[tuple[str, bytes]]:
        """Adds degrees to one block."""
        key, messages = element
        block = None
        answers: dict[tuple[str, int], Degrees] = {}
        for message in messages:
            content = unpack(message)
            if isinstance(content, EdgeBlock):
                block = content
            else:
                answers[content.end, content.partition] = content
        if block is None:
            raise _incomplete(key, f"{len(answers)} answers")
        rows = unpack_table(block.rows)
        for direction in self._job.requirements.edge_sets[block.edge_set].degree_directions:
            end = self._job.degree_end(direction)
            column = (files.SOURCE, files.TARGET)[ENDS.index(end)]
            distinct, places = np.unique(files.as_codes(rows.column(column)), return_inverse=True)
            degrees = np.zeros(len(distinct), np.int64)
            for partition, where in ranges_by_partition(distinct, self._job.num_partitions):
                degrees[where] = answers[end, partition].counts
            rows = rows.append_column(table_rows.degree_column(direction), pa.array(degrees[places]))
        yield key, pack(EdgeBlock(edge_set=block.edge_set, rows=pack_rows(rows)))


def _sort_out(key: str, messages: Iterable[bytes]) -> tuple[LinkBlock, list[EndAnswer], npt.NDArray[Any]]:
    block, answers, repeats = None, [], [np.zeros(0, np.uint8)]
    for message in messages:
        content = unpack(message)
        if isinstance(content, LinkBlock):
            block = content
        elif isinstance(content, EndAnswer):
            answers.append(content)
        elif isinstance(content, Repeats):
            repeats.append(content.positions)
    if block is None:
        raise _incomplete(key, f"{len(answers)} answers and {len(repeats) - 1} messages about repetitions")
    return block, answers, np.concatenate(repeats)


def _incomplete(key: str, found: str) -> RuntimeError:
    return RuntimeError(
        f"`messages` must hold the block together with all its answers; got {found} for {key!r}. "
        "The runner did not group all messages of a key: run the pipeline again."
    )
