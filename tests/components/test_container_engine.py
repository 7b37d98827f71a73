"""What can be told of container engines without one; tests/containers runs them."""

import os
from pathlib import Path

import pytest

from tfx_gnn_pipelines.emulator.container_engine import EngineKind, ImageContainers, local_folders


def test_folders_are_mounted_under_absolute_paths_and_tables_of_a_package_not_at_all(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    changed, written, read = local_folders({"push_destination": "serving", "tables_dir": "package://shop/data"})

    assert (changed, written, read) == ({"push_destination": f"{tmp_path}/serving"}, [tmp_path / "serving"], [])


def test_tables_in_a_folder_are_only_read():
    changed, written, read = local_folders({"push_destination": "/serving", "tables_dir": "/tables", "num_epochs": 3})

    assert (written, read) == ([Path("/serving")], [Path("/tables")])
    assert changed == {"push_destination": "/serving", "tables_dir": "/tables"}


def test_all_spans_of_the_tables_are_mounted():
    changed, _, read = local_folders({"tables_dir": "/tables/{SPAN}"})

    assert (changed, read) == ({"tables_dir": "/tables/{SPAN}"}, [Path("/tables")])


def test_places_on_object_stores_are_refused():
    with pytest.raises(ValueError, match=r"`tables_dir` must be a folder with --container.*got 'gs://bucket/tables'"):
        local_folders({"tables_dir": "gs://bucket/tables"})


def test_folder_that_images_close_to_their_users_is_refused():
    home = Path("/", "root")

    with pytest.raises(ValueError, match=r"`push_destination` must not be below /root with --container, where images"):
        local_folders({"push_destination": str(home / "served")})
    local_folders({"push_destination": f"{home}ed/served"})


def test_engine_that_is_not_installed_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(FileNotFoundError, match="got 'podman', which is not on PATH"):
        ImageContainers(EngineKind.PODMAN)


def test_docker_is_refused_to_root(monkeypatch, tmp_path):
    program = tmp_path / "docker"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    with pytest.raises(PermissionError, match="or use podman"):
        ImageContainers(EngineKind.DOCKER)
