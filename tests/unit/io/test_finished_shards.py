from __future__ import annotations

import pytest

from tfx_gnn.io.finished_shards import FinishedShards


def test_finished_files_are_known_by_split_and_position(tmp_path):
    log = FinishedShards(str(tmp_path))
    assert log.read() == {}
    log.note("train", 3, {"rows": 5})
    log.note("train", 3, {"rows": 6})

    assert FinishedShards(str(tmp_path)).read() == {("train", 3): {"rows": 6}}
    log.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b"\xff\xfe", b'{"split": "train", "sha'])
def test_damaged_records_are_ignored(tmp_path, content):
    log = FinishedShards(str(tmp_path))
    log.note("train", 0, 1)
    log.note("train", 1, 2)
    next(tmp_path.glob("*/train-00000.json")).write_bytes(content)

    assert log.read() == {("train", 1): 2}
