"""Folders that appear whole or not at all, and together with those of the same run."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Mapping

from tfx_gnn.serving.disk_sync import sync_path
from tfx_gnn.stages.files.commit_journal import commit_folders, roll_back_unfinished
from tfx_gnn.stages.files.leftovers import partial_path, remove_partial_folders, sweep_beside
from tfx_gnn.stages.files.output_paths import check_absent_or_empty, resolve_outputs
from tfx_gnn.stages.files.process_lock import has_locks, process_lock

_FILLED = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}


@contextlib.contextmanager
def atomic_folder(path: str, *, name: str = "path") -> Iterator[str]:
    """Yields a hidden sibling of `path` to write into; renames it to `path` on success.

    As `atomic_folders`, for one output.

    Args:
        path: folder to create; it may exist already if it is empty.
        name: what the user calls it.

    Yields:
        Path of the hidden folder, which exists and is empty.

    Raises:
        OSError: as `atomic_folders`.
        ValueError: likewise.
    """
    with atomic_folders({name: path}) as (partial,):
        yield partial


@contextlib.contextmanager
def atomic_folders(outputs: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yields hidden siblings of folders to write into; on success all of them get their names, or none does.

    A run that dies, even by SIGKILL, leaves only files whose names begin with a dot, and between its first and last
    rename some of the outputs; no reader takes the former for output. The next run with one of the outputs takes
    back the latter, so the same command completes. It also removes what else dead runs of this machine left in the
    same parent folders. On an exception, of which Ctrl-C is one, nothing is left.

    Object stores have neither locks nor one call that renames a folder. There the outputs are renamed one after the
    other, before those on local disks; nobody is kept out, and what a killed run left stays.

    Args:
        outputs: folders to create, by the names that the user knows them by. They may exist already if they are
            empty, and links to folders are followed. Empty paths are outputs that nobody wants.

    Yields:
        Paths of the hidden folders in the order of `outputs`, which exist and are empty; "" where there is no path.

    Raises:
        FileExistsError: if an output is a file or holds files already.
        NotADirectoryError: if a file is where one of its parent folders should be.
        PermissionError: if the folder around it cannot be written.
        BlockingIOError: if another process is writing one of them now.
        ValueError: if an output is no place for a folder: see `resolve_outputs`.
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
    """Keeps other processes from writing outputs, and takes back what a dead one had not committed.

    Object stores know no locks, and there nobody is kept out.

    Args:
        outputs: folders to create, by the names that the user knows them by.
        places: what `resolve_outputs` makes of them.
        note: stands in the lock files; see `process_lock`.

    Yields:
        Nothing.

    Raises:
        BlockingIOError: if another process is writing one of them, or an output of a commit that must be taken back.
    """
    with contextlib.ExitStack() as locks:
        # In one order for all: of two runs with the same outputs one gets all of them.
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
    """Gives finished folders their names, on local disks all of them or none.

    Args:
        folders: finished folders by name of the output.
        places: what they become, absent or empty, by the same names.

    Raises:
        FileExistsError: if a place was filled meanwhile.
    """
    for name, place in places.items():
        check_absent_or_empty(place, name=name)
    local = [name for name, place in places.items() if has_locks(place)]
    # First what can fail halfway, and in one order: local outputs, which can be taken back, tell that all is there.
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
    """Makes a hidden sibling of a folder to be.

    Args:
        path: the folder to be.

    Returns:
        Path of the new, empty sibling.
    """
    partial = partial_path(path)
    if has_locks(path):
        os.makedirs(partial)
    else:
        import tensorflow as tf

        tf.io.gfile.makedirs(partial)
    return partial


def rename_to(folder: str, path: str) -> None:
    """Renames a finished folder to the path that was asked for, on a local disk so that a power failure keeps the name.

    Args:
        folder: the finished folder.
        path: its new place, absent or an empty folder.
    """
    if has_locks(path):
        os.rename(folder, path)
        sync_path(os.path.dirname(os.path.abspath(path)))
        return
    import tensorflow as tf

    if tf.io.gfile.exists(path):
        # An empty folder made ahead by the orchestrator; gfile cannot rename onto it.
        tf.io.gfile.rmtree(path)
    tf.io.gfile.rename(folder, path)


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
