import os
import shutil

import pytest

from tfx_gnn.io.fingerprint import (
    describe_file_version,
    describe_folder_version,
    fingerprint_files,
    fingerprint_folders,
    fingerprint_text,
)


def test_fingerprint_ignores_order_and_folder_but_not_names_or_bytes(tmp_path):
    paths = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for name, text in (("a.csv", "1"), ("b.csv", "2")):
            (tmp_path / folder / name).write_text(text)
        paths.append([str(tmp_path / folder / "a.csv"), str(tmp_path / folder / "b.csv")])
    first = fingerprint_files(paths[0])

    assert fingerprint_files(reversed(paths[0])) == first
    assert fingerprint_files(paths[1]) == first
    assert fingerprint_files(paths[0][:1]) != first
    (tmp_path / "one" / "b.csv").write_text("3")
    assert fingerprint_files(paths[0]) != first


def test_a_name_may_count_instead_of_that_of_the_file(tmp_path):
    for name in ("a.pbtxt", "b.pbtxt"):
        (tmp_path / name).write_text("1")

    assert fingerprint_files([str(tmp_path / "b.pbtxt")], base_name="a.pbtxt") == fingerprint_files(
        [str(tmp_path / "a.pbtxt")]
    )


def test_bytes_moved_between_files_change_the_fingerprint(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("12")
    b.write_text("3")
    before = fingerprint_files([str(a), str(b)])
    a.write_text("1")
    b.write_text("23")

    assert fingerprint_files([str(a), str(b)]) != before


def test_no_file_is_refused():
    with pytest.raises(ValueError, match="must name at least one file"):
        fingerprint_files([])


def test_text_fingerprint_is_sha256():
    assert fingerprint_text("abc").startswith("ba7816bf8f01cfea")


def test_folders_count_as_one_whose_first_file_wins(tmp_path):
    for path, text in {"whole/a": "1", "whole/deep/b": "2", "moved/a": "1", "rest/a": "3", "rest/deep/b": "2"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    whole = fingerprint_folders([str(tmp_path / "whole")])

    assert fingerprint_folders([str(tmp_path / name) for name in ("absent", "moved", "rest")]) == whole
    assert fingerprint_folders([str(tmp_path / name) for name in ("rest", "moved")]) != whole
    assert fingerprint_folders([str(tmp_path / "moved")]) != whole


def test_some_paths_may_be_left_out(tmp_path):
    for name in ("a", "note"):
        (tmp_path / name).write_text(name)
    whole = fingerprint_folders([str(tmp_path)])
    partial = fingerprint_folders([str(tmp_path)], without=["note"])
    (tmp_path / "note").write_text("other")

    assert fingerprint_folders([str(tmp_path)]) != whole != partial
    assert fingerprint_folders([str(tmp_path)], without=["note"]) == partial


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ValueError, match="pipe` must be a regular file; got a named pipe"):
        fingerprint_folders([str(tmp_path)])


def test_place_of_a_file_counts(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two" / "deep").mkdir(parents=True)
    (tmp_path / "one" / "a").write_text("1")
    (tmp_path / "two" / "deep" / "a").write_text("1")

    assert fingerprint_folders([str(tmp_path / "one")]) != fingerprint_folders([str(tmp_path / "two")])


def _write_at(path, text):
    path.write_text(text)
    os.utime(path, ns=(10**18, 10**18))


def test_file_that_nobody_touched_keeps_its_description(tmp_path):
    _write_at(tmp_path / "a", "1")

    assert describe_file_version(str(tmp_path / "a")) == describe_file_version(str(tmp_path / "a"))
    assert describe_file_version(str(tmp_path / "a")) == describe_file_version(f"file://{tmp_path}/a")


@pytest.mark.parametrize("how", ["written over", "put in its place"])
def test_other_bytes_with_equal_size_and_time_have_another_description(tmp_path, how):
    _write_at(tmp_path / "a", "1")
    _write_at(tmp_path / "b", "2")
    before = describe_file_version(str(tmp_path / "a"))

    if how == "written over":
        shutil.copy2(tmp_path / "b", tmp_path / "a")
    else:
        os.rename(tmp_path / "b", tmp_path / "a")

    assert (tmp_path / "a").stat().st_mtime_ns == 10**18
    assert describe_file_version(str(tmp_path / "a")) != before


def test_contents_decide_where_times_are_whole_seconds(tmp_path, monkeypatch):
    def stat_as_of_an_image(path):
        found = stat(path)
        fields = [found.st_mode, 1, found.st_dev, 1, 0, 0, found.st_size, 10**9, 10**9, 10**9]
        return os.stat_result(fields, {"st_mtime_ns": 10**18, "st_ctime_ns": 10**18})

    stat, path, described = os.stat, tmp_path / "a", []
    monkeypatch.setattr(os, "stat", stat_as_of_an_image)
    for text in ("1", "2", "1"):
        _write_at(path, text)
        described.append(describe_file_version(str(path)))

    assert described[0] == described[2] != described[1]


def test_version_of_a_folder_changes_with_names_and_bytes_but_not_with_what_is_left_out(tmp_path):
    for name in ("a", "deep/b", "__pycache__/c", "deep/__pycache__/d"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    described = [describe_folder_version(str(tmp_path), without=["__pycache__"])]

    (tmp_path / "deep" / "__pycache__" / "d").write_text("2")
    assert described[0] == describe_folder_version(str(tmp_path), without=["__pycache__"])

    (tmp_path / "deep" / "b").write_text("2")
    described.append(describe_folder_version(str(tmp_path), without=["__pycache__"]))
    (tmp_path / "e").write_text("")
    described.append(describe_folder_version(str(tmp_path), without=["__pycache__"]))
    (tmp_path / "e").rename(tmp_path / "f")
    described.append(describe_folder_version(str(tmp_path), without=["__pycache__"]))
    assert len(set(described)) == 4


def test_folder_whose_contents_may_be_elsewhere_has_no_version(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path)

    with pytest.raises(ValueError, match=r"must hold its folders itself; got .* with the link 'link'"):
        describe_folder_version(str(tmp_path / "folder"))
    with pytest.raises(NotADirectoryError, match=r"`folder` must be a local folder; got .*/absent"):
        describe_folder_version(str(tmp_path / "absent"))
