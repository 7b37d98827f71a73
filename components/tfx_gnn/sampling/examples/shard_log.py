"""A log of finished shards of examples, with their statistics, from which an interrupted sampling run resumes."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfx_gnn.io.finished_shards import FinishedShards
from tfx_gnn.sampling.engine.sampled_subgraphs import HopCounts, SizeStatistics, SubgraphStatistics, TruncatedHub


class ShardLog:
    """Records which shards of an unfinished examples folder are complete, and what they hold."""

    def __init__(self, examples_dir: str) -> None:
        """Opens the log of a folder with `Split-<name>` folders that all workers see."""
        self._log = FinishedShards(examples_dir)

    def note(self, split: str, shard: int, statistics: SubgraphStatistics) -> None:
        """Records that a shard is complete; to be called once its file is in place."""
        self._log.note(split, shard, dataclasses.asdict(statistics))

    def read(self) -> dict[tuple[str, int], SubgraphStatistics]:
        """Lists the complete shards, by (split, position of the file)."""
        return {shard: _statistics(plain) for shard, plain in self._log.read().items()}

    def remove(self) -> None:
        """Removes the log, once the folder is finished."""
        self._log.remove()


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
