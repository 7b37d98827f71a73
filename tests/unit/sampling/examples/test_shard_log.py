from __future__ import annotations

from pathlib import Path

import pytest

from tfx_gnn.sampling.engine.sampled_subgraphs import SubgraphStatisticsBuilder
from tfx_gnn.sampling.examples.shard_log import ShardLog


@pytest.mark.parametrize("content", ["", '{"split": "tr'])
def test_damaged_note_counts_as_none(tmp_path: Path, content: str) -> None:
    log = ShardLog(str(tmp_path))
    statistics = SubgraphStatisticsBuilder().build()
    for shard in range(2):
        log.note("train", shard, statistics)
    [damaged] = tmp_path.glob(".finished_shards/train-00001.json")
    damaged.write_text(content)

    assert log.read() == {("train", 0): statistics}


def test_removed_notes_are_gone(tmp_path: Path) -> None:
    log = ShardLog(str(tmp_path))
    log.note("train", 0, SubgraphStatisticsBuilder().build())

    log.remove()

    assert (log.read(), list(tmp_path.iterdir())) == ({}, [])
