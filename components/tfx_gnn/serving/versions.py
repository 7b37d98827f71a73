"""Version folders of a push destination: `<destination>/<integer>/saved_model.pb`, published atomically.

TensorFlow Serving watches this layout. It ignores everything whose name is not a
plain integer, as do the functions here.

A version is written and checked under a hidden name, then appears by one
rename. The writing process holds the lock of a file next to the hidden folder. The
lock ends with the process, so a hidden folder whose lock is free is the leftover of
a dead process. Before the rename, the lock file gets a note of the version, the
model, and the folder of the push's record. If a dead process left only its lock
file, its version was published but perhaps never recorded: the same push, started
again, finds the version by this note.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator

import tensorflow as tf

from tfx_gnn.io.disk_sync import sync_path, sync_tree
from tfx_gnn.io.folder_listing import list_entries
from tfx_gnn.io.owned_files import is_own, is_own_folder, open_regular
from tfx_gnn.io.suggestions import did_you_mean_path
from tfx_gnn.serving.model_interface import MODEL_ARTIFACT_FOLDER, SAVED_MODEL_FILE

INCOMING_MARK = ".incoming-"
"""Prefix of the names of versions that are still being written."""

_LOCK_SUFFIX = ".lock"
_TARGET_TAKEN = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}
_VERSION_NAME = re.compile(r"[0-9]+", re.ASCII)
LARGEST_VERSION = 2**63 - 1
"""TensorFlow Serving reads version numbers as int64."""


def list_versions(destination: str) -> list[int]:
    """Lists the versions of a push destination in ascending order.

    Args:
        destination: folder of version folders, which need not exist yet.

    Returns:
        Version numbers, possibly none.
    """
    return sorted(version_names(destination))


def version_names(destination: str) -> dict[int, str]:
    """Returns the names of version folders by number: as TensorFlow Serving reads them, "007" is version 7."""
    names = [name for name in list_entries(destination) if _VERSION_NAME.fullmatch(name)]
    # Not by int(), which refuses thousands of digits.
    numbers = {name: name.lstrip("0") or "0" for name in names}
    return {
        int(number): name for name, number in numbers.items() if len(number) <= 19 and int(number) <= LARGEST_VERSION
    }


def complete_versions(path: str) -> dict[int, str]:
    """Finds the SavedModels that a server of a folder serves.

    Args:
        path: a push destination, a SavedModel, or the folder of a TFX Model artifact.

    Returns:
        Folders that hold `saved_model.pb` by version number; a folder that is no push destination has one version,
        whose number is the folder's name if that is a number, else 1. Empty if there is no model.
    """
    for folder in (path, os.path.join(path, MODEL_ARTIFACT_FOLDER)):
        if tf.io.gfile.exists(os.path.join(folder, SAVED_MODEL_FILE)):
            name = os.path.basename(os.path.normpath(path))
            return {int(name) if _VERSION_NAME.fullmatch(name) and len(name) < 19 else 1: folder}
    folders = {number: os.path.join(path, name) for number, name in sorted(version_names(path).items())}
    return {
        number: folder
        for number, folder in folders.items()
        if tf.io.gfile.exists(os.path.join(folder, SAVED_MODEL_FILE))
    }


def resolve_saved_model(path: str) -> str:
    """Finds the SavedModel that a user means by a folder.

    Args:
        path: a SavedModel, the folder of a TFX Model artifact, or a push
            destination, whose newest complete version is used.

    Returns:
        Folder that holds `saved_model.pb`.

    Raises:
        FileNotFoundError: if the folder is none of these.
    """
    # Newest first. A version on an object store lacks the file while it is being copied.
    versions = [os.path.join(path, name) for _, name in sorted(version_names(path).items(), reverse=True)]
    for candidate in (path, os.path.join(path, MODEL_ARTIFACT_FOLDER), *versions):
        if tf.io.gfile.exists(os.path.join(candidate, SAVED_MODEL_FILE)):
            return candidate
    raise FileNotFoundError(
        f"`path` must be a SavedModel, a trained model's folder or a push destination; got {path!r}, which holds "
        f"neither {SAVED_MODEL_FILE}, nor {MODEL_ARTIFACT_FOLDER}, nor a version folder with a model. "
        f"{did_you_mean_path(path, otherwise='Push a model first, or name another folder.')}"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PushOrigin:
    """Identifies the push of a version.

    Attributes:
        model: text that is the same for equal models.
        record: folder that will hold the push's record; a retry may use another folder with the same parent.
    """

    model: str
    record: str

    def is_same_push(self, other: PushOrigin) -> bool:
        """Returns whether the push of `other` may be this one, started again."""
        return self.model == other.model and os.path.dirname(self.record) == os.path.dirname(other.record)


@contextlib.contextmanager
def incoming_version(destination: str) -> Iterator[str]:
    """Yields a hidden, locked folder inside a push destination; removes it afterwards if it was not published.

    Until the block ends, a published version counts as not yet recorded; an error or a kill leaves it that way.

    Leftovers of dead processes are removed first; folders of live processes are left alone.
    """
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", destination):
        raise ValueError(
            "`destination` must be a folder of a local or mounted disk, where one rename publishes a version; got "
            f"{destination!r}. Push to a local folder and copy the new version from there."
        )
    make_destination(destination)
    remove_leftovers(destination)
    path, lock = _make_locked_folder(destination)
    is_published = False
    try:
        yield path
    except BaseException:
        is_published = not os.path.isdir(path)
        raise
    finally:
        if is_published:
            os.close(lock)
        else:
            if os.path.isdir(path):
                shutil.rmtree(path)
            _release(path, lock)


def make_destination(destination: str) -> None:
    """Makes the folder of versions, unless it exists.

    Raises:
        ValueError: if it cannot be one, because there is a file.
    """
    try:
        os.makedirs(destination.removeprefix("file://"), exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ValueError(
            f"`destination` must be a folder or absent; got {destination!r}, where {error.filename!r} is a file or a "
            "broken link. Name another folder."
        ) from error


def forget_recorded_versions(destination: str, is_recorded: Callable[[str], bool]) -> None:
    """Removes the notes of pushes that were killed after they were recorded, and of all but the newest version.

    `is_recorded` says whether a folder has the record of its push.
    """
    for path, version, origin in _notes(destination):
        lock = _try_lock(path, os.O_RDWR)
        if lock is None:
            continue
        if is_recorded(origin.record) or version != max(list_versions(destination), default=0):
            _release(path, lock)
        else:
            os.close(lock)


@contextlib.contextmanager
def unrecorded_version(
    destination: str, origin: PushOrigin, is_recorded: Callable[[str], bool]
) -> Iterator[int | None]:
    """Yields the version that the same push published before it was killed, or None if the model must be pushed.

    The version is found only while it is the newest one, because a server does not serve older ones. It counts as
    recorded when the block ends without an error.
    """
    forget_recorded_versions(destination, is_recorded)
    found = None
    held: list[tuple[str, int]] = []
    for path, version, other in _notes(destination):
        lock = _try_lock(path, os.O_RDWR) if other.is_same_push(origin) else None
        if lock is not None:
            found = version
            held.append((path, lock))
    try:
        yield found
    except BaseException:
        for _, lock in held:
            os.close(lock)
        raise
    for path, lock in held:
        _release(path, lock)


def publish_version(incoming: str, destination: str, origin: PushOrigin | None = None) -> int:
    """Renames a hidden folder from `incoming_version` to the next version number; the first is 1.

    Two processes never get the same number: a rename onto a folder with files fails, and the next number is tried.
    Nothing is ever overwritten. If this process is killed before the block of `incoming_version` ends, the version can
    be found by its `origin`.
    """
    sync_tree(incoming)
    version = max(list_versions(destination), default=0) + 1
    while True:
        check_version_number(version, destination)
        if origin is not None:
            _write_note(incoming, version, origin)
        try:
            os.rename(incoming, os.path.join(destination, str(version)))
        except OSError as error:
            if error.errno not in _TARGET_TAKEN:
                raise
            version += 1
        else:
            sync_path(destination)
            return version


def check_version_number(version: int, destination: str) -> None:
    """Refuses a number that TensorFlow Serving does not know."""
    if version > LARGEST_VERSION:
        raise ValueError(
            f"`destination` must have versions below {LARGEST_VERSION}, the largest that TensorFlow Serving knows; "
            f"got {destination!r} with that one. Remove it, or push to another folder."
        )


def leave_unrecorded(destination: str, version: int, origin: PushOrigin) -> None:
    """Makes a published version count as not recorded, so that the same push finds it when it is started again.

    Does nothing if the version's note still exists, as after a push that was killed once it was recorded.
    """
    if (version, origin) not in [(noted, other) for _, noted, other in _notes(destination)]:
        _write_note(os.path.join(destination, INCOMING_MARK + uuid.uuid4().hex), version, origin)


def remove_leftovers(destination: str) -> list[str]:
    """Removes hidden folders whose process is dead, and their lock files if they were never published.

    Returns the names of the removed folders, sorted.
    """
    removed = []
    for name in sorted(os.listdir(destination)):
        if not (name.startswith(INCOMING_MARK) and name.endswith(_LOCK_SUFFIX)):
            continue
        path = os.path.join(destination, name.removesuffix(_LOCK_SUFFIX))
        lock = _try_lock(path, os.O_RDWR)
        if lock is None:
            continue
        note = _read_note(path)
        if not os.path.isdir(path) and note is not None and os.path.isdir(os.path.join(destination, str(note[0]))):
            # The version is published but perhaps not recorded: the same push, started again, needs the note.
            os.close(lock)
            continue
        try:
            if is_own_folder(path):
                shutil.rmtree(path)
                removed.append(os.path.basename(path))
        finally:
            _release(path, lock)
    return removed


def _notes(destination: str) -> list[tuple[str, int, PushOrigin]]:
    """Finds published versions that are not yet recorded: the path of each one's hidden folder, and its note."""
    found = []
    for name in sorted(os.listdir(destination)) if os.path.isdir(destination) else ():
        if name.startswith(INCOMING_MARK) and name.endswith(_LOCK_SUFFIX):
            path = os.path.join(destination, name.removesuffix(_LOCK_SUFFIX))
            note = _read_note(path)
            if note is not None and not os.path.isdir(path):
                found.append((path, *note))
    return found


