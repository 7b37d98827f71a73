"""Output folders that appear complete or not at all, several at a time.

The places of outputs are checked before any work starts; errors use the names that the user knows. An interrupted
`resumable_folder` is continued by the next run of the same work.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
from collections.abc import Iterator, Mapping

from tfx_gnn.io.commit_journal import commit_folders, roll_back_unfinished
from tfx_gnn.io.disk_sync import sync_path
from tfx_gnn.io.leftovers import (
    partial_path,
    remove_other_work,
    remove_partial_folders,
    sweep_beside,
    unfinished_folder,
    unfinished_lock,
)
from tfx_gnn.io.owned_files import check_own_folder
from tfx_gnn.io.process_lock import has_locks, process_lock


def resolve_outputs(outputs: Mapping[str, str]) -> dict[str, str]:
    """Resolves the paths of output folders, following links, and checks that the folders can be created.

    If an output is a link to a folder, the folder that it leads to is written, and the link stays. Paths on object
    stores are only compared. Returns the resolved paths by the same names, absolute on local disks.
    """
    places = {name: _resolve_output(name, path) for name, path in outputs.items()}
    for (name, place), (other, other_place) in itertools.combinations(places.items(), 2):
        if _lies_in(place, other_place) or _lies_in(other_place, place):
            raise ValueError(
                f"`{name}` and `{other}` must be two folders, neither inside the other; got {outputs[name]!r} and "
                f"{outputs[other]!r}. Each appears whole at the end: put them side by side."
            )
    return places


def check_absent_or_empty(path: str, *, name: str = "path") -> None:
    """Refuses to write into a folder that already holds files."""
    if has_locks(path):
        _check_is_no_file(path, path, name)
        found = os.listdir(path) if os.path.isdir(path) else []
    else:
        # Local outputs need no TensorFlow.
        import tensorflow as tf

        found = tf.io.gfile.listdir(path) if tf.io.gfile.exists(path) else []
    if found:
        raise FileExistsError(
            f"`{name}` must be absent or an empty folder; got {path!r}, which holds {sorted(found)[:3]}. Choose "
            "another folder or remove this one."
        )


def _resolve_output(name: str, path: str) -> str:
    if not has_locks(path):
        return path.rstrip("/")
    place = os.path.realpath(path)
    nearest = os.path.abspath(path)
    while not os.path.lexists(nearest):
        nearest = os.path.dirname(nearest)
    if not os.path.exists(nearest):
        raise ValueError(
            f"`{name}` must be a folder, or a link to one; got {path!r}, where {nearest!r} is a link to nothing. "
            "Create the folder that it leads to, or remove the link."
        )
    _check_is_no_file(path, place, name)
    if not os.path.isdir(nearest):
        raise NotADirectoryError(
            f"`{name}` must be in a folder; got {path!r}, where {nearest!r} is a file. Name another place."
        )
    if place == os.getcwd():
        raise FileExistsError(
            f"`{name}` must be another folder than the current one; got {path!r}. Go to its parent folder and name it "
            "from there."
        )
    if os.path.ismount(place):
        raise ValueError(
            f"`{name}` must be a folder whose name a finished one can take; got {path!r}, where a disk is mounted. "
            "Name a folder in it."
        )
    around = os.path.realpath(nearest if os.path.realpath(nearest) != place else os.path.dirname(place))
    if not os.access(around, os.W_OK | os.X_OK):
        raise PermissionError(
            f"`{name}` must be in a folder that can be written; got {path!r} in {around!r}, which cannot. Name another "
            "place, or get permission to write there."
        )
    return place


def _check_is_no_file(path: str, place: str, name: str) -> None:
    if os.path.exists(place) and not os.path.isdir(place):
        raise FileExistsError(
            f"`{name}` must be absent or an empty folder; got {path!r}, which is a file. Choose another folder."
        )


def _lies_in(place: str, folder: str) -> bool:
    return os.path.join(place, "").startswith(os.path.join(folder.rstrip("/"), ""))


_FILLED = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}


@contextlib.contextmanager
def atomic_folder(path: str, *, name: str = "path") -> Iterator[str]:
    """Yields a hidden sibling of `path` to write into; renames it to `path` on success.

    It is `atomic_folders` for one output.
    """
    with atomic_folders({name: path}) as (partial,):
        yield partial


@contextlib.contextmanager
def atomic_folders(outputs: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yields hidden siblings of folders to write into; on success all of them get their names, or none does.

    A run that dies, even by SIGKILL, leaves only files whose names begin with a dot, which no reader takes for output,
    and, if it died between its first and last rename, some of the outputs. The next run with one of these outputs rolls
    them back, so the same command completes. It also removes other leftovers of this machine's dead runs in the same
    parent folders. After an exception, including Ctrl-C, nothing is left.

    Object stores have neither locks nor a call that renames a folder. There the outputs are renamed one after the
    other, before those on local disks; other writers are not kept out, and leftovers of a killed run stay.

    Yields the hidden folders, which are empty, in the order of `outputs`; "" for an output without a path. The names
    of outputs are those that the user knows. A BlockingIOError means that another process is writing one of them.
    """
    wanted = {name: os.fspath(path) for name, path in outputs.items() if path}
    places = resolve_outputs(wanted)
    with held_outputs(wanted, places):
        for name, place in places.items():
            check_absent_or_empty(wanted[name], name=name)
            remove_partial_folders(place)
        sweep_beside([place for place in places.values() if has_locks(place)])
        partials: dict[str, str] = {}
        try:
            for name, place in places.items():
                partials[name] = make_partial_folder(place)
            yield tuple(partials.get(name, "") for name in outputs)
            commit_outputs(partials, places)
        except BaseException:
            for partial in partials.values():
                _remove_folder(partial)
            raise


