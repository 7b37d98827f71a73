"""Blocks of seeds: the ranges of keys that travel and are sampled together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

_MAX_RANGES = 2**31
_SPLIT_SHIFT = 40
_RUNS_OF_SHARD = 16  # so that many workers have something to begin with
_MAX_RUN = 64


@dataclasses.dataclass(frozen=True, kw_only=True, order=True)
class BlockRange:
    """The seeds of one split whose keys lie in one range.

    The 64-bit keys of a split are cut in `num_blocks` equal ranges; as keys are
    hashes, blocks are of about equal size. A multiple of the number of shards, so
    that a block lies in one shard.

    Attributes:
        split: position of the split among the splits of the index.
        block: position of the range among those of the split.
        num_blocks: number of ranges of the split.
    """

    split: int
    block: int
    num_blocks: int

    @property
    def first_key(self) -> int:
        """Smallest key of the range."""
        return -(-(self.block << 64) // self.num_blocks)

    @property
    def last_key(self) -> int:
        """Largest key of the range."""
        return -(-((self.block + 1) << 64) // self.num_blocks) - 1

    @property
    def number(self) -> int:
        """The block's name in messages: no other block of any split has it."""
        return self.split << _SPLIT_SHIFT | self.block

    def shard(self, num_shards: int) -> int:
        """Tells the output shard that the block is a part of.

        Args:
            num_shards: number of shards of the split, a divisor of `num_blocks`.

        Returns:
            Position of the shard.
        """
        return self.block // (self.num_blocks // num_shards)


def count_blocks(num_seeds: int, num_shards: int, seeds_per_block: int) -> int:
    """Chooses how many blocks a split is cut in.

    Args:
        num_seeds: number of seeds of the split, whichever shards are made.
        num_shards: number of output shards of the split.
        seeds_per_block: seeds that a block shall have in the mean, at most.

    Returns:
        The smallest multiple of `num_shards` with which blocks are small enough.

    Raises:
        ValueError: if there would be more than 2**31 blocks.
    """
    num_blocks = num_shards * max(1, -(-num_seeds // (num_shards * seeds_per_block)))
    if num_blocks > _MAX_RANGES:
        raise ValueError(
            f"`seeds_per_block` must be so large that a split has at most {_MAX_RANGES} blocks; got {seeds_per_block} "
            f"for {num_seeds} seeds in {num_shards} shards. Make blocks larger or shards fewer."
        )
    return num_blocks


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockRun:
    """Blocks of one shard that follow each other, read by one worker.

    Attributes:
        split: position of the split among the splits of the index.
        start: position of the first block.
        stop: position after the last block.
        num_blocks: number of blocks of the split.
    """

    split: int
    start: int
    stop: int
    num_blocks: int

    def blocks(self) -> Iterator[BlockRange]:
        """Lists the blocks.

        Yields:
            The blocks, ascending.
        """
        for block in range(self.start, self.stop):
            yield BlockRange(split=self.split, block=block, num_blocks=self.num_blocks)


def list_runs(
    shards: Iterable[tuple[int, int]], seed_counts: Mapping[int, int], num_shards: int, seeds_per_block: int
) -> Iterator[BlockRun]:
    """Lists the blocks that some output shards consist of.

    Args:
        shards: pairs (position of the split, shard).
        seed_counts: number of seeds by position of the split.
        num_shards: number of output shards of each split.
        seeds_per_block: seeds that a block shall have in the mean, at most.

    Yields:
        Runs of blocks, shard by shard: some sixteen of a shard, longer ones where there
        are many blocks.
    """
    for split, shard in shards:
        num_blocks = count_blocks(seed_counts[split], num_shards, seeds_per_block)
        per_shard = num_blocks // num_shards
        size = min(_MAX_RUN, -(-per_shard // _RUNS_OF_SHARD))
        end = (shard + 1) * per_shard
        for start in range(shard * per_shard, end, size):
            yield BlockRun(split=split, start=start, stop=min(start + size, end), num_blocks=num_blocks)
