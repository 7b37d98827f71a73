import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import tensorflow as tf

from tfx_gnn.io.atomic_folder import atomic_folder, atomic_folders
from tfx_gnn.io.commit_journal import PARTIAL_MARK


def test_folder_appears_with_its_files_when_the_block_ends(tmp_path):
    target = tmp_path / "out"

    with atomic_folder(str(target)) as partial:
        Path(partial, "a.txt").write_text("whole")
        seen_inside = target.exists()

    assert not seen_inside
    assert (target / "a.txt").read_text() == "whole"
    assert os.listdir(tmp_path) == ["out"]


def test_an_empty_folder_made_ahead_is_replaced(tmp_path):
    target = tmp_path / "out"
    target.mkdir()

    with atomic_folder(str(target) + "/") as partial:
        Path(partial, "a.txt").write_text("whole")

    assert os.listdir(target) == ["a.txt"]


def test_an_exception_leaves_nothing(tmp_path):
    def write_half():
        with atomic_folder(str(tmp_path / "out")) as partial:
            Path(partial, "a.txt").write_text("half")
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        write_half()

    assert os.listdir(tmp_path) == []


def test_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "old.txt").write_text("old")

    with (
        pytest.raises(FileExistsError, match=r"must be absent or an empty folder; got .*old\.txt"),
        atomic_folder(str(tmp_path)),
    ):
        pass


def _die_while_writing(target):
    script = (
        "import os, signal, sys\n"
        "from tfx_gnn.io.atomic_folder import atomic_folder\n"
        "with atomic_folder(sys.argv[1]) as partial:\n"
        "    open(os.path.join(partial, 'half.txt'), 'w').close()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    result = subprocess.run([sys.executable, "-c", script, str(target)], check=False)
    assert result.returncode == -signal.SIGKILL


def test_sigkill_leaves_only_a_marked_hidden_folder_that_the_next_one_removes(tmp_path):
    target = tmp_path / "out"
    (tmp_path / f".other{PARTIAL_MARK}1").mkdir()

    _die_while_writing(target)

    other, lock, left = sorted(os.listdir(tmp_path))
    assert (other, lock) == (".other.partial-1", ".out.lock")
    assert left.startswith(f".out{PARTIAL_MARK}")
    with atomic_folder(str(target)) as partial:
        assert sorted(os.listdir(tmp_path)) == [".other.partial-1", ".out.lock", os.path.basename(partial)]
    assert sorted(os.listdir(tmp_path)) == [".other.partial-1", "out"]


def test_a_folder_that_another_one_writes_is_refused_and_left_alone(tmp_path):
    target = tmp_path / "out"

    with atomic_folder(str(target)) as partial:
        with (
            pytest.raises(BlockingIOError, match=r"`path` must be written by one process at a time; got .*/out'"),
            atomic_folder(str(target)),
        ):
            pass
        Path(partial, "a.txt").write_text("whole")

    assert os.listdir(target) == ["a.txt"]


def test_a_relative_path_is_written_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with atomic_folder("out"):
        assert os.path.exists(".out.lock")

    assert os.listdir() == ["out"]


def test_an_object_store_has_no_lock_and_all_folders_stay():
    bucket = f"ram://{uuid.uuid4().hex}"
    tf.io.gfile.makedirs(f"{bucket}/.out{PARTIAL_MARK}of-another-one")

    with atomic_folder(f"{bucket}/out"):
        pass

    assert sorted(tf.io.gfile.listdir(bucket)) == [f".out{PARTIAL_MARK}of-another-one", "out"]


def test_outputs_on_an_object_store_come_first_and_in_order(tmp_path, monkeypatch):
    bucket = f"ram://{uuid.uuid4().hex}"
    paths = [f"{tmp_path}/a", *(f"{bucket}/{name}" for name in "bcdef"), f"{tmp_path}/g"]
    renamed = []
    for module in (os, tf.io.gfile):

        def note(source, target, rename=module.rename, **options):
            renamed.append(target)
            rename(source, target, **options)

        monkeypatch.setattr(module, "rename", note)
    with atomic_folders({path: path for path in paths}) as partials:
        for partial in partials:
            with tf.io.gfile.GFile(f"{partial}/file", "w") as file:
                file.write("a")

    # A store renames no folder, only files.
    assert renamed == [*(f"{path}/file" for path in paths[1:6]), paths[0], paths[6]]
