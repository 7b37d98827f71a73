"""A log of finished output shards, from which an interrupted sampling run resumes."""

from __future__ import annotations

import dataclasses
import json
import os
import uuid
from typing import Any

import tensorflow as tf

from tfx_gnn.io.renames import rename_file
from tfx_gnn.sampling.engine.sampled_subgraphs import HopCounts, SizeStatistics, SubgraphStatistics, TruncatedHub

_LOG_DIR = ".finished_shards"


class ShardLog:
    """Records which shards of an unfinished examples folder are complete.

    Each record is a small file next to the shards, written atomically; any worker may
    write it.
    """

    def __init__(self, examples_dir: str) -> None:
        """Opens the log of a folder with `Split-<name>` folders that all workers see."""
        self._folder = os.path.join(examples_dir, _LOG_DIR)

    def note(self, split: str, shard: int, statistics: SubgraphStatistics) -> None:
        """Records that a shard is complete; to be called once its file is in place."""
        tf.io.gfile.makedirs(self._folder)
        partial = os.path.join(self._folder, uuid.uuid4().hex)
        plain = {"split": split, "shard": shard, "statistics": dataclasses.asdict(statistics)}
        with tf.io.gfile.GFile(partial, "w") as file:
            file.write(json.dumps(plain))
        rename_file(partial, os.path.join(self._folder, f"{split}-{shard:05d}.json"))

    def read(self) -> dict[tuple[str, int], SubgraphStatistics]:
        """Lists the complete shards, by (split, position of the file).

        Damaged records, which a power failure may leave, are ignored.
        """
        if not tf.io.gfile.exists(self._folder):
            return {}
        noted = {}
        for name in sorted(tf.io.gfile.listdir(self._folder)):
            if name.endswith(".json"):
                with tf.io.gfile.GFile(os.path.join(self._folder, name), "r") as file:
                    text = file.read()
                try:
                    plain = json.loads(text)
                except json.JSONDecodeError:
                    # The shard will be made again.
                    continue
                noted[plain["split"], plain["shard"]] = _statistics(plain["statistics"])
        return noted

    def remove(self) -> None:
        """Removes the log, once the folder is finished."""
        if tf.io.gfile.exists(self._folder):
            tf.io.gfile.rmtree(self._folder)


def _statistics(plain: dict[str, Any]) -> SubgraphStatistics:
    def sizes(key: str) -> dict[str, SizeStatistics]:
        return {name: SizeStatistics(**values) for name, values in plain[key].items()}

    return SubgraphStatistics(
        num_subgraphs=plain["num_subgraphs"],
        num_negatives=plain["num_negatives"],
        node_sets=sizes("node_sets"),
        edge_sets=sizes("edge_sets"),
        all_nodes=SizeStatistics(**plain["all_nodes"]),
        all_edges=SizeStatistics(**plain["all_edges"]),
        hops={name: HopCounts(**counts) for name, counts in plain["hops"].items()},
        fan_out_saturation=plain["fan_out_saturation"],
        truncated_hubs={
            name: tuple(TruncatedHub(**hub) for hub in hubs) for name, hubs in plain["truncated_hubs"].items()
        },
    )
