from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.io.folder_listing import list_all_files
from tfx_gnn.io.renames import rename_file, rename_folder


def test_file_replaces_another(tmp_path):
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")

    rename_file(str(tmp_path / "a"), str(tmp_path / "b"))

    assert list_all_files(str(tmp_path)) == ["b"]
    assert (tmp_path / "b").read_text() == "new"


def test_file_that_is_nowhere_is_an_error(tmp_path):
    with pytest.raises(tf.errors.NotFoundError):
        rename_file(str(tmp_path / "a"), str(tmp_path / "b"))


def test_folder_is_moved_with_all_that_is_in_it(tmp_path):
    for name in ("a.txt", "sub/b.txt", "sub/deep/c.txt"):
        (tmp_path / "old" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "old" / name).write_text(name)
    (tmp_path / "old" / "empty").mkdir()

    rename_folder(str(tmp_path / "old"), str(tmp_path / "new"))

    assert not (tmp_path / "old").exists()
    assert list_all_files(str(tmp_path / "new")) == ["a.txt", "sub/b.txt", "sub/deep/c.txt"]
    assert (tmp_path / "new" / "empty").is_dir()
