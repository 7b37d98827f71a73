"""What killed runs leave beside outputs, and how it goes away.

Everything is known by its mark: `.<output>.lock`, `.<output>.partial-...`, `.<output>.commit-...`. What bears none, or
belongs to a process that lives, is never touched.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Sequence

from tfx_gnn.stages.files.commit_journal import COMMIT_MARK, PARTIAL_MARK, has_unfinished_commit, roll_back_unfinished
from tfx_gnn.stages.files.process_lock import has_locks, left_by_this_machine, process_lock

RESUMABLE = "with work that can be taken up"
"""Note in the locks of outputs whose hidden folders only a run of the same work may judge."""

_LOCK = re.compile(r"\.(?P<base>.+)\.lock")


def partial_path(path: str) -> str:
    """Names a hidden sibling of a folder to be, another one each time.

    Args:
        path: the folder to be.

    Returns:
        Path of the sibling, which does not exist.
    """
    return f"{_partial_prefix(path)}{uuid.uuid4().hex[:12]}"


def partial_folders(path: str) -> list[str]:
    """Lists what processes have left, or are writing, beside a folder.

    Args:
        path: the folder, which need not exist.

    Returns:
        Paths of hidden siblings, sorted.
    """
    parent, prefix = os.path.split(_partial_prefix(path))
    # A second dot: of an output with a longer name.
    names = [name for name in _names(parent or ".") if name.startswith(prefix) and "." not in name[len(prefix) :]]
    folders = [os.path.join(parent, name) for name in sorted(names)]
    return [folder for folder in folders if not has_locks(folder) or os.path.isdir(folder)]


def remove_partial_folders(path: str) -> None:
    """Removes what dead processes have left beside a folder.

    On an object store nobody can tell the dead from the living, so there all of it stays.

    Args:
        path: the folder, whose lock the caller holds: who had begun to write it is dead.
    """
    if has_locks(path):
        for partial in partial_folders(path):
            shutil.rmtree(partial)


def sweep_beside(paths: Sequence[str]) -> None:
    """Removes what dead processes of this machine left of other outputs in the same parent folders.

    These stay: what is locked; commits that were cut short, which a run of one of their outputs takes back; and work
    that can be taken up.

    Args:
        paths: outputs on local disks, whose locks the caller holds.
    """
    for parent in sorted({os.path.dirname(path) for path in paths}):
        doomed = []
        own = next(path for path in paths if os.path.dirname(path) == parent)
        for name in sorted(os.listdir(parent)):
            found = _LOCK.fullmatch(name)
            other = os.path.join(parent, found["base"]) if found is not None else ""
            # RESUMABLE is not "", and neither is what is no lock.
            if other and other not in paths and left_by_this_machine(os.path.join(parent, name)) == "":
                doomed += _claim_leftovers(other, own, os.path.join(parent, name))
        for folder in doomed:
            shutil.rmtree(folder)


def remove_output(path: str) -> None:
    """Removes an output and all that processes left beside it.

    Args:
        path: a folder on a local disk that no living process writes; need not exist.
    """
    parent, base = os.path.split(path)
    marks = (f".{base}{PARTIAL_MARK}", f".{base}{COMMIT_MARK}")
    for entry in os.scandir(parent) if os.path.isdir(parent) else ():
        if entry.name in (base, f".{base}.lock") or entry.name.startswith(marks):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.remove(entry.path)


def _claim_leftovers(other: str, own: str, lock: str) -> list[str]:
    """Makes hidden folders of a dead process leftovers of the caller's output; its lock is held for a moment only."""
    claimed: list[str] = []
    if has_unfinished_commit(other):
        # Its lock file stays, too.
        return claimed
    with contextlib.suppress(BlockingIOError), process_lock(lock, rule="", patience_seconds=0.0):
        # Again: until the lock was taken its process may have been alive, and have begun to commit.
        if has_unfinished_commit(other):
            return claimed
        # No other output is concerned: its commits count, or had renamed nothing.
        roll_back_unfinished(other, lambda _: None)
        for partial in partial_folders(other):
            claimed.append(partial_path(own))
            os.rename(partial, claimed[-1])
    return claimed


def _names(folder: str) -> list[str]:
    if has_locks(folder):
        return os.listdir(folder) if os.path.isdir(folder) else []
    import tensorflow as tf

    return [name.rstrip("/") for name in tf.io.gfile.listdir(folder)] if tf.io.gfile.exists(folder) else []


def _partial_prefix(path: str) -> str:
    parent, base = os.path.split(path.rstrip("/"))
    return os.path.join(parent, f".{base}{PARTIAL_MARK}")
