"""Reads the seeds of blocks from a graph index."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from tfx_gnn.beam_sampling import index_files as files
from tfx_gnn.beam_sampling.block_ranges import BlockRange
from tfx_gnn.beam_sampling.index_reader import GraphIndex
from tfx_gnn.sampling import edge_ranks
from tfx_gnn.sampling.plan import SEED, SOURCE, TARGET, SamplingPlan
from tfx_gnn.sampling.seeds import Seeds

_ROOT_COLUMNS = {SEED: files.CODE, SOURCE: files.SOURCE, TARGET: files.TARGET}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockSeeds:
    """The seeds of one block.

    Attributes:
        block: which block.
        seeds: its seeds, of which nodes are codes.
        features: features of the seeds that the index keeps with them: of seed edges or of
            the seed table; a table without columns where there are none.
    """

    block: BlockRange
    seeds: Seeds
    features: pa.Table


def read_block_seeds(index: GraphIndex, plan: SamplingPlan, blocks: Iterable[BlockRange]) -> Iterator[BlockSeeds]:
    """Reads blocks, one partition of the seeds in memory at a time.

    Args:
        index: the graph.
        plan: what is sampled.
        blocks: blocks of any splits; in the order of their keys, each partition is read once.

    Yields:
        The blocks that have seeds.
    """
    loaded: tuple[int, pa.Table | None] = -1, None
    num_partitions = index.info.num_partitions
    for block in blocks:
        bounds = files.partition_of_codes(np.array([block.first_key, block.last_key], np.uint64), num_partitions)
        parts = []
        for partition in range(int(bounds[0]), int(bounds[1]) + 1):
            if partition != loaded[0] or loaded[1] is None:
                loaded = partition, index.load_seeds(partition)
            parts.append(_rows_of_block(loaded[1], block))
        rows = pa.concat_tables(parts)
        if rows.num_rows:
            yield _block_seeds(plan, block, rows)


def _rows_of_block(rows: pa.Table | None, block: BlockRange) -> pa.Table:
    assert rows is not None
    keys = files.as_codes(rows.column(files.KEY))
    start = np.searchsorted(keys, np.uint64(block.first_key), side="left")
    stop = np.searchsorted(keys, np.uint64(block.last_key), side="right")
    of_keys = rows.slice(int(start), int(stop - start))
    return of_keys.filter(pa.array(of_keys.column(files.SPLIT).to_numpy() == block.split))


def _block_seeds(plan: SamplingPlan, block: BlockRange, rows: pa.Table) -> BlockSeeds:
    count = rows.num_rows
    has_ranks = plan.is_link_plan or plan.splits.visibility == "inductive"
    seeds = Seeds(
        keys=files.as_codes(rows.column(files.KEY)),
        rows=np.asarray(rows.column(files.ROW).to_numpy(), np.int64),
        readout_splits=np.arange(count + 1, dtype=np.int64),
        readout_nodes={
            root: np.asarray(rows.column(_ROOT_COLUMNS[root]).to_numpy(), np.int64) for root in plan.root_names
        },
        time_limits=np.asarray(rows.column(files.TIME).to_numpy(), np.int64) if plan.temporal else None,
        rank_limits=np.full(count, edge_ranks.rank_limit(block.split), np.int8) if has_ranks else None,
    )
    names = [name for name in rows.column_names if name not in files.RESERVED]
    return BlockSeeds(block=block, seeds=seeds, features=rows.select(names).combine_chunks())
