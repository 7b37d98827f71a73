"""Writes records from blocks into their output shards.

The records of each block are written to a file of their own right away, so that no worker holds, and no shuffle moves,
more than one block. One worker per shard then joins the files in the order of the blocks. Every file is first written
under a unique name, so a runner may safely repeat work.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import numpy as np
import tensorflow as tf

from tfx_gnn.io.disk_sync import sync_path
from tfx_gnn.io.renames import rename_file
from tfx_gnn.sampling.engine.sampled_subgraphs import SubgraphStatistics, SubgraphStatisticsBuilder
from tfx_gnn.sampling.examples.shard_log import ShardLog

_BLOCKS_DIR = ".blocks"
_COUNT_DTYPE = np.dtype("<i8")


def shard_path(examples_dir: str, split: str, shard: int, num_shards: int) -> str:
    """Returns the path of a shard of an examples folder."""
    return os.path.join(examples_dir, f"Split-{split}", f"graphs-{shard:05d}-of-{num_shards:05d}.gz")


def write_block(examples_dir: str, records: Sequence[bytes]) -> str:
    """Writes the records of one block to a new file and returns its path."""
    path = _new_path(examples_dir)
    lengths = np.fromiter(map(len, records), _COUNT_DTYPE, len(records))
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(np.array([len(records)], _COUNT_DTYPE).tobytes() + lengths.tobytes())
        file.write(b"".join(records))
    return path


def read_block(path: str) -> Iterator[bytes]:
    """Yields the records that `write_block` wrote, in order."""
    with tf.io.gfile.GFile(path, "rb") as file:
        data = file.read()
    count = int(np.frombuffer(data, _COUNT_DTYPE, 1)[0])
    begin = _COUNT_DTYPE.itemsize * (count + 1)
    lengths = np.frombuffer(data, _COUNT_DTYPE, count, _COUNT_DTYPE.itemsize)
    ends = (begin + np.cumsum(lengths)).tolist()
    for start, stop in itertools.pairwise([begin, *ends]):
        yield data[start:stop]


def write_shard(
    examples_dir: str, split: str, shard: int, num_shards: int, block_paths: Iterable[tuple[int, str]]
) -> int:
    """Joins blocks in the order of their positions and returns the number of records.

    `block_paths` are pairs (position of the block, path of its records), in any order; without any, the shard has no
    records. The file appears atomically.
    """
    path = shard_path(examples_dir, split, shard, num_shards)
    tf.io.gfile.makedirs(os.path.dirname(path))
    partial = _new_path(examples_dir)
    count = 0
    with tf.io.TFRecordWriter(partial, options="GZIP") as writer:
        for _, block_path in sorted(block_paths):
            for record in read_block(block_path):
                writer.write(record)
                count += 1
    is_local = "://" not in path
    if is_local:
        # `ShardLog` records next that the shard is complete, which must hold after a power failure too.
        sync_path(partial)
    rename_file(partial, path)
    if is_local:
        sync_path(os.path.dirname(path))
    return count


WrittenBlock = tuple[int, str, SubgraphStatistics]
"""Position of the block, path of its records, and their statistics."""


class WriteShards(beam.DoFn):
    """Writes each shard's file from ((position of the split, shard), written blocks), and records it in the log."""

    def __init__(self, examples_dir: str, splits: Sequence[str], num_shards: int) -> None:
        self._examples_dir = examples_dir
        self._splits = tuple(splits)
        self._num_shards = num_shards

    def process(self, element: tuple[tuple[int, int], Iterable[WrittenBlock | None]]) -> list[None]:
        """Writes a shard from its blocks; None entries are ignored."""
        (split, shard), blocks = element
        paths: list[tuple[int, str]] = []
        statistics = SubgraphStatisticsBuilder()
        statistics.add_split(self._splits[split])
        for written in blocks:
            if written is not None:
                block, path, of_block = written
                paths.append((block, path))
                statistics.add_statistics(of_block)
        write_shard(self._examples_dir, self._splits[split], shard, self._num_shards, paths)
        ShardLog(self._examples_dir).note(self._splits[split], shard, statistics.build())
        return []


def remove_blocks(examples_dir: str) -> None:
    """Removes the files of all blocks, once the shards are written."""
    folder = os.path.join(examples_dir, _BLOCKS_DIR)
    if tf.io.gfile.exists(folder):
        tf.io.gfile.rmtree(folder)


def _new_path(examples_dir: str) -> str:
    folder = os.path.join(examples_dir, _BLOCKS_DIR)
    tf.io.gfile.makedirs(folder)
    return os.path.join(folder, uuid.uuid4().hex)