@contextlib.contextmanager
def held_outputs(outputs: Mapping[str, str], places: Mapping[str, str], *, note: str = "") -> Iterator[None]:
    """Keeps other processes from writing outputs, and rolls back what a dead process had not committed.

    Object stores have no locks, so nothing is locked there. `places` is the result of `resolve_outputs(outputs)`.
    """
    with contextlib.ExitStack() as locks:
        # Every run locks in the same order: of two runs with the same outputs, one gets all of them.
        for name, place in sorted(places.items(), key=lambda item: item[1]):
            if has_locks(place):
                rule = f"`{name}` must be written by one process at a time; got {outputs[name]!r}"
                locks.enter_context(process_lock(_lock_file(place), rule=rule, note=note))
        held = set(places.values())

        def hold(other: str) -> None:
            if other not in held:
                rule = f"{other!r}, which a killed run wrote together with one of the outputs, must be free"
                locks.enter_context(process_lock(_lock_file(other), rule=rule))
                held.add(other)
            remove_partial_folders(other)

        for place in places.values():
            if has_locks(place):
                roll_back_unfinished(place, hold)
        yield


def commit_outputs(folders: Mapping[str, str], places: Mapping[str, str]) -> None:
    """Renames finished folders to their places; on local disks, all of them or none."""
    for name, place in places.items():
        check_absent_or_empty(place, name=name)
    local = [name for name, place in places.items() if has_locks(place)]
    # Object stores first, because they cannot be rolled back. Local outputs can, so they mark completion.
    for name, place in places.items():
        if name not in local:
            rename_to(folders[name], place)
    try:
        if local:
            commit_folders([(folders[name], places[name]) for name in local])
    except OSError as error:
        if error.errno in _FILLED:
            for name in local:
                check_absent_or_empty(places[name], name=name)
        raise


def make_partial_folder(path: str) -> str:
    """Makes a new, empty hidden sibling of a future folder."""
    partial = partial_path(path)
    if has_locks(path):
        os.makedirs(partial)
    else:
        import tensorflow as tf

        tf.io.gfile.makedirs(partial)
    return partial


def rename_to(folder: str, path: str) -> None:
    """Renames a finished folder to an absent or empty place; on a local disk, the name survives a power failure."""
    if has_locks(path):
        os.rename(folder, path)
        sync_path(os.path.dirname(os.path.abspath(path)))
        return
    import tensorflow as tf

    from tfx_gnn.io.renames import rename_folder

    if tf.io.gfile.exists(path):
        # An empty folder that the orchestrator made in advance; gfile cannot rename onto it.
        tf.io.gfile.rmtree(path)
    rename_folder(folder, path)


def _lock_file(path: str) -> str:
    parent, base = os.path.split(path)
    return os.path.join(parent, f".{base}.lock")


def _remove_folder(folder: str) -> None:
    if has_locks(folder):
        if os.path.isdir(folder):
            shutil.rmtree(folder)
        return
    import tensorflow as tf

    if tf.io.gfile.exists(folder):
        tf.io.gfile.rmtree(folder)


@contextlib.contextmanager
def resumable_folder(path: str, *, fingerprint: str, name: str = "path") -> Iterator[str]:
    """Yields a hidden sibling of `path` to write into; renames it to `path` on success.

    Unlike that of `atomic_folder`, the hidden folder outlives an interruption if
    anything was written into it, and the next run of the same work gets it again,
    even with another `path` in the same parent folder. So write each of its files
    atomically. On a local disk, a run that succeeds removes what other works left
    unfinished for the same `path`.

    Only one run at a time may hold a hidden folder on a local disk; its lock ends
    with its process, however that ends. Object stores have no such lock.

    The fingerprint is a text of letters and digits that is the same for equal work.
    """
    import tensorflow as tf

    outputs = {name: os.fspath(path)}
    places = resolve_outputs(outputs)
    place = places[name]
    work = fingerprint[:24]
    with held_outputs(outputs, places), _locked(unfinished_lock(place, work=work), name, path):
        unfinished = unfinished_folder(place, work=work)
        check_absent_or_empty(path, name=name)
        remove_partial_folders(place)
        if has_locks(place):
            sweep_beside([place])
        tf.io.gfile.makedirs(unfinished)
        if has_locks(unfinished):
            check_own_folder(unfinished)
        try:
            yield unfinished
            if has_locks(place):
                remove_other_work(place, work=work)
            commit_outputs({name: unfinished}, places)
        except BaseException:
            if tf.io.gfile.exists(unfinished) and not tf.io.gfile.listdir(unfinished):
                tf.io.gfile.rmtree(unfinished)
            raise


@contextlib.contextmanager
def _locked(lock: str, name: str, path: str) -> Iterator[None]:
    if not has_locks(lock):
        yield
        return
    # The lock file is next to the unfinished folder, because that is renamed under the lock.
    with process_lock(lock, rule=f"`{name}` must be made by one process at a time; got {path!r}, locked by {lock!r}"):
        yield
