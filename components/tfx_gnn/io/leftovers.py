"""Finds and removes what killed runs leave next to outputs.

Leftovers of killed runs are recognized by their marks: `.<output>.lock`, `.<output>.partial-...`,
`.<output>.commit-...`, `.unfinished-...-<output>`. Files without a mark, or of a live process, are never touched.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Sequence

from tfx_gnn.io.commit_journal import COMMIT_MARK, PARTIAL_MARK, has_unfinished_commit, roll_back_unfinished
from tfx_gnn.io.owned_files import is_own_folder
from tfx_gnn.io.process_lock import has_locks, left_by_this_machine, process_lock

RESUMABLE = "with work that can be taken up"
"""Note in the lock files of outputs whose hidden folders only a run of the same work may remove or commit."""


UNFINISHED_MARK = ".unfinished-"
"""Prefix of the name of every folder with work that can be resumed; the work, a dash and the output's name follow."""

_UNFINISHED = re.compile(re.escape(UNFINISHED_MARK) + r"(?P<work>[a-zA-Z0-9]+)-(?P<base>.+)")
_LOCK = re.compile(r"\.(?P<base>.+)\.lock")


def partial_path(path: str) -> str:
    """Makes the path of a hidden sibling of a future folder, with a different name each time."""
    return f"{_partial_prefix(path)}{uuid.uuid4().hex[:12]}"


def partial_folders(path: str) -> list[str]:
    """Lists the hidden siblings of a folder that processes left or are writing; the folder need not exist.

    On local disks, only those of this user.
    """
    parent, prefix = os.path.split(_partial_prefix(path))
    # A second dot: the sibling belongs to an output with a longer name.
    names = [name for name in _names(parent or ".") if name.startswith(prefix) and "." not in name[len(prefix) :]]
    folders = [os.path.join(parent, name) for name in sorted(names)]
    return [folder for folder in folders if not has_locks(folder) or is_own_folder(folder)]


def remove_partial_folders(path: str) -> None:
    """Removes what dead processes left next to a folder.

    The caller holds the folder's lock, so the process that had begun to write it is dead. On an object store, live and
    dead writers cannot be distinguished, so nothing is removed there.
    """
    if has_locks(path):
        for partial in partial_folders(path):
            shutil.rmtree(partial)


def unfinished_folder(path: str, *, work: str) -> str:
    """Returns the hidden folder in which a resumable work makes `path`, whether it exists or not.

    If there is none for `path`, it is that of another output in the same parent folder, if the same work was begun for
    one: an orchestrator gives a retry another output.
    """
    parent, base = os.path.split(path.rstrip("/"))
    names = [found[0] for found in _unfinished(parent) if found["work"] == work]
    own = f"{UNFINISHED_MARK}{work}-{base}"
    return os.path.join(parent, own if own in names or not names else names[0])


def unfinished_lock(path: str, *, work: str) -> str:
    """Returns the lock file that the processes of a resumable work share, next to its outputs."""
    return os.path.join(os.path.dirname(path.rstrip("/")), f"{UNFINISHED_MARK}{work}.lock")


def remove_other_work(path: str, *, work: str) -> None:
    """Removes what dead processes of other works left unfinished for an output on a local disk.

    The caller is about to finish the output, so they could no longer make it.
    """
    parent, base = os.path.split(path)
    for found in _unfinished(parent):
        if found["base"] != base or found["work"] == work:
            continue
        lock = unfinished_lock(path, work=found["work"])
        with contextlib.suppress(BlockingIOError), process_lock(lock, rule="", patience_seconds=0.0):
            # Renamed first: no run may resume from a folder that is only partly removed.
            doomed = partial_path(path)
            os.rename(os.path.join(parent, found[0]), doomed)
            shutil.rmtree(doomed)


def sweep_beside(paths: Sequence[str]) -> None:
    """Removes what dead processes of this machine left of other outputs in the same parent folders.

    It keeps locked outputs; interrupted commits, which a run of one of their outputs rolls back; and work that can be
    resumed. The caller holds the locks of the paths, which are on local disks.
    """
    for parent in sorted({os.path.dirname(path) for path in paths}):
        doomed = []
        own = next(path for path in paths if os.path.dirname(path) == parent)
        for name in sorted(os.listdir(parent)):
            found = _LOCK.fullmatch(name)
            other = os.path.join(parent, found["base"]) if found is not None else ""
            # This excludes RESUMABLE locks and files that are not locks.
            if other and other not in paths and left_by_this_machine(os.path.join(parent, name)) == "":
                doomed += _claim_leftovers(other, own, os.path.join(parent, name))
        for folder in doomed:
            shutil.rmtree(folder)


def remove_output(path: str) -> None:
    """Removes an output on a local disk that no live process is writing, and all leftovers next to it."""
    parent, base = os.path.split(path)
    marks = (f".{base}{PARTIAL_MARK}", f".{base}{COMMIT_MARK}")
    for entry in os.scandir(parent) if os.path.isdir(parent) else ():
        if entry.name in (base, f".{base}.lock") or entry.name.startswith(marks):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.remove(entry.path)


def _claim_leftovers(other: str, own: str, lock: str) -> list[str]:
    """Makes hidden folders of a dead process leftovers of the caller's output; holds the other lock only briefly."""
    claimed: list[str] = []
    if has_unfinished_commit(other):
        # Its lock file also stays.
        return claimed
    with contextlib.suppress(BlockingIOError), process_lock(lock, rule="", patience_seconds=0.0):
        # Check again: before the lock was taken, the process may have been alive and have begun to commit.
        if has_unfinished_commit(other):
            return claimed
        # No other output is affected: the remaining commits count, or had renamed nothing.
        roll_back_unfinished(other, lambda _: None)
        for partial in partial_folders(other):
            claimed.append(partial_path(own))
            os.rename(partial, claimed[-1])
    return claimed


def _unfinished(parent: str) -> list[re.Match[str]]:
    """Lists the unfinished folders in a folder by name; on local disks, only those of this user."""
    found = [match for name in sorted(_names(parent or ".")) if (match := _UNFINISHED.fullmatch(name))]
    return [match for match in found if not has_locks(parent) or is_own_folder(os.path.join(parent, match[0]))]


def _names(folder: str) -> list[str]:
    if has_locks(folder):
        return os.listdir(folder) if os.path.isdir(folder) else []
    import tensorflow as tf

    return [name.rstrip("/") for name in tf.io.gfile.listdir(folder)] if tf.io.gfile.exists(folder) else []


def _partial_prefix(path: str) -> str:
    parent, base = os.path.split(path.rstrip("/"))
    return os.path.join(parent, f".{base}{PARTIAL_MARK}")
