"""Which of several folders is the one to serve."""

import os

import pytest

from tfx_gnn.serving.server.watched_folder import newest_folder


def make(folder):
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    return os.path.realpath(folder)


def test_largest_number_is_the_newest(tmp_path):
    make(tmp_path / "9")
    tenth = make(tmp_path / "10")
    (tmp_path / "11").mkdir()  # Its manifest is not there yet.
    (tmp_path / "12").write_text("")
    make(tmp_path / ".13.writing")

    folder, identity = newest_folder(str(tmp_path), "manifest.json")

    assert folder == tenth
    assert newest_folder(str(tmp_path), "manifest.json")[1] == identity


def test_replaced_folder_and_link_have_another_identity(tmp_path):
    place, link = tmp_path / "place", tmp_path / "link"
    make(place)
    link.symlink_to(place)
    first = newest_folder(str(link), "manifest.json")
    place.rename(tmp_path / "old")
    make(place)
    second = newest_folder(str(link), "manifest.json")
    link.unlink()
    link.symlink_to(tmp_path / "old")
    third = newest_folder(str(link), "manifest.json")

    assert first[0] == second[0] == os.path.realpath(place)
    assert first[1] != second[1]
    assert third[0] == os.path.realpath(tmp_path / "old")


@pytest.mark.parametrize("name", ["", "absent"])
def test_folder_without_any_is_refused(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=r"must hold manifest.json, or numbered folders that do; got none"):
        newest_folder(str(tmp_path / name), "manifest.json")
