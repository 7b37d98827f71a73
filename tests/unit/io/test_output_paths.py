from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tfx_gnn.io.atomic_folder import atomic_folder, atomic_folders, check_absent_or_empty, resolve_outputs


def _write(path: str) -> None:
    with atomic_folder(path, name="model_dir") as partial:
        Path(partial, "file").write_text("a")


def test_link_to_a_folder_is_followed_and_stays(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk")

    _write(str(tmp_path / "out") + "/")

    assert os.readlink(tmp_path / "out") == "disk"
    assert os.listdir(tmp_path / "disk") == ["file"]
    assert sorted(os.listdir(tmp_path)) == ["disk", "out"]


def test_parent_that_is_a_link_is_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to("disk")

    _write(str(tmp_path / "runs" / "deep" / "out"))

    assert os.listdir(tmp_path / "disk" / "deep" / "out") == ["file"]


@pytest.mark.parametrize("path", ["nowhere", "nowhere/deep/out", "loop"])
def test_link_to_nothing_is_refused(tmp_path, path):
    (tmp_path / "nowhere").symlink_to("missing")
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(ValueError, match=r"`model_dir` must be a folder, or a link to one; .* is a link to nothing"):
        _write(str(tmp_path / path))

    assert sorted(os.listdir(tmp_path)) == ["loop", "nowhere"]


def test_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    (tmp_path / "link").symlink_to("out")

    for name in ("out", "link"):
        with pytest.raises(FileExistsError, match=r"`model_dir` must be absent or an empty .*, which is a file"):
            _write(str(tmp_path / name))
    with pytest.raises(NotADirectoryError, match=r"`model_dir` must be in a folder; got .*, where '.*/out' is a file"):
        _write(str(tmp_path / "out" / "deeper"))


def test_folder_with_files_behind_a_link_is_refused(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "mine").write_text("a")
    (tmp_path / "out").symlink_to("disk")

    with pytest.raises(FileExistsError, match=r"`model_dir` must be absent or an empty folder; .*'mine'"):
        _write(str(tmp_path / "out"))


def test_current_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(FileExistsError, match=r"`model_dir` must be another folder than the current one; got '\.'"):
        _write(".")


def test_place_of_a_mounted_disk_is_refused():
    with pytest.raises(ValueError, match=r"`model_dir` must be a folder whose name .* got '/proc', where a disk is"):
        resolve_outputs({"model_dir": "/proc"})


def test_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    # Root may write everywhere: what the system says to others.
    monkeypatch.setattr(os, "access", lambda path, _: path != str(tmp_path))

    with pytest.raises(PermissionError, match=r"`model_dir` must be in a folder that can be written; got .*/a/out'"):
        _write(str(tmp_path / "a" / "out"))


@pytest.mark.parametrize(
    ("first", "second"), [("out", "out"), ("out", "out/deep"), ("link/a", "out"), ("out/../a", "a")]
)
def test_outputs_in_one_another_are_refused_before_anything_is_made(tmp_path, first, second):
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    outputs = {"model_dir": str(tmp_path / first), "model_run_dir": str(tmp_path / second)}

    with (
        pytest.raises(
            ValueError, match="`model_dir` and `model_run_dir` must be two folders, neither inside the other"
        ),
        atomic_folders(outputs),
    ):
        pass

    assert sorted(os.listdir(tmp_path)) == ["link", "out"]


def test_folders_of_alike_names_are_two(tmp_path):
    outputs = {"a": f"{tmp_path}/model", "b": f"{tmp_path}/model_run/", "c": "gs://bucket/model/"}

    found = resolve_outputs({**outputs, "d": f"{tmp_path}/mod", "e": "gs://bucket/mod"})

    assert found == {
        "a": f"{tmp_path}/model",
        "b": f"{tmp_path}/model_run",
        "c": "gs://bucket/model",
        "d": f"{tmp_path}/mod",
        "e": "gs://bucket/mod",
    }


def test_absent_and_empty_folders_are_free(tmp_path):
    check_absent_or_empty(str(tmp_path))
    check_absent_or_empty(str(tmp_path / "absent"))
    (tmp_path / "file").write_text("a")

    with pytest.raises(FileExistsError, match=re.escape("`out` must be absent or an empty folder; got")):
        check_absent_or_empty(str(tmp_path), name="out")
