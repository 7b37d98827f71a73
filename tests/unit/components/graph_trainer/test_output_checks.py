from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess

import pytest
import tf_keras

from tfx_gnn.components.graph_trainer.output_checks import LOGS_BYTES, OutputSizes, check_outputs, check_places
from tfx_gnn.components.graph_trainer.output_folders import FINISHED_FILE

MIB = 1 << 20


def test_folders_to_be_made_pass_and_nothing_is_left(tmp_path):
    check_outputs({"model_dir": (str(tmp_path / "a" / "b" / "model"), MIB), "model_run_dir": (str(tmp_path), MIB)})

    assert list(tmp_path.iterdir()) == []


def test_relative_folder_is_looked_for_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    check_outputs({"model_dir": ("model", MIB)})


def test_file_in_the_way_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    folder = str(tmp_path / "taken" / "model")

    message = f"`model_dir` must be a folder that can be made and written; got '{folder}' in '{tmp_path}/taken', which"
    with pytest.raises(ValueError, match=re.escape(message)):
        check_outputs({"model_dir": (folder, MIB)})


def test_folder_without_permission_is_named_with_its_parent(tmp_path, monkeypatch):
    # Root may write everywhere, so the system's answer is given for it.
    def refuse(path, mode=0o777):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "mkdir", refuse)

    with pytest.raises(ValueError, match=rf"`model_dir` .* in '{tmp_path}', where nothing can be written: Permission"):
        check_outputs({"model_dir": (str(tmp_path / "model"), MIB)})


def test_unknown_object_store_is_named():
    with pytest.raises(ValueError, match=r"`checkpoint_dir` must be a folder that can be written; got 'nowhere://b/c'"):
        check_outputs({"checkpoint_dir": ("nowhere://b/c", MIB)})


def test_needs_of_folders_on_one_disk_add_up(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    half = free // 2
    check_outputs({"model_dir": (str(tmp_path), half)})

    message = rf"must have room for {half + free:,} bytes \(`model_dir` {half:,}, `model_run_dir` {free:,}\); got \d"
    with pytest.raises(ValueError, match=message):
        check_outputs({"model_dir": (str(tmp_path), half), "model_run_dir": (str(tmp_path / "run"), free)})


def test_small_disk_is_not_confused_with_a_large_one(tmp_path, small_disk):
    check_outputs({"model_dir": (str(tmp_path), 2 * MIB), "checkpoint_dir": (str(small_disk), MIB // 2)})

    with pytest.raises(ValueError, match=r"`checkpoint_dir` must have room for 2,097,152 bytes"):
        check_outputs({"model_dir": (str(tmp_path), 2 * MIB), "checkpoint_dir": (str(small_disk), 2 * MIB)})


def test_full_disk_is_told_before_there_is_a_model(tmp_path, small_disk):
    (small_disk / "fills").write_bytes(b"x" * (MIB - 8192))

    with pytest.raises(ValueError, match=r"must have room for 16,777,216 bytes \(`model_run_dir` 16,777,216\); got \d"):
        check_places(model_dir=str(tmp_path / "model"), model_run_dir=str(small_disk / "run"), checkpoint_dir="")


def test_read_only_file_system_is_told(tmp_path, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    folder = str(small_disk / "deep" / "checkpoints")

    message = f"`checkpoint_dir` .* got '{folder}' in '{small_disk}', where nothing can be written: Read-only"
    with pytest.raises(ValueError, match=message):
        check_places(model_dir=str(tmp_path / "a"), model_run_dir=str(tmp_path / "b"), checkpoint_dir=folder)


def test_training_that_has_ended_needs_no_room(small_disk):
    (small_disk / "run").mkdir()
    (small_disk / "run" / FINISHED_FILE).write_text("{}")

    check_places(model_dir=str(small_disk / "model"), model_run_dir=str(small_disk / "run"), checkpoint_dir="")


def test_sizes_follow_from_weights_and_slots():
    model = tf_keras.Sequential([tf_keras.layers.Dense(8)])
    model.build([None, 4])
    model.compile("adam")
    model.optimizer.build(model.trainable_variables)

    weights = 4 * (4 * 8 + 8)
    assert OutputSizes.of_model(model) == OutputSizes(
        checkpoints=3 * (3 * weights + 8) + LOGS_BYTES, model=weights + LOGS_BYTES, run=2 * weights + LOGS_BYTES
    )
