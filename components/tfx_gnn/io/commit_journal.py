"""Commits several folders together: after a kill, either all are there or none.

No file system renames two folders at once. So a journal is written next to each output before the first rename, and the
commit counts from the moment when the first of these journals, the deciding one, is removed. If the deciding journal
still exists, the commit was interrupted, and the next run rolls back its renames; the work is then done again. (SQLite
commits transactions over several databases the same way.) A folder is rolled back only if it is unchanged since that
commit renamed it, including all modification times; anything else is the user's and stays. A single folder gets its
name by one rename and needs no journal.

In a folder that others can write to, somebody may have planted a journal. So a folder is rolled back only by a journal
next to it that this user made, that nobody else can write to, and that agrees with the journal by which it was found:
whoever can make such a journal could also remove the folder directly. Other journals are refused, in an error that
names them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Sequence

from tfx_gnn.io.disk_sync import sync_path, sync_tree
from tfx_gnn.io.owned_files import is_own, open_regular

PARTIAL_MARK = ".partial-"
"""Part of the name of every folder that is still being written."""


COMMIT_MARK = ".commit-"
"""Part of the name of every journal: `.<output>.commit-<12 hexadecimal digits>`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Commit:
    """The content of a journal.

    Attributes:
        journals: paths of the journals, the deciding one first.
        outputs: the folders, in the same order.
        states: state of each folder, from `_state`.
    """

    journals: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[str, ...]


def commit_folders(folders: Sequence[tuple[str, str]]) -> None:
    """Renames finished folders to their places, all or none.

    Everything is on disk before the first rename, so a power failure has the same effect as a killed process. Each pair
    is a finished folder and its place on the same disk, which is absent or an empty folder, and whose lock the caller
    holds. After an OSError, none of several folders has its final name.
    """
    for folder, _ in folders:
        sync_tree(folder)
    if len(folders) == 1:
        # A rollback would lose work that can be resumed.
        os.rename(*folders[0])
        _sync_parents([path for _, path in folders])
        return
    token = uuid.uuid4().hex[:12]
    outputs = tuple(path for _, path in folders)
    commit = _Commit(
        journals=tuple(_journal(path, token) for path in outputs),
        outputs=outputs,
        states=tuple(_state(folder) for folder, _ in folders),
    )
    try:
        # Write the deciding journal last: until it exists, nothing has been renamed.
        for journal in reversed(commit.journals):
            _write(journal, commit)
        _sync_parents(outputs)
        for folder, path in folders:
            # This also works onto an empty folder; it fails onto one that somebody filled in the meantime.
            os.rename(folder, path)
        _sync_parents(outputs)
        os.remove(commit.journals[0])
        # Otherwise a power failure could keep this journal and lose another one.
        _sync_parents(outputs[:1])
    except BaseException:
        # Without the deciding journal, the commit counts.
        written = [journal for journal in commit.journals if os.path.lexists(journal)]
        if commit.journals[0] in written:
            _take_back(commit, written)
        else:
            _remove_journals(written)
        raise
    _remove_journals(commit.journals)


def roll_back_unfinished(path: str, hold: Callable[[str], None]) -> None:
    """Rolls back the interrupted commits of an output, and removes their journals.

    The caller holds the lock of the output; `hold` acquires that of another output of the same commit, to be held
    equally long. A journal that was not written by a run of this user raises ValueError.
    """
    for journal in _journals_of(path):
        commit = _read(journal)
        if commit is not None and _is_open(commit):
            # If a journal is missing, a killed run had rolled back everything and begun to remove the journals.
            agreeing = [other for other in commit.journals if _read(other) == commit]
            for other, output in zip(commit.journals, commit.outputs, strict=True):
                if output != path and other in agreeing:
                    hold(output)
            _take_back(commit, agreeing)
        # Any other journal was half written before the first rename, or not yet removed after the last one.
        _remove(journal)


def has_unfinished_commit(path: str) -> bool:
    """Returns whether a commit of an output was interrupted, so that the next run rolls it back, or refuses to."""
    try:
        return any(commit is not None and _is_open(commit) for commit in map(_read, _journals_of(path)))
    except ValueError:
        return True


def _journal(path: str, token: str) -> str:
    parent, base = os.path.split(path)
    return os.path.join(parent, f".{base}{COMMIT_MARK}{token}")


