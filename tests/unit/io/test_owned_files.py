from __future__ import annotations

import os
import re
import socket
import tempfile

import pytest

from tfx_gnn.io.owned_files import check_own_folder, is_own, is_own_folder, open_regular


def _make(folder, kind):
    path = folder / "file"
    (folder / "mine").write_text("mine")
    if kind == "a link":
        path.symlink_to("mine")
    elif kind == "a link to nothing":
        path.symlink_to("absent")
    elif kind == "one with several names":
        os.link(folder / "mine", path)
    elif kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    else:
        path.mkdir()
    return str(path)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR], ids=["read", "write"])
@pytest.mark.parametrize(
    "kind", ["a link", "a link to nothing", "one with several names", "a named pipe", "a socket", "a folder"]
)
def test_only_regular_files_of_one_name_are_opened(tmp_path, monkeypatch, kind, flags):
    # The name of a socket has 107 bytes at most.
    monkeypatch.chdir(tmp_path)
    path = _make(tmp_path.__class__(), kind)
    found = kind.removesuffix(" to nothing")

    with pytest.raises(ValueError, match=rf"`{path}` must be a regular file; got {found}\. Find out who put it there"):
        open_regular(path, flags)

    assert (tmp_path / "mine").read_text() == "mine"


def test_regular_file_is_opened_and_made(tmp_path):
    descriptor = open_regular(str(tmp_path / "a"), os.O_RDWR | os.O_CREAT, 0o640)
    os.write(descriptor, b"a")
    os.close(descriptor)

    assert (tmp_path / "a").read_text() == "a"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_files_of_others_are_not_own(tmp_path, of_another_user):
    path = tmp_path / "a"
    path.write_text("a")
    assert is_own(os.stat(path), str(tmp_path))

    of_another_user(path)

    assert not is_own(os.stat(path), str(tmp_path))


@pytest.mark.parametrize(("mode", "expected"), [(0o644, True), (0o664, False), (0o646, False)])
def test_file_that_others_may_write_is_not_private(tmp_path, mode, expected):
    path = tmp_path / "a"
    path.write_text("a")
    path.chmod(mode)

    assert is_own(os.stat(path), str(tmp_path))
    assert is_own(os.stat(path), str(tmp_path), private=True) is expected


def test_mount_that_shows_one_owner_and_mode_for_all_files_is_no_obstacle(tmp_path, of_another_user, monkeypatch):
    path = tmp_path / "a"
    path.write_text("a")
    path.chmod(0o777)
    of_another_user(path)
    # Whatever is made there looks like that file.
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: path.open())

    assert is_own(os.stat(path), str(tmp_path), private=True)


def test_folder_where_nothing_can_be_made_does_not_make_files_own(tmp_path, of_another_user):
    path = tmp_path / "a"
    path.write_text("a")
    of_another_user(path)

    assert not is_own(os.stat(path), str(tmp_path / "absent"))


@pytest.mark.parametrize("kind", ["a link", "a file", "that of another user"])
def test_hidden_folder_that_no_run_has_made_is_refused(tmp_path, of_another_user, kind):
    path, other = tmp_path / "hidden", tmp_path / "other"
    other.mkdir()
    if kind == "a link":
        path.symlink_to("other")
    elif kind == "a file":
        path.write_text("a")
    else:
        path.mkdir()
        of_another_user(path)

    message = re.escape(f"`{path}` must be a folder that a run of this user has made; got {kind}. Find out who")
    with pytest.raises(ValueError, match=message):
        check_own_folder(str(path))
    check_own_folder(str(tmp_path / "absent"))
    check_own_folder(str(other))
    assert (is_own_folder(str(path)), is_own_folder(str(other))) == (False, True)
