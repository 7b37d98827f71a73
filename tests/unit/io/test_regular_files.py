import os
import socket

import pytest

from tfx_gnn.io.text_files import check_regular_file


def test_files_folders_and_paths_at_which_nothing_is_pass(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("file")

    for path in ("file", "link", ".", "absent", "file/below", "zero\0byte"):
        check_regular_file(str(tmp_path / path))


@pytest.mark.parametrize("path", ["gs://bucket/pipe", "ram:///dev/zero", "s3://dev/zero"])
def test_other_file_systems_are_not_looked_at(path):
    check_regular_file(path)


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_pipes_sockets_and_devices_are_refused(tmp_path, monkeypatch, prefix):
    monkeypatch.chdir(tmp_path)  # The name of a socket must be short.
    os.mkfifo("pipe")
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")

    kinds = {"pipe": "a named pipe", "link": "a named pipe", "socket": "a socket"}
    for name, kind in kinds.items():
        with pytest.raises(ValueError, match=rf"/{name}` must be a regular file; got {kind}\. Write what it gives to"):
            check_regular_file(f"{prefix}{tmp_path}/{name}")
    for device in ("/dev/zero", "/dev/null"):
        with pytest.raises(ValueError, match=f"`{prefix}{device}` must be a regular file; got a device"):
            check_regular_file(prefix + device)