def _journals_of(path: str) -> list[str]:
    parent, base = os.path.split(path)
    form = re.compile(rf"\.{re.escape(base)}{re.escape(COMMIT_MARK)}[0-9a-f]{{12}}")
    names = sorted(os.listdir(parent)) if os.path.isdir(parent) else []
    return [os.path.join(parent, name) for name in names if form.fullmatch(name)]


def _write(journal: str, commit: _Commit) -> None:
    # Relative paths, so that a project may be moved between a kill and the next run.
    parent = os.path.dirname(journal)
    content = {"outputs": [os.path.relpath(path, parent) for path in commit.outputs], "states": commit.states}
    # Whatever the umask is, because `_read` trusts no journal that others can write to.
    descriptor = open_regular(journal, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(json.dumps(content) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _read(journal: str) -> _Commit | None:
    """Reads a journal; None if it is incomplete or absent.

    A file that is not a journal, or was not written by this user, raises ValueError.
    """
    parent, token = os.path.dirname(journal), journal.rpartition(COMMIT_MARK)[2]
    try:
        descriptor = open_regular(journal, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise ValueError(_refusal(journal, "one that this user may not read")) from error
    with open(descriptor, "rb") as file:
        if not is_own(os.fstat(descriptor), parent, private=True):
            raise ValueError(_refusal(journal, "one that another user wrote, or could"))
        text = file.read()
    if not text.endswith(b"\n"):
        return None
    try:
        commit = _parse(text, parent, token)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(_refusal(journal, "other text")) from error
    if journal not in commit.journals:
        raise ValueError(_refusal(journal, "one of other outputs"))
    return commit


def _parse(text: bytes, parent: str, token: str) -> _Commit:
    """Parses the text of a journal in a folder; the text may be anything."""
    content = json.loads(text)
    outputs = tuple(os.path.normpath(os.path.join(parent, path)) for path in content["outputs"])
    states = tuple(content["states"])
    if len(outputs) != len(states) or "\0" in "".join((*outputs, *states)):
        raise ValueError("each output has one state")
    return _Commit(journals=tuple(_journal(path, token) for path in outputs), outputs=outputs, states=states)


def _refusal(journal: str, found: str) -> str:
    return (
        f"`{journal}` must be the journal of a commit by a run of this user; got {found}. Have whoever wrote it run "
        "the same command again; or remove it, together with any of the outputs that exist."
    )


def _is_open(commit: _Commit) -> bool:
    """Returns whether a commit does not count yet: its deciding journal exists, is complete and says the same."""
    deciding = _read(commit.journals[0])
    if deciding not in (None, commit):
        raise ValueError(_refusal(commit.journals[0], "one of another commit"))
    return deciding is not None


def _take_back(commit: _Commit, agreeing: Sequence[str]) -> None:
    """Undoes the renames of a commit that does not count yet, for each output that an agreeing journal vouches for."""
    for journal, path, state in zip(commit.journals, commit.outputs, commit.states, strict=True):
        if journal in agreeing and os.path.isdir(path) and _state(path) == state:
            parent, base = os.path.split(path)
            # Rename in one step: the state of a half-removed folder would not match on the next attempt.
            hidden = os.path.join(parent, f".{base}{PARTIAL_MARK}{uuid.uuid4().hex[:12]}")
            os.rename(path, hidden)
            shutil.rmtree(hidden)
    _remove_journals(agreeing)


def _remove_journals(journals: Sequence[str]) -> None:
    """Removes journals, the deciding one last: while it exists, the next run repeats the rollback."""
    for journal in reversed(journals):
        _remove(journal)


def _remove(journal: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(journal)


def _state(folder: str) -> str:
    """Hashes the names, sizes and modification times of a folder and its contents, which differ in any other folder."""
    entries = [(".", 0, os.lstat(folder).st_mtime_ns)]
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(parent, name)
            found = os.lstat(path)
            # Leave out the size of a folder, which depends on the file system.
            size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
            entries.append((os.path.relpath(path, folder), size, found.st_mtime_ns))
    return hashlib.sha256(repr(sorted(entries)).encode()).hexdigest()


def _sync_parents(paths: Sequence[str]) -> None:
    for parent in sorted({os.path.dirname(path) for path in paths}):
        sync_path(parent)
