from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

import pytest

from tfx_gnn.io.atomic_folder import atomic_folder, held_outputs
from tfx_gnn.io.commit_journal import COMMIT_MARK, PARTIAL_MARK
from tfx_gnn.io.disk_sync import sync_path, sync_tree
from tfx_gnn.io.leftovers import (
    RESUMABLE,
    partial_folders,
    partial_path,
    remove_output,
    remove_partial_folders,
    sweep_beside,
)

DEAD = f"process 1 on {socket.gethostname()} since 2026-01-02 03:04:05"


def _leave(folder: Path, name: str, lock: str = DEAD) -> None:
    """What a killed run leaves beside an output."""
    (folder / f".{name}{PARTIAL_MARK}0123456789ab").mkdir()
    (folder / f".{name}{PARTIAL_MARK}0123456789ab" / "half").write_text("a")
    (folder / f".{name}.lock").write_text(lock)


def test_what_a_killed_run_left_of_another_output_is_swept(tmp_path):
    _leave(tmp_path, "other")
    (tmp_path / f".other{COMMIT_MARK}0123456789ab").write_text('{"outputs": ["other"')

    with atomic_folder(str(tmp_path / "out")):
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".other")]

    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize(
    "lock",
    ["", "of the user", DEAD.replace(socket.gethostname(), "another-machine"), f"{DEAD}, {RESUMABLE}"],
    ids=["empty", "foreign", "of another machine", "resumable"],
)
def test_what_may_be_anybodys_stays(tmp_path, lock):
    _leave(tmp_path, "other", lock)
    before = sorted(os.listdir(tmp_path))

    sweep_beside([str(tmp_path / "out")])

    assert sorted(os.listdir(tmp_path)) == before


def test_what_a_living_run_writes_stays(tmp_path):
    with atomic_folder(str(tmp_path / "living")) as partial:
        Path(partial, "file").write_text("a")
        with atomic_folder(str(tmp_path / "out")):
            pass

    assert os.listdir(tmp_path / "living") == ["file"]


def test_commit_of_another_output_that_was_cut_short_stays(tmp_path):
    _leave(tmp_path, "other")
    (tmp_path / f".other{COMMIT_MARK}0123456789ab").write_text('{"outputs": ["other"], "states": [""]}\n')
    before = sorted(os.listdir(tmp_path))

    sweep_beside([str(tmp_path / "out")])

    assert sorted(os.listdir(tmp_path)) == before


def test_commit_that_began_just_before_its_process_died_stays(tmp_path, monkeypatch):
    _leave(tmp_path, "other")
    journal = tmp_path / f".other{COMMIT_MARK}0123456789ab"
    lock = fcntl.flock

    def lock_after_the_commit_began(*arguments):
        journal.write_text('{"outputs": ["other"], "states": [""]}\n')
        lock(*arguments)

    monkeypatch.setattr(fcntl, "flock", lock_after_the_commit_began)
    sweep_beside([str(tmp_path / "out")])

    assert sorted(os.listdir(tmp_path)) == [journal.name, f".other{PARTIAL_MARK}0123456789ab"]


def test_training_that_can_be_completed_stays(tmp_path):
    outputs = {"model_dir": str(tmp_path / "model")}
    with held_outputs(outputs, outputs, note=RESUMABLE):
        text = (tmp_path / ".model.lock").read_text()
    _leave(tmp_path, "model", text)

    sweep_beside([str(tmp_path / "out")])

    assert len(os.listdir(tmp_path)) == 2


def test_lock_of_resumable_work_goes_and_the_work_stays(tmp_path):
    (tmp_path / ".unfinished-abc-other").mkdir()
    (tmp_path / ".unfinished-abc.lock").write_text(DEAD)

    sweep_beside([str(tmp_path / "out")])

    assert os.listdir(tmp_path) == [".unfinished-abc-other"]


def test_hidden_folders_are_of_their_own_output_alone(tmp_path):
    mine = partial_path(str(tmp_path / "out"))
    for path in (mine, partial_path(f"{tmp_path}/out{PARTIAL_MARK}1"), partial_path(str(tmp_path / "out2"))):
        os.mkdir(path)
    (tmp_path / f".out{PARTIAL_MARK}note").write_text("a file is no hidden folder")

    assert partial_folders(str(tmp_path / "out")) == [mine]
    remove_partial_folders(str(tmp_path / "out"))
    assert partial_folders(str(tmp_path / "out")) == []
    assert len(os.listdir(tmp_path)) == 3


def test_hidden_folders_that_no_run_of_this_user_has_made_stay(tmp_path, of_another_user):
    (tmp_path / "thesis").mkdir()
    (tmp_path / f".out{PARTIAL_MARK}0123456789ab").symlink_to("thesis")
    (tmp_path / f".out{PARTIAL_MARK}ba9876543210").mkdir()
    of_another_user(tmp_path / f".out{PARTIAL_MARK}ba9876543210")
    before = sorted(os.listdir(tmp_path))

    with atomic_folder(str(tmp_path / "out")):
        pass

    assert sorted(os.listdir(tmp_path)) == sorted([*before, "out"])


def test_sweep_leaves_locks_and_journals_that_others_made(tmp_path, of_another_user):
    for name in ("other", "another", "third"):
        _leave(tmp_path, name)
    of_another_user(tmp_path / ".other.lock")
    os.mkfifo(tmp_path / f".another{COMMIT_MARK}0123456789ab")
    os.link(tmp_path / ".third.lock", tmp_path / "file")
    before = sorted(os.listdir(tmp_path))

    sweep_beside([str(tmp_path / "out")])

    assert sorted(os.listdir(tmp_path)) == before


def test_output_is_removed_with_what_lies_beside_it_and_nothing_else(tmp_path):
    for number in ("2", "12"):
        (tmp_path / number).mkdir()
        _leave(tmp_path, number)
        (tmp_path / f".{number}{COMMIT_MARK}0123456789ab").write_text("")

    remove_output(str(tmp_path / "2"))
    remove_output(str(tmp_path / "absent" / "2"))

    assert sorted(name.strip(".")[:2] for name in os.listdir(tmp_path)) == ["12", "12", "12", "12"]


def test_everything_is_put_on_the_disk(tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_text("a")
    (tmp_path / "link").symlink_to("missing")
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))

    sync_tree(str(tmp_path))
    sync_path(str(tmp_path / "deep" / "file"))

    assert sorted(synced) == [str(tmp_path), *(str(tmp_path / name) for name in ("deep", "deep/file", "deep/file"))]
