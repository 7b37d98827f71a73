"""A bucket that forbids to list is told, and never taken for an empty one."""

from __future__ import annotations

import os

import pytest
import tensorflow as tf

from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.io.folder_listing import list_all_files, list_entries
from tfx_gnn.io.whole_files import copy_files
from tfx_gnn.serving.object_store_versions import copied_version
from tfx_gnn.serving.versions import PushOrigin, list_versions


@pytest.fixture(scope="module")
def versions(gcs):
    """A destination with two versions, where folders have the zero-byte objects that consoles make for them."""
    for name in ("", "1/", "1/variables/", "1/assets/", "2/"):
        gcs.write(f"listed/{name}", b"")
    for name in ("1/saved_model.pb", "1/variables/variables.index", "2/saved_model.pb"):
        gcs.write(f"listed/{name}", name.encode())
    return "gs://bucket/listed"


def test_markers_of_folders_are_no_files(versions, tmp_path):
    assert list_versions(versions) == [1, 2]
    assert list_entries(f"{versions}/1") == ["assets", "saved_model.pb", "variables"]
    assert list_all_files(f"{versions}/1") == ["saved_model.pb", "variables/variables.index"]

    copy_files(f"{versions}/1", str(tmp_path / "copy"))

    assert (tmp_path / "copy" / "variables" / "variables.index").read_bytes() == b"1/variables/variables.index"
    assert fingerprint_folders([f"{versions}/1"]) == fingerprint_folders([str(tmp_path / "copy")])
    assert sorted(os.listdir(tmp_path / "copy")) == ["assets", "saved_model.pb", "variables"]


@pytest.mark.parametrize("look", [list_versions, list_all_files, lambda folder: fingerprint_folders([folder])])
def test_forbidden_folder_is_not_empty(gcs, versions, look):
    with gcs.failing(rate=1, kinds=["forbidden"]), pytest.raises(tf.errors.PermissionDeniedError):
        look(versions)


def test_push_to_a_bucket_that_forbids_to_list_ends(gcs, versions, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"model")
    origin = PushOrigin(model="a", record="gs://bucket/record")
    recorded: set[str] = set()

    with (
        # Writing is allowed, as to whoever may create objects and nothing else.
        gcs.failing(rate=1, kinds=["forbidden"], methods=["GET"]) as counts,
        pytest.raises(tf.errors.PermissionDeniedError),
        copied_version(str(tmp_path / "model"), versions, origin, recorded.__contains__),
    ):
        pass

    assert counts["requests"] == counts["GET"]
    assert list_versions(versions) == [1, 2]
