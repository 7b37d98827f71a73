from __future__ import annotations

import json
import os
import re

import pytest
import tensorflow as tf

from tfx_gnn.training.checkpoints.checkpoint_files import CheckpointFiles, locked_checkpoints, num_checkpoint_bytes
from tfx_gnn.training.loop.training_loop import TrainingPosition

FINGERPRINT = {"options.training_seed": "0", "transformed_examples": "8" * 64}


def _at(step, epoch=0):
    return TrainingPosition(epoch=epoch, step_in_epoch=0, global_step=step)


class _Files(CheckpointFiles):
    """Keeps what it says."""

    def __init__(self, folder, fingerprint):
        self.said = []
        super().__init__(folder, fingerprint=fingerprint, say=self.said.append)


@pytest.fixture
def files(tmp_path):
    return _Files(str(tmp_path / "checkpoints"), FINGERPRINT)


def _write(files, position, max_to_keep=2):
    tf.io.gfile.makedirs(files.folder)
    tf.train.Checkpoint(weight=tf.Variable(tf.range(100.0))).write(files.path(position))
    files.finish(position, max_to_keep=max_to_keep)


def _manifests(tmp_path):
    return sorted(path.stem for path in (tmp_path / "checkpoints").glob("*.json"))


def test_no_folder_holds_no_checkpoint(files):
    assert files.newest_whole() is None


def test_last_ones_are_kept_and_the_newest_is_taken(files, tmp_path):
    for position in (_at(0), _at(8), _at(10), _at(10, epoch=1)):
        _write(files, position)

    assert files.newest_whole() == _at(10, epoch=1)
    assert _manifests(tmp_path) == ["step-0000000010-epoch-000000", "step-0000000010-epoch-000001"]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2 * 3
    assert files.said == []


def _cut(path):
    path.write_bytes(path.read_bytes()[:-2])


def _spoil(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("suffix", "harm", "defect"),
    [
        (".data-00000-of-00001", lambda path: path.unlink(), "were written"),
        (".data-00000-of-00001", _cut, "were written"),
        (".data-00000-of-00001", _spoil, "[Cc]hecksum"),
        (".index", _spoil, "."),
        (".json", _cut, "its manifest cannot be read"),
    ],
    ids=["no data", "cut data", "spoilt data", "spoilt index", "cut manifest"],
)
def test_damaged_newest_is_passed_over(files, tmp_path, suffix, harm, defect):
    _write(files, _at(5))
    _write(files, _at(7))

    harm(tmp_path / "checkpoints" / f"step-0000000007-epoch-000000{suffix}")

    assert files.newest_whole() == _at(5)
    (line,) = files.said
    assert re.search(f"step-0000000007-epoch-000000' is passed over: .*{defect}", line)


def test_what_lacks_a_manifest_was_not_finished_and_goes_with_the_next_save(files, tmp_path):
    _write(files, _at(5))
    tf.train.Checkpoint(weight=tf.Variable(0.0)).write(files.path(_at(7)))
    half_written = tmp_path / "checkpoints" / "step-0000000009-epoch-000000_temp"
    half_written.mkdir()
    (half_written / "part-00000-of-00001.data-00000-of-00001").write_bytes(b"half")

    assert files.newest_whole() == _at(5)

    _write(files, _at(6))
    assert {path.name.partition(".")[0] for path in (tmp_path / "checkpoints").iterdir()} == {
        "step-0000000005-epoch-000000",
        "step-0000000006-epoch-000000",
    }


def test_other_files_in_the_folder_stay(files, tmp_path):
    _write(files, _at(5))
    (tmp_path / "checkpoints" / "exported.index").write_text("")

    _write(files, _at(6), max_to_keep=1)

    assert (tmp_path / "checkpoints" / "exported.index").exists()
    assert _manifests(tmp_path) == ["step-0000000006-epoch-000000"]


def test_checkpoints_of_another_training_are_refused_by_name(files):
    _write(files, _at(5))
    other = {"options.training_seed": "1", "transformed_examples": "8" * 64, "code": "c" * 64}

    message = r"there changed: code absent -> 'cccccccccccc...', options.training_seed '0' -> '1'\. Remove the folder"
    with pytest.raises(ValueError, match=message):
        _Files(files.folder, other).newest_whole()


def test_manifest_tells_what_the_checkpoint_is_of(files, tmp_path):
    position = TrainingPosition(epoch=1, step_in_epoch=3, global_step=11)

    _write(files, position)

    manifest = json.loads((tmp_path / "checkpoints" / "step-0000000011-epoch-000001.json").read_text())
    assert manifest["position"] == {"epoch": 1, "step_in_epoch": 3, "global_step": 11}
    assert manifest["fingerprint"] == FINGERPRINT
    assert files.newest_whole() == position


def test_locked_folder_is_made_and_goes_if_nothing_is_in_it(tmp_path):
    folder = str(tmp_path / "checkpoints")

    with locked_checkpoints(folder):
        assert os.listdir(folder) == [".lock"]
        with (
            pytest.raises(BlockingIOError, match=r"`checkpoint_dir` must be used by one training at a time; got '.*'"),
            locked_checkpoints(folder),
        ):
            pass

    assert os.listdir(tmp_path) == []


def test_locked_folder_stays_if_it_was_there_or_holds_something(tmp_path):
    (tmp_path / "mine").mkdir()

    with locked_checkpoints(str(tmp_path / "mine")), locked_checkpoints(str(tmp_path / "made")):
        (tmp_path / "made" / "checkpoint").write_text("")

    assert os.listdir(tmp_path / "mine") == []
    assert os.listdir(tmp_path / "made") == ["checkpoint"]


def test_bytes_of_checkpoints_are_counted_without_other_files(files, tmp_path):
    assert num_checkpoint_bytes(files.folder) == 0
    _write(files, _at(5))
    expected = sum(path.stat().st_size for path in (tmp_path / "checkpoints").iterdir())
    (tmp_path / "checkpoints" / "other").write_text("other")

    assert num_checkpoint_bytes(files.folder) == expected
