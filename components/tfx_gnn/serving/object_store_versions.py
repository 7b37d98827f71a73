"""Version folders on object stores and mounted buckets, which cannot rename a folder.

A version is copied to its place file by file: `saved_model.pb` comes last, when everything else was read back and found
equal, so a reader that looks for it never finds half of a model. Then the marker `tfx_gnn_version.json` gets the
fingerprint of the version.

Two processes never write the same version. Before a process writes anything, it puts a note with the number and a
random name beside the versions, and lists the notes. If there is another one with that number, it takes its own back
and tries a later number. A process lists after it wrote, and a store lists what was written before, so at least one of
two processes sees the other; both may give way. The note stays until the push is recorded: if a push is killed in
between, the same push, started again, finds the version by its note, and completes it if it is not whole.

This needs a store that lists consistently, as Cloud Storage and S3 do. A mount that keeps listings in memory does not:
name the bucket itself there, as in gs://BUCKET/FOLDER.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator

import tensorflow as tf

from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.io.folder_listing import list_all_files, list_entries
from tfx_gnn.io.renames import rename_file
from tfx_gnn.serving.model_interface import SAVED_MODEL_FILE
from tfx_gnn.serving.versions import LARGEST_VERSION, PushOrigin, check_version_number, list_versions, make_destination

VERSION_MARKER = "tfx_gnn_version.json"
"""File of a version that names its push and the fingerprint of the other files; it is written last."""

_NOTE = re.compile(r"\.push-([0-9]+)-[0-9a-f]{32}\.json", re.ASCII)
_HIDDEN_MODEL_FILE = f".{SAVED_MODEL_FILE}.writing"
_DAMAGED = (ValueError, KeyError, TypeError, RecursionError, tf.errors.FailedPreconditionError)
"""Errors of reading a note or marker that is half written, of other bytes than ours, or a folder."""
_MOUNTS = "/proc/self/mountinfo"
_LARGEST_STEP = 3
_LONGEST_WAIT_SECONDS = 0.2
_UNLISTED_CLAIMS = 10
"""Notes in a row that are missing from the listing after them, before the store counts as one that cannot be used."""


def has_folder_renames(path: str) -> bool:
    """Tells whether one rename makes a folder visible: not on object stores, nor in FUSE mounts, as buckets are."""
    if "://" in path:
        return False
    if not os.path.exists(_MOUNTS):
        return True  # Not Linux; `GraphPusherOptions.publishing` can say otherwise.
    place = os.path.realpath(path)
    with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
        # Fields 5 and, after a dash, 1 are the place and the kind; later mounts cover earlier ones.
        mounts = [(line.split()[4], line.partition(" - ")[2].split()[0]) for line in file]
    holding = [
        (len(folder), position, kind)
        for position, (folder, kind) in enumerate(mounts)
        if os.path.join(place, "").startswith(os.path.join(_unescaped(folder), ""))
    ]
    return not max(holding, default=(0, 0, ""))[2].startswith("fuse")


@contextlib.contextmanager
def copied_version(
    model_dir: str, destination: str, origin: PushOrigin, is_recorded: Callable[[str], bool]
) -> Iterator[int]:
    """Copies a local SavedModel to the next version of a destination, and yields its number.

    If the same push was killed, the version that it had begun is completed, if necessary, and yielded, while it is the
    newest. The version counts as recorded when the block ends without an error.

    Args:
        model_dir: local folder with `saved_model.pb`.
        destination: folder or URI of version folders, which need not exist.
        origin: identifies the push.
        is_recorded: says whether a folder has the record of its push.

    Raises:
        OSError: if what was copied reads back differently, and the version is not visible then; or if the store does
            not list what was written to it.
        ValueError: if the destination is a file.
    """
    if _has_folders(destination):
        make_destination(destination)
    forget_recorded_objects(destination, is_recorded)
    notes = _notes(destination)
    same = [note for note in notes if note.origin.is_same_push(origin)]
    version = _begun_version(destination, model_dir, origin, notes)
    if version is None:
        version, path = _claim(destination, origin)
        same.append(_Note(path=path, version=version, origin=origin))
    place = os.path.join(destination, str(version))
    if not _is_whole(place):
        _copy(model_dir, place, origin)
    yield version
    # With the notes of attempts that were killed and gave up their number.
    for note in same:
        _remove(note.path)


def forget_recorded_objects(destination: str, is_recorded: Callable[[str], bool]) -> None:
    """Removes the notes of pushes that were killed after their record, and of whole versions before the newest."""
    notes = _notes(destination)
    newest = max(_complete_versions(destination), default=0) if notes else 0
    for note in notes:
        is_past = note.version < newest and _is_whole(os.path.join(destination, str(note.version)))
        if is_past or (note.origin.record and is_recorded(note.origin.record)):
            _remove(note.path)


def leave_unrecorded_object(destination: str, version: int, origin: PushOrigin) -> None:
    """Makes a version count as not recorded, so that the same push finds it when it is started again."""
    if (version, origin) not in [(note.version, note.origin) for note in _notes(destination)]:
        _write_note(destination, version, origin)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Note:
    path: str
    version: int
    origin: PushOrigin


def _notes(destination: str) -> list[_Note]:
    """Reads the notes of a destination; one that is removed meanwhile is left out."""
    found = []
    for name in list_entries(destination):
        match = _NOTE.fullmatch(name)
        # No push of ours notes a number that no server knows.
        if match is None or int(match.group(1)) > LARGEST_VERSION:
            continue
        path = os.path.join(destination, name)
        try:
            with tf.io.gfile.GFile(path) as file:
                content = json.loads(file.read())
            origin = PushOrigin(model=str(content["model"]), record=str(content["record"]))
        except tf.errors.NotFoundError:
            continue
        except (*_DAMAGED, tf.errors.PermissionDeniedError):
            # Half written, or another user's: it still claims its number.
            origin = PushOrigin(model="", record="")
        found.append(_Note(path=path, version=int(match.group(1)), origin=origin))
    return found


def _claim(destination: str, origin: PushOrigin) -> tuple[int, str]:
    """Takes a number that no other process has or will have; returns it and the path of its note."""
    least = 1
    num_unlisted = 0
    while True:
        taken = [*list_versions(destination), *(note.version for note in _notes(destination))]
        version = max([least, *(number + 1 for number in taken)])
        check_version_number(version, destination)
        path = _write_note(destination, version, origin)
        claims = [name for name in list_entries(destination) if name.startswith(f".push-{version}-")]
        if claims == [os.path.basename(path)] and version not in list_versions(destination):
            return version, path
        _remove(path)
        num_unlisted = 0 if os.path.basename(path) in claims else num_unlisted + 1
        if num_unlisted == _UNLISTED_CLAIMS:
            raise OSError(
                f"`push_destination` must list what was written to it; got a listing of {destination!r} without "
                f"{os.path.basename(path)!r}. If it is a mount that keeps listings in memory, name the bucket itself, "
                "as in gs://BUCKET/FOLDER."
            )
        # Not all by the same step, or they would meet again.
        least = version + random.randint(0, _LARGEST_STEP)
        time.sleep(random.uniform(0, _LONGEST_WAIT_SECONDS))


def _write_note(destination: str, version: int, origin: PushOrigin) -> str:
    path = os.path.join(destination, f".push-{version}-{uuid.uuid4().hex}.json")
    try:
        with tf.io.gfile.GFile(path, "w") as file:
            file.write(json.dumps(dataclasses.asdict(origin), sort_keys=True) + "\n")
    except BaseException:
        # The disk is full. What was written would claim the number for ever.
        with contextlib.suppress(tf.errors.OpError):
            tf.io.gfile.remove(path)
        raise
    return path


def _begun_version(destination: str, model_dir: str, origin: PushOrigin, notes: list[_Note]) -> int | None:
    """Finds the version that the same push began before it was killed, or None.

    A note alone does not make the version its own: the process may have been killed before it saw another's note.
    """
    newest = max(_complete_versions(destination), default=0)
    for version in sorted({note.version for note in notes if note.origin.is_same_push(origin)}, reverse=True):
        place = os.path.join(destination, str(version))
        is_claimed = any(note.version == version and not note.origin.is_same_push(origin) for note in notes)
        if version < newest or is_claimed:
            continue
        marker = _read_marker(place)
        if marker is not None:
            is_own = PushOrigin(model=marker["model"], record=marker["record"]).is_same_push(origin)
        else:
            has_model = tf.io.gfile.exists(os.path.join(place, SAVED_MODEL_FILE))
            is_own = not has_model or fingerprint_folders([place], without=(VERSION_MARKER,)) == fingerprint_folders(
                [model_dir]
            )
        if is_own:
            return version
    return None


def _copy(model_dir: str, place: str, origin: PushOrigin) -> None:
    files = [
        os.path.relpath(os.path.join(folder, name), model_dir)
        for folder, _, names in os.walk(model_dir)
        for name in names
    ]
    # The killed attempt may have had more files, as with other options for warm-up requests.
    for name in sorted({*list_all_files(place)} - {*files, VERSION_MARKER}):
        tf.io.gfile.remove(os.path.join(place, name))
    # Stable, so that the model itself is the last one.
    for name in sorted(files, key=lambda name: (name == SAVED_MODEL_FILE, name)):
        if name == SAVED_MODEL_FILE:
            _check_equal(model_dir, place, without=(SAVED_MODEL_FILE,))
        if _has_folders(place):
            tf.io.gfile.makedirs(os.path.dirname(os.path.join(place, name)))
        target = os.path.join(place, name)
        # A kill leaves half of a file, even in a mounted bucket, and must not leave it under this name; an object
        # appears whole.
        is_hidden = name == SAVED_MODEL_FILE and _has_folders(place)
        written = os.path.join(place, _HIDDEN_MODEL_FILE) if is_hidden else target
        # Over what a killed attempt of the same push left.
        tf.io.gfile.copy(os.path.join(model_dir, name), written, overwrite=True)
        if is_hidden:
            _show(written, target, source=os.path.join(model_dir, name))
    fingerprint = _check_equal(model_dir, place)
    with tf.io.gfile.GFile(os.path.join(place, VERSION_MARKER), "w") as file:
        file.write(json.dumps({"fingerprint": fingerprint, **dataclasses.asdict(origin)}, sort_keys=True) + "\n")


def _check_equal(model_dir: str, place: str, *, without: tuple[str, ...] = ()) -> str:
    expected = fingerprint_folders([model_dir], without=without)
    found = fingerprint_folders([place], without=(*without, VERSION_MARKER))
    if found != expected:
        raise OSError(
            f"`push_destination` must return what was written to it; got other bytes in {place!r}. Push again; if it "
            "happens again, look for another process that writes there, or for a damaged mount."
        )
    return expected


def _is_whole(place: str) -> bool:
    """Tells whether a version has its marker, and the files that the marker tells of."""
    marker = _read_marker(place)
    return marker is not None and marker["fingerprint"] == fingerprint_folders([place], without=(VERSION_MARKER,))


def _read_marker(place: str) -> dict[str, str] | None:
    """Reads the marker of a version; None if it is missing or half written."""
    path = os.path.join(place, VERSION_MARKER)
    if not tf.io.gfile.exists(path):
        return None
    try:
        with tf.io.gfile.GFile(path) as file:
            marker = json.loads(file.read())
        return {key: str(marker[key]) for key in ("fingerprint", "model", "record")}
    except _DAMAGED:
        return None


def _show(hidden: str, target: str, *, source: str) -> None:
    """Gives a hidden copy of a file its name."""
    try:
        rename_file(hidden, target)
    except (tf.errors.UnimplementedError, tf.errors.PermissionDeniedError):
        # Some mounts, as Mountpoint for S3, rename nothing. A file appears there when its upload ends, so it is whole.
        tf.io.gfile.remove(hidden)
        tf.io.gfile.copy(source, target, overwrite=True)


def _has_folders(path: str) -> bool:
    """Tells whether folders must be made: on an object store, they are nothing but the names of their files."""
    return "://" not in path or path.startswith("file://")


def _complete_versions(destination: str) -> list[int]:
    return [
        version
        for version in list_versions(destination)
        if tf.io.gfile.exists(os.path.join(destination, str(version), SAVED_MODEL_FILE))
    ]


def _unescaped(folder: str) -> str:
    """Reads a path of the mount table, where blanks are octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), folder)


def _remove(path: str) -> None:
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.remove(path)