def _write_note(path: str, version: int, origin: PushOrigin) -> None:
    with open(path + _LOCK_SUFFIX, "w", encoding="utf-8") as file:
        file.write(json.dumps({"version": version, **dataclasses.asdict(origin)}) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _read_note(path: str) -> tuple[int, PushOrigin] | None:
    """Reads a note; None unless there is a complete one by this user."""
    descriptor = _open_own(path, os.O_RDONLY)
    if descriptor is None:
        return None
    with open(descriptor, "rb") as file:
        text = file.read()
    if not text.endswith(b"\n"):
        return None
    try:
        content = json.loads(text)
        version, origin = content["version"], PushOrigin(model=content["model"], record=content["record"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    is_note = type(version) is int and isinstance(origin.model, str) and isinstance(origin.record, str)
    return (version, origin) if is_note else None


def _make_locked_folder(destination: str) -> tuple[str, int]:
    while True:
        path = os.path.join(destination, INCOMING_MARK + uuid.uuid4().hex)
        # None: between creation and lock, another pusher removed the file as a leftover.
        lock = _try_lock(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        if lock is not None:
            os.mkdir(path)
            return path, lock


def _try_lock(path: str, flags: int) -> int | None:
    """Locks a folder's lock file; None if another process holds or removed it, or another user created it."""
    lock_file = path + _LOCK_SUFFIX
    descriptor = _open_own(path, flags)
    if descriptor is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between open and lock, another process may have removed the file, and a third one created it again.
        if os.path.samestat(os.lstat(lock_file), os.fstat(descriptor)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _open_own(path: str, flags: int) -> int | None:
    """Opens the lock file of a folder; None if it does not exist, or was not made by a push of this user.

    Several users may push to one destination: leftovers of other users are theirs to remove.
    """
    if flags & os.O_EXCL:
        return open_regular(path + _LOCK_SUFFIX, flags)
    try:
        descriptor = open_regular(path + _LOCK_SUFFIX, flags)
    except (FileNotFoundError, PermissionError, ValueError):
        return None
    if is_own(os.fstat(descriptor), os.path.dirname(os.path.abspath(path))):
        return descriptor
    os.close(descriptor)
    return None


def _release(path: str, lock: int) -> None:
    """Removes the lock file and frees the lock; the folder must be gone before."""
    os.unlink(path + _LOCK_SUFFIX)
    os.close(lock)
