from __future__ import annotations

import errno
import os
import stat

import pytest
import tensorflow as tf

from tfx_gnn.io.atomic_file import write_whole_file


def _fail(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("earlier", [{}, {"schema.pbtxt": "earlier"}], ids=["none", "earlier"])
@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_failure_leaves_the_earlier_file_or_none(tmp_path, monkeypatch, earlier, name):
    for file, text in earlier.items():
        (tmp_path / file).write_text(text)
    monkeypatch.setattr(os, name, _fail)

    with pytest.raises(OSError, match=r"No space left.*/schema\.pbtxt'$"):
        write_whole_file(str(tmp_path / "schema.pbtxt"), "text")

    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == earlier


def test_what_a_killed_run_left_is_written_over(tmp_path):
    (tmp_path / ".schema.pbtxt.writing").write_text("a longer text that was cut")

    write_whole_file(str(tmp_path / "schema.pbtxt"), "text")

    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"schema.pbtxt": "text"}


def test_the_file_behind_a_link_is_replaced(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "real.txt").write_text("earlier")
    (tmp_path / "link.txt").symlink_to("inner/real.txt")

    write_whole_file(str(tmp_path / "link.txt"), "text")

    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "inner" / "real.txt").read_text() == "text"


def test_a_device_is_written_to_and_stays(tmp_path):
    write_whole_file("/dev/null", "text")

    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_file_of_a_missing_folder_is_refused_by_its_name(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match=r"absent/schema\.pbtxt"):
        write_whole_file(str(tmp_path / "absent" / "schema.pbtxt"), "text")


def test_files_of_other_file_systems_are_written_as_they_are():
    write_whole_file("ram://schema.pbtxt", "text")

    with tf.io.gfile.GFile("ram://schema.pbtxt") as file:
        assert file.read() == "text"
