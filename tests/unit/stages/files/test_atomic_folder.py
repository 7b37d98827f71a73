import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tfx_gnn.stages.files.atomic_folder import PARTIAL_MARK, atomic_folder


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


def test_sigkill_leaves_only_a_marked_hidden_folder(tmp_path):
    script = (
        "import os, signal, sys\n"
        "from tfx_gnn.stages.files.atomic_folder import atomic_folder\n"
        "with atomic_folder(sys.argv[1]) as partial:\n"
        "    open(os.path.join(partial, 'half.txt'), 'w').close()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    result = subprocess.run([sys.executable, "-c", script, str(tmp_path / "out")], check=False)

    assert result.returncode == -signal.SIGKILL
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".out")
    assert PARTIAL_MARK in left
