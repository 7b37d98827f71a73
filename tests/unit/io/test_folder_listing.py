from __future__ import annotations

import os

import pytest

from tfx_gnn.io.folder_listing import is_folder, list_all_files, list_entries


@pytest.fixture
def folder(tmp_path):
    for name in ("b.txt", "sub/a.txt", "sub/deep/c.txt", "Sub.txt"):
        (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / name).write_text(name)
    (tmp_path / "folder" / "empty").mkdir()
    return str(tmp_path / "folder")


def test_files_are_listed_with_those_of_inner_folders(folder):
    assert list_all_files(folder) == ["Sub.txt", "b.txt", "sub/a.txt", "sub/deep/c.txt"]
    assert list_all_files(folder + "/") == list_all_files(folder)


def test_entries_are_files_and_folders(folder):
    assert list_entries(folder) == ["Sub.txt", "b.txt", "empty", "sub"]


def test_what_is_absent_or_a_file_is_no_folder(folder):
    for path in (f"{folder}/absent", f"{folder}/b.txt", f"{folder}/b.txt/inside"):
        assert not is_folder(path)
        assert list_entries(path) == []
        assert list_all_files(path) == []


def test_links_to_folders_are_followed(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)

    assert list_all_files(str(tmp_path / "link")) == list_all_files(folder)


def test_names_of_any_kind_are_listed(tmp_path):
    names = ["\u00fc.txt", "a b", "a%20b", "[x]", ".hidden"]
    for name in names:
        (tmp_path / name).write_text("")

    assert list_all_files(str(tmp_path)) == sorted(names)


def test_name_that_is_not_in_utf_8_is_told(tmp_path):
    os.mkdir(os.fsencode(tmp_path) + b"/\xe4")

    with pytest.raises(ValueError, match=r"must have names in UTF-8; got the bytes b'\\xe4'"):
        list_entries(str(tmp_path))
