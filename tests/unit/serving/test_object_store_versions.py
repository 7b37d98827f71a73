from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
from pathlib import Path

import pytest
import tensorflow as tf

from tfx_gnn.io.folder_listing import list_all_files
from tfx_gnn.serving import object_store_versions
from tfx_gnn.serving.object_store_versions import (
    copied_version,
    forget_recorded_objects,
    has_folder_renames,
    leave_unrecorded_object,
)
from tfx_gnn.serving.versions import PushOrigin, list_versions, resolve_saved_model

ORIGIN = PushOrigin(model="model a", record="/records/1")


@pytest.fixture
def model(tmp_path):
    """A folder like a SavedModel's."""
    folder = tmp_path / "model"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"graph")
    (folder / "variables" / "variables.index").write_bytes(b"index")
    return str(folder)


def push(model, destination, *, origin=ORIGIN, recorded=()):
    with copied_version(model, str(destination), origin, lambda record: record in recorded) as version:
        return version


def names(destination):
    return sorted(os.listdir(destination))


def test_version_is_a_copy_with_a_marker(model, tmp_path):
    assert push(model, tmp_path / "serving") == 1

    version = tmp_path / "serving" / "1"
    assert names(tmp_path / "serving") == ["1"]
    assert names(version) == ["saved_model.pb", "tfx_gnn_version.json", "variables"]
    assert (version / "variables" / "variables.index").read_bytes() == b"index"
    assert len(json.loads((version / "tfx_gnn_version.json").read_text())["fingerprint"]) == 64


def test_numbers_grow_and_nothing_is_overwritten(model, tmp_path):
    (tmp_path / "serving" / "7").mkdir(parents=True)
    (tmp_path / "serving" / "7" / "saved_model.pb").write_bytes(b"older")

    assert push(model, tmp_path / "serving") == 8
    assert (tmp_path / "serving" / "7" / "saved_model.pb").read_bytes() == b"older"


def test_model_file_comes_when_all_others_are_there(model, tmp_path, monkeypatch):
    copied = []
    copy = tf.io.gfile.copy

    def note(source, target, **options):
        copied.append((os.path.relpath(source, model), sorted(tf.io.gfile.glob(f"{tmp_path}/serving/1/*"))))
        copy(source, target, **options)

    monkeypatch.setattr(tf.io.gfile, "copy", note)

    push(model, tmp_path / "serving")

    assert [name for name, _ in copied] == ["variables/variables.index", "saved_model.pb"]
    assert copied[-1][1] == [f"{tmp_path}/serving/1/variables"]


@pytest.mark.parametrize("error", [tf.errors.UnimplementedError, tf.errors.PermissionDeniedError])
def test_mount_that_renames_nothing_gets_the_model_file(model, tmp_path, monkeypatch, error):
    def refuse(*_, **__):
        raise error(None, None, "rename")

    monkeypatch.setattr(tf.io.gfile, "rename", refuse)

    push(model, tmp_path / "serving")

    assert names(tmp_path / "serving" / "1") == ["saved_model.pb", "tfx_gnn_version.json", "variables"]
    assert (tmp_path / "serving" / "1" / "saved_model.pb").read_bytes() == Path(model, "saved_model.pb").read_bytes()


def test_store_that_returns_other_bytes_gets_no_model_file(model, tmp_path, monkeypatch):
    copy = tf.io.gfile.copy

    def tear(source, target, **options):
        copy(source, target, **options)
        with open(target, "r+b") as file:
            file.truncate(2)

    monkeypatch.setattr(tf.io.gfile, "copy", tear)

    with pytest.raises(OSError, match="`push_destination` must return what was written to it"):
        push(model, tmp_path / "serving")
    assert names(tmp_path / "serving" / "1") == ["variables"]


