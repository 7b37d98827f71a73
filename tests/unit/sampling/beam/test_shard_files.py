import os
from pathlib import Path

import pytest

from tfx_gnn.records import examples_folder
from tfx_gnn.sampling.beam.shard_files import read_block, remove_blocks, shard_path, write_block, write_shard

RECORDS = [bytes([i % 251]) * (i * 37 % 1000) for i in range(300)]


def test_a_shard_of_blocks_is_the_file_that_a_stage_would_write(tmp_path):
    paths = [(block, write_block(str(tmp_path), RECORDS[100 * block : 100 * (block + 1)])) for block in (2, 0, 1)]

    count = write_shard(str(tmp_path), "train", 1, 3, paths)

    examples_folder.write_split_shard(str(tmp_path / "stage"), "train", 1, 3, RECORDS)
    ours = shard_path(str(tmp_path), "train", 1, 3)
    theirs = tmp_path / "stage" / os.path.relpath(ours, tmp_path)
    assert count == 300
    assert Path(ours).read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("records", [[], [b""], [b"a", b"", b"bc"]])
def test_records_of_a_block_come_back(tmp_path, records):
    assert list(read_block(write_block(str(tmp_path), records))) == records


@pytest.mark.parametrize("write", [write_shard, examples_folder.write_split_shard])
def test_a_shard_is_on_the_disk_when_it_is_written(tmp_path, monkeypatch, write):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))

    write(str(tmp_path), "val", 0, 1, [])

    path = shard_path(str(tmp_path), "val", 0, 1)
    assert synced == [os.stat(path).st_ino, os.stat(os.path.dirname(path)).st_ino]


def test_a_shard_without_blocks_is_an_empty_file(tmp_path):
    assert write_shard(str(tmp_path), "val", 0, 1, []) == 0

    assert list(examples_folder.read_split(str(tmp_path), "val").as_numpy_iterator()) == []


def test_nothing_but_shards_stays(tmp_path):
    write_shard(str(tmp_path), "val", 0, 1, [(0, write_block(str(tmp_path), RECORDS))])

    remove_blocks(str(tmp_path))

    assert os.listdir(tmp_path) == ["Split-val"]
