from __future__ import annotations

import errno
import os
import stat

import pytest
import tensorflow as tf

from tfx_gnn.io.whole_files import copy_files, on_local_disk, write_whole


@pytest.fixture(params=["disk", "object store"])
def place(request, tmp_path):
    return str(tmp_path) if request.param == "disk" else f"ram://{tmp_path.name}-{os.getpid()}"


def _read(path):
    with tf.io.gfile.GFile(path) as file:
        return file.read()


def test_file_is_written_and_replaced(place):
    for text in ("first", "second"):
        write_whole(f"{place}/note", text)

        assert _read(f"{place}/note") == text
    assert tf.io.gfile.listdir(place) == ["note"]


def test_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")))

    write_whole(str(tmp_path / "note"), "text")

    assert synced == [str(tmp_path / ".note.writing"), str(tmp_path)]


def test_file_that_is_replaced_keeps_its_permissions(tmp_path):
    (tmp_path / "note").write_text("first")
    (tmp_path / "note").chmod(0o600)

    write_whole(str(tmp_path / "note"), "second")

    assert stat.S_IMODE((tmp_path / "note").stat().st_mode) == 0o600


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_link_in_the_place_of_the_hidden_sibling_is_not_followed(tmp_path, link):
    (tmp_path / "victim").write_text("precious")
    link(tmp_path / "victim", tmp_path / ".note.writing")

    with pytest.raises(ValueError, match=r"\.note\.writing` must be a regular file"):
        write_whole(str(tmp_path / "note"), "text")
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "note").exists()


def test_all_files_of_a_folder_are_copied(place):
    for name in ("from/a", "from/deep/b", "to/c"):
        tf.io.gfile.makedirs(os.path.dirname(f"{place}/{name}"))
        write_whole(f"{place}/{name}", name)

    copy_files(f"{place}/from", f"{place}/to")

    assert [_read(f"{place}/to/{name}") for name in ("a", "deep/b", "c")] == ["from/a", "from/deep/b", "to/c"]
    # No folder named ".", as an object store would make it.
    assert sorted(name.rstrip("/") for name in tf.io.gfile.listdir(f"{place}/to")) == ["a", "c", "deep"]


def test_folder_of_an_object_store_is_on_a_local_disk_for_a_while(place, tmp_path):
    write_whole(f"{place}/note", "text")

    with on_local_disk(place) as folder:
        assert (folder == place) is (place == str(tmp_path))
        with open(f"{folder}/note") as file:
            assert file.read() == "text"

    assert os.path.exists(folder) is (place == str(tmp_path))


def test_copies_replace_files(tmp_path):
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)

    copy_files(str(tmp_path / "from"), str(tmp_path / "to"))

    assert (tmp_path / "to" / "a").read_text() == "from"


def test_copy_of_a_missing_folder_is_nothing(tmp_path):
    copy_files(str(tmp_path / "absent"), str(tmp_path / "to"))

    assert os.listdir(tmp_path) == []


def _fail(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("earlier", [{}, {"schema.pbtxt": "earlier"}], ids=["none", "earlier"])
@pytest.mark.parametrize("name", ["fsync", "rename"])
def test_a_failure_leaves_the_earlier_file_or_none(tmp_path, monkeypatch, earlier, name):
    for file, text in earlier.items():
        (tmp_path / file).write_text(text)
    monkeypatch.setattr(os, name, _fail)

    with pytest.raises(OSError, match=r"No space left.*/schema\.pbtxt'$"):
        write_whole(str(tmp_path / "schema.pbtxt"), "text")

    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == earlier


def test_what_a_killed_run_left_is_written_over(tmp_path):
    (tmp_path / ".schema.pbtxt.writing").write_text("a longer text that was cut")

    write_whole(str(tmp_path / "schema.pbtxt"), "text")

    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"schema.pbtxt": "text"}


def test_the_file_behind_a_link_is_replaced(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "real.txt").write_text("earlier")
    (tmp_path / "link.txt").symlink_to("inner/real.txt")

    write_whole(str(tmp_path / "link.txt"), "text")

    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "inner" / "real.txt").read_text() == "text"


def test_a_device_is_written_to_and_stays(tmp_path):
    write_whole("/dev/null", "text")

    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_file_of_a_missing_folder_is_refused_by_its_name(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match=r"absent/schema\.pbtxt"):
        write_whole(str(tmp_path / "absent" / "schema.pbtxt"), "text")


def test_files_of_other_file_systems_are_written_as_they_are():
    write_whole("ram://schema.pbtxt", "text")

    with tf.io.gfile.GFile("ram://schema.pbtxt") as file:
        assert file.read() == "text"