def test_concurrent_pushes_get_different_versions(model, tmp_path):
    versions = []

    def push_one(number):
        versions.append(push(model, tmp_path / "serving", origin=PushOrigin(model="a", record=f"/{number}/1")))

    threads = [threading.Thread(target=push_one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(versions)) == 12
    assert sorted(versions) == list_versions(str(tmp_path / "serving"))
    assert [name for name in names(tmp_path / "serving") if name.startswith(".")] == []


def test_push_that_was_killed_before_its_record_finds_its_version(model, tmp_path):
    kill_after_the_copy(model, tmp_path / "serving")

    retry = PushOrigin(model="model a", record="/records/2")
    assert push(model, tmp_path / "serving", origin=retry) == 1
    assert names(tmp_path / "serving") == ["1"]
    assert push(model, tmp_path / "serving", origin=retry) == 2


def kill_after_the_copy(model, destination, origin=ORIGIN):
    with (
        contextlib.suppress(KeyboardInterrupt),
        copied_version(model, str(destination), origin, lambda _: False) as version,
    ):
        raise KeyboardInterrupt
    return version


@pytest.mark.parametrize("lost", ["tfx_gnn_version.json", "variables/variables.index", "saved_model.pb"])
def test_version_that_a_kill_left_incomplete_is_completed(model, tmp_path, lost):
    version = kill_after_the_copy(model, tmp_path / "serving")
    os.remove(tmp_path / "serving" / str(version) / lost)

    assert push(model, tmp_path / "serving") == 1
    assert names(tmp_path / "serving") == ["1"]
    assert names(tmp_path / "serving" / "1") == ["saved_model.pb", "tfx_gnn_version.json", "variables"]
    assert (tmp_path / "serving" / "1" / "variables" / "variables.index").read_bytes() == b"index"


def test_marker_that_a_kill_left_half_written_is_written_again(model, tmp_path):
    kill_after_the_copy(model, tmp_path / "serving")
    marker = tmp_path / "serving" / "1" / "tfx_gnn_version.json"
    marker.write_text("")

    assert push(model, tmp_path / "serving") == 1
    assert json.loads(marker.read_text())["model"] == "model a"


def test_kill_within_the_model_file_leaves_no_half_of_it(model, tmp_path, monkeypatch):
    def write_half(source, target, **_):
        with open(source, "rb") as whole, open(target, "wb") as half:
            half.write(whole.read()[:2])
        if source.endswith("saved_model.pb"):
            raise KeyboardInterrupt

    os.remove(os.path.join(model, "variables", "variables.index"))
    with monkeypatch.context() as patched:
        patched.setattr(tf.io.gfile, "copy", write_half)
        with pytest.raises(KeyboardInterrupt):
            push(model, tmp_path / "serving")

    assert "saved_model.pb" not in names(tmp_path / "serving" / "1")
    assert push(model, tmp_path / "serving") == 1
    assert names(tmp_path / "serving" / "1") == ["saved_model.pb", "tfx_gnn_version.json"]
    assert (tmp_path / "serving" / "1" / "saved_model.pb").read_bytes() == b"graph"


def test_files_that_only_the_killed_attempt_had_are_removed(model, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(model, other)
    (other / "assets.extra").mkdir()
    (other / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"requests")
    kill_after_the_copy(str(other), tmp_path / "serving")
    for name in ("saved_model.pb", "tfx_gnn_version.json"):
        os.remove(tmp_path / "serving" / "1" / name)

    assert push(model, tmp_path / "serving") == 1
    assert list_all_files(str(tmp_path / "serving" / "1")) == [
        "saved_model.pb",
        "tfx_gnn_version.json",
        "variables/variables.index",
    ]


def test_number_that_two_pushes_noted_is_not_taken_by_the_one_that_was_killed(model, tmp_path):
    other = PushOrigin(model="model b", record="/b/1")
    # Both notes are there: who was first is not known any more.
    leave_unrecorded_object(str(tmp_path), 1, ORIGIN)
    leave_unrecorded_object(str(tmp_path), 1, other)
    assert push(model, tmp_path) == 2

    # The other push ended, and took its note with it.
    (tmp_path / "b").mkdir()
    leave_unrecorded_object(str(tmp_path / "b"), 1, other)
    assert push(model, tmp_path / "b", origin=other) == 1
    leave_unrecorded_object(str(tmp_path / "b"), 1, ORIGIN)
    assert push(model, tmp_path / "b") == 2


def test_version_that_was_renamed_to_its_place_is_never_written_over(model, tmp_path):
    (tmp_path / "serving" / "1").mkdir(parents=True)
    leave_unrecorded_object(str(tmp_path / "serving"), 1, ORIGIN)
    (tmp_path / "serving" / "1" / "saved_model.pb").write_bytes(b"another")

    assert push(model, tmp_path / "serving") == 2
    assert (tmp_path / "serving" / "1" / "saved_model.pb").read_bytes() == b"another"


def test_largest_number_is_the_last(model, tmp_path):
    (tmp_path / str(2**63 - 1)).mkdir()

    with pytest.raises(ValueError, match=r"`destination` must have versions below 9223372036854775807"):
        push(model, tmp_path)


def test_model_is_looked_for_in_the_newest_complete_version(model, tmp_path):
    push(model, tmp_path / "serving")
    (tmp_path / "serving" / "2" / "variables").mkdir(parents=True)

    assert resolve_saved_model(str(tmp_path / "serving")) == str(tmp_path / "serving" / "1")


def test_version_of_another_push_is_not_taken(model, tmp_path):
    push(model, tmp_path / "serving")
    leave_unrecorded_object(str(tmp_path / "serving"), 1, ORIGIN)

    assert push(model, tmp_path / "serving", origin=PushOrigin(model="model b", record="/records/2")) == 2
    assert push(model, tmp_path / "serving", origin=PushOrigin(model="model a", record="/others/1")) == 3


def test_version_that_is_no_longer_the_newest_is_not_taken(model, tmp_path):
    push(model, tmp_path / "serving")
    leave_unrecorded_object(str(tmp_path / "serving"), 1, ORIGIN)
    push(model, tmp_path / "serving", origin=PushOrigin(model="model b", record="/b/1"))

    assert push(model, tmp_path / "serving") == 3


def test_notes_of_whole_versions_before_the_newest_are_removed(model, tmp_path):
    kill_after_the_copy(model, tmp_path / "serving")
    push(model, tmp_path / "serving", origin=PushOrigin(model="model b", record="/b/1"))
    assert len(names(tmp_path / "serving")) == 3

    push(model, tmp_path / "serving", origin=PushOrigin(model="model c", record="/c/1"))

    assert names(tmp_path / "serving") == ["1", "2", "3"]


def test_notes_of_recorded_pushes_are_removed(model, tmp_path):
    serving = str(tmp_path / "serving")
    push(model, serving)
    leave_unrecorded_object(serving, 1, ORIGIN)
    leave_unrecorded_object(serving, 1, ORIGIN)
    assert len(names(serving)) == 2

    forget_recorded_objects(serving, lambda record: record == "/records/1")

    assert names(serving) == ["1"]


def test_number_that_a_damaged_note_claims_is_left_to_it(model, tmp_path):
    (tmp_path / "serving").mkdir()
    (tmp_path / "serving" / f".push-4-{'0' * 32}.json").write_text("{")

    assert push(model, tmp_path / "serving") == 5


@pytest.mark.parametrize("content", ["[" * 200_000, "null", "[1]", None])
def test_damaged_notes_claim_their_number_and_damaged_markers_none(model, tmp_path, content):
    kill_after_the_copy(model, tmp_path / "serving")
    note = tmp_path / "serving" / f".push-4-{'0' * 32}.json"
    marker = tmp_path / "serving" / "1" / "tfx_gnn_version.json"
    if content is None:
        note.mkdir()
    else:
        note.write_text(content)
        marker.write_text(content)

    assert push(model, tmp_path / "serving") == 1
    assert push(model, tmp_path / "serving") == 5


def test_note_of_a_number_that_no_server_knows_is_ignored(model, tmp_path):
    (tmp_path / f".push-{2**63}-{'0' * 32}.json").write_text("{}")

    assert push(model, tmp_path) == 1


def test_note_that_a_full_disk_cut_off_is_removed(model, tmp_path, monkeypatch):
    class FullDisk(tf.io.gfile.GFile):
        def close(self):
            super().close()
            raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.io.gfile, "GFile", FullDisk)

    with pytest.raises(tf.errors.ResourceExhaustedError):
        push(model, tmp_path / "serving")
    assert names(tmp_path / "serving") == []


def test_store_that_does_not_list_what_was_written_is_refused(model, tmp_path, monkeypatch):
    monkeypatch.setattr(object_store_versions, "_LONGEST_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(tf.io.gfile, "listdir", lambda _: [])

    with pytest.raises(OSError, match=r"must list what was written to it; .* name the bucket itself"):
        push(model, tmp_path / "serving")
    assert names(tmp_path / "serving") == []


def test_file_uri_is_a_destination(model, tmp_path):
    assert push(model, f"file://{tmp_path}/serving") == 1
    assert push(model, f"file://{tmp_path}/serving") == 2
    assert (tmp_path / "serving" / "2" / "variables" / "variables.index").read_bytes() == b"index"


def test_destination_that_is_a_file_is_refused(model, tmp_path):
    (tmp_path / "serving").write_text("")

    with pytest.raises(ValueError, match="`destination` must be a folder or absent"):
        push(model, tmp_path / "serving")


@pytest.mark.parametrize(
    ("kind", "expected"), [("ext4", True), ("fuse.gcsfuse", False), ("fuse", False), ("nfs4", True)]
)
def test_mounted_buckets_are_told_from_disks(tmp_path, monkeypatch, kind, expected):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 0:1 / / rw - overlay overlay rw\n"
        f"2 1 0:2 / {tmp_path}/a\\040b rw,nosuid shared:3 - {kind} bucket rw\n"
        f"3 1 0:3 / {tmp_path}/a rw - fuse.other other rw\n"
    )
    monkeypatch.setattr(object_store_versions, "_MOUNTS", str(mounts))

    assert has_folder_renames(f"{tmp_path}/a b/serving") is expected
    assert has_folder_renames(f"{tmp_path}/c") is True


def test_object_stores_rename_no_folder():
    assert not has_folder_renames("gs://bucket/serving")
