import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tfx_gnn.io.atomic_folder import resumable_folder
from tfx_gnn.io.commit_journal import COMMIT_MARK
from tfx_gnn.io.leftovers import UNFINISHED_MARK, unfinished_folder, unfinished_lock
from tfx_gnn.io.process_lock import process_lock

DIE_AFTER_ONE_FILE = (
    "import os, signal, sys\n"
    "from tfx_gnn.io.atomic_folder import resumable_folder\n"
    "with resumable_folder(sys.argv[1], fingerprint='work') as folder:\n"
    "    open(os.path.join(folder, 'one.txt'), 'w').close()\n"
    "    os.kill(os.getpid(), signal.SIGKILL)\n"
)


def test_folder_appears_with_its_files_and_nothing_else(tmp_path):
    target = tmp_path / "out"
    target.mkdir()

    with resumable_folder(str(target) + "/", fingerprint="work") as folder:
        Path(folder, "a.txt").write_text("whole")
        seen_inside = os.listdir(target)

    assert not seen_inside
    assert os.listdir(target) == ["a.txt"]
    assert os.listdir(tmp_path) == ["out"]


def test_place_of_what_is_unfinished_is_known_before(tmp_path):
    expected = unfinished_folder(str(tmp_path / "out") + "/", work="w" * 24)

    with resumable_folder(str(tmp_path / "out"), fingerprint="w" * 64) as folder:
        assert folder == expected


def test_a_killed_run_is_taken_up_by_the_next_one_with_another_output(tmp_path):
    result = subprocess.run([sys.executable, "-c", DIE_AFTER_ONE_FILE, str(tmp_path / "5")], check=False)
    left = sorted(os.listdir(tmp_path))

    with resumable_folder(str(tmp_path / "7"), fingerprint="work") as folder:
        found = os.listdir(folder)

    assert result.returncode == -signal.SIGKILL
    assert left == [".5.lock", f"{UNFINISHED_MARK}work-5", f"{UNFINISHED_MARK}work.lock"]
    assert found == ["one.txt"]
    assert os.listdir(tmp_path / "7") == ["one.txt"]
    assert os.listdir(tmp_path) == ["7"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_interrupt_at_the_rename_loses_no_work(tmp_path, monkeypatch, when):
    rename = os.rename

    def interrupt(source, target):
        if when == "after":
            rename(source, target)
        # As after a kill, no journal may be there by which the next run would take the folder back.
        assert not [name for name in os.listdir(tmp_path) if COMMIT_MARK in name]
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupt)
    with (
        pytest.raises(KeyboardInterrupt),
        resumable_folder(str(tmp_path / "out"), fingerprint="work") as folder,
    ):
        Path(folder, "one.txt").write_text("whole")

    assert os.listdir(tmp_path) == ["out" if when == "after" else f"{UNFINISHED_MARK}work-out"]
    assert [path.name for path in tmp_path.glob("*/*")] == ["one.txt"]


def test_other_work_finds_nothing(tmp_path):
    subprocess.run([sys.executable, "-c", DIE_AFTER_ONE_FILE, str(tmp_path / "out")], check=False)

    with resumable_folder(str(tmp_path / "out"), fingerprint="other") as folder:
        assert os.listdir(folder) == []


def _interrupt(path, work):
    with contextlib.suppress(KeyboardInterrupt), resumable_folder(str(path), fingerprint=work) as folder:
        Path(folder, f"{work}.txt").write_text("half")
        raise KeyboardInterrupt


def test_other_work_for_the_same_output_is_removed_by_the_run_that_succeeds(tmp_path):
    for work in ("old", "older", "new"):
        _interrupt(tmp_path / "out", work)
    before = sorted(os.listdir(tmp_path))
    Path(unfinished_lock(str(tmp_path / "out"), work="old")).touch()

    with resumable_folder(str(tmp_path / "out"), fingerprint="new") as folder:
        seen_inside = sorted(name for name in os.listdir(tmp_path) if not name.endswith(".lock"))

    assert before == seen_inside == [f"{UNFINISHED_MARK}{work}-out" for work in ("new", "old", "older")]
    assert Path(folder).name == f"{UNFINISHED_MARK}new-out"
    assert os.listdir(tmp_path / "out") == ["new.txt"]
    assert os.listdir(tmp_path) == ["out"]


def test_work_for_other_outputs_and_work_that_is_going_on_stay(tmp_path):
    _interrupt(tmp_path / "other", "work")
    _interrupt(tmp_path / "more-out", "more")
    _interrupt(tmp_path / "out", "living")
    before = sorted(os.listdir(tmp_path))

    with (
        process_lock(unfinished_lock(str(tmp_path / "out"), work="living"), rule=""),
        resumable_folder(str(tmp_path / "out"), fingerprint="new"),
    ):
        pass

    assert sorted(os.listdir(tmp_path)) == [*before, "out"]


def test_work_that_is_only_partly_removed_is_not_resumed(tmp_path, monkeypatch):
    def die(folder):
        raise KeyboardInterrupt

    _interrupt(tmp_path / "out", "old")
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", die)
        with (
            pytest.raises(KeyboardInterrupt),
            resumable_folder(str(tmp_path / "out"), fingerprint="new") as folder,
        ):
            Path(folder, "new.txt").write_text("whole")

    assert not (tmp_path / f"{UNFINISHED_MARK}old-out").exists()
    with resumable_folder(str(tmp_path / "out"), fingerprint="new"):
        pass
    assert os.listdir(tmp_path) == ["out"]


def test_an_exception_before_anything_is_written_leaves_nothing(tmp_path):
    with (
        pytest.raises(RuntimeError, match="boom"),
        resumable_folder(str(tmp_path / "out"), fingerprint="work"),
    ):
        raise RuntimeError("boom")

    assert os.listdir(tmp_path) == []


def test_two_runs_of_one_work_do_not_mix(tmp_path):
    with (
        resumable_folder(str(tmp_path / "a"), fingerprint="work") as folder,
    ):
        Path(folder, "a.txt").write_text("mine")
        with (
            pytest.raises(
                BlockingIOError,
                match=rf"`path` must be made by one process at a time; got '{tmp_path}/b', .* process {os.getpid()} on",
            ),
            resumable_folder(str(tmp_path / "b"), fingerprint="work"),
        ):
            pass

    assert os.listdir(tmp_path / "a") == ["a.txt"]


def test_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "old.txt").write_text("old")

    with (
        pytest.raises(FileExistsError, match=r"must be absent or an empty folder; got .*old\.txt"),
        resumable_folder(str(tmp_path), fingerprint="work"),
    ):
        pass


def test_planted_link_in_the_place_of_unfinished_work_is_refused(tmp_path):
    (tmp_path / "thesis").mkdir()
    os.symlink("thesis", unfinished_folder(str(tmp_path / "out"), work="work"))

    with (
        pytest.raises(
            ValueError, match="unfinished-work-out` must be a folder that a run of this user has made; got a link"
        ),
        resumable_folder(str(tmp_path / "out"), fingerprint="work"),
    ):
        pass

    assert os.listdir(tmp_path / "thesis") == []


def test_unfinished_work_of_another_user_is_refused(tmp_path, of_another_user):
    place = Path(unfinished_folder(str(tmp_path / "out"), work="work"))
    place.mkdir()
    (place / "shard").write_text("forged")
    of_another_user(place)

    with (
        pytest.raises(ValueError, match="got that of another user"),
        resumable_folder(str(tmp_path / "out"), fingerprint="work"),
    ):
        pass

    assert os.listdir(place) == ["shard"]
    assert not (tmp_path / "out").exists()
