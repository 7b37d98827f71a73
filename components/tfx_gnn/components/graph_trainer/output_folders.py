"""The two output folders of a training, the model and its run, which appear together.

No file system renames two folders at once. Therefore a training counts as ended as soon as its
`FinishedTraining` note exists, which is written last, into the hidden folder of the model run. If the same
training is started again, the note shows that only the two renames are left to do.

Before a training starts, it is checked that its folders can be written and that there is enough space.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType

import tensorflow as tf
import tf_keras

from tfx_gnn.io import options_json
from tfx_gnn.io.atomic_folder import (
    check_absent_or_empty,
    held_outputs,
    make_partial_folder,
    rename_to,
    resolve_outputs,
)
from tfx_gnn.io.commit_journal import PARTIAL_MARK
from tfx_gnn.io.disk_sync import sync_tree
from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.io.leftovers import RESUMABLE, partial_folders, remove_partial_folders, sweep_beside
from tfx_gnn.io.owned_files import check_own_folder
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.io.whole_files import copy_files, write_whole
from tfx_gnn.training.checkpoints.checkpoints import MAX_TO_KEEP, num_state_bytes
from tfx_gnn.training.checkpoints.training_fingerprint import differences

FINISHED_FILE = "finished.json"
LOGS_DIR = "logs"

LOGS_BYTES = 16 << 20
"""Space for TensorBoard's logs, the summary, and vocabularies of an export: needed by even the smallest model."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinishedTraining:
    """The note that a training has ended.

    Attributes:
        fingerprint: what the training depended on: names to values or hashes.
        model: fingerprint of the model's files.
        hidden_folders: base names of the hidden folders into which the model and its run were written.
    """

    fingerprint: dict[str, str]
    model: str
    hidden_folders: tuple[str, str]

    @property
    def names_hidden_folders(self) -> bool:
        """Whether the names have the form that a training gives them; a forged note could rename other folders."""
        return all(name.startswith(".") and PARTIAL_MARK in name and "/" not in name for name in self.hidden_folders)

    @classmethod
    def read(cls, run_dir: str) -> FinishedTraining | None:
        """Reads the note in a model run, hidden or not; None if no training has ended there."""
        path = os.path.join(run_dir, FINISHED_FILE)
        if not tf.io.gfile.exists(path):
            return None
        with tf.io.gfile.GFile(path) as file:
            return options_json.from_json(file.read(), cls)

    def write(self, run_dir: str) -> None:
        """Writes the note as a whole or not at all."""
        write_whole(os.path.join(run_dir, FINISHED_FILE), options_json.to_json(self))


def checkpoint_folder(checkpoint_dir: str, model_run_dir: str, fingerprint: str) -> str:
    """Names the folder of a training's checkpoints, which stays the same when the training is started again.

    This is `checkpoint_dir` or, if that is empty, a hidden folder next to the model run: an orchestrator gives a retry
    another run folder, but next to the first one. ValueError if that folder is a link or belongs to another user.
    """
    if checkpoint_dir:
        return checkpoint_dir
    parent = os.path.dirname(os.path.abspath(model_run_dir) if "://" not in model_run_dir else model_run_dir)
    hidden = os.path.join(parent, f".checkpoints-{fingerprint[:16]}")
    if has_locks(hidden):
        # The training restores from it, and removes it in the end.
        check_own_folder(hidden)
    return hidden


class OutputFolders:
    """The folders of a model and its run; a context manager that locks them against other processes.

    Processes other than the chief get folders that are discarded, because some outputs can only be written if all
    processes take part.
    """

    def __init__(self, model_dir: str, model_run_dir: str, *, is_chief: bool) -> None:
        self._outputs = {"model_dir": model_dir.rstrip("/"), "model_run_dir": model_run_dir.rstrip("/")}
        self._places = resolve_outputs(self._outputs) if is_chief else self._outputs
        self._model, self._run = self._places.values()
        self._is_chief = is_chief
        self._locks = contextlib.ExitStack()

    def __enter__(self) -> OutputFolders:
        """Locks the folders."""
        if self._is_chief:
            with contextlib.ExitStack() as stack:
                stack.enter_context(held_outputs(self._outputs, self._places, note=RESUMABLE))
                self._locks = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Releases the locks."""
        self._locks.close()

    def complete(self, fingerprint: Mapping[str, str]) -> bool:
        """Completes the outputs if this same training had ended before; returns whether they exist.

        Always False in a process that does not write.
        """
        if not self._is_chief:
            return False
        for run in (self._run, *partial_folders(self._run)):
            finished = FinishedTraining.read(run)
            if finished is not None and finished.fingerprint == fingerprint and finished.names_hidden_folders:
                hidden_model, hidden_run = self._hidden(finished)
                if fingerprint_folders([self._model, hidden_model]) == finished.model:
                    _complete_rename(hidden_model, self._model)
                    _complete_rename(hidden_run, self._run)
                    return True
        return False

    @contextlib.contextmanager
    def written(self, fingerprint: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yields folders to write into, which appear as a whole or not at all.

        Removes hidden folders that killed processes left behind for the same outputs.
        """
        if not self._is_chief:
            with tempfile.TemporaryDirectory(prefix="tfx-gnn-worker-") as scratch:
                folders = os.path.join(scratch, "model"), os.path.join(scratch, "run")
                for folder in folders:
                    os.mkdir(folder)
                yield folders
            return
        self._check_free(fingerprint)
        remove_partial_folders(self._model)
        remove_partial_folders(self._run)
        local = [place for place in self._places.values() if has_locks(place)]
        sweep_beside(local)
        model, run = make_partial_folder(self._model), make_partial_folder(self._run)
        try:
            yield model, run
            self._check_free(fingerprint)
            for folder in (model, run):
                if has_locks(folder):
                    # After a power loss, the note must not exist without the files that it describes.
                    sync_tree(folder)
            FinishedTraining(
                fingerprint=dict(fingerprint),
                model=fingerprint_folders([model]),
                hidden_folders=(os.path.basename(model), os.path.basename(run)),
            ).write(run)
        except BaseException:
            # Once the note is written the training counts as ended: keep the folders, and the next start renames them.
            if FinishedTraining.read(run) is None:
                tf.io.gfile.rmtree(model)
                tf.io.gfile.rmtree(run)
            raise
        rename_to(model, self._model)
        rename_to(run, self._run)

    def _hidden(self, finished: FinishedTraining) -> tuple[str, str]:
        model, run = finished.hidden_folders
        return os.path.join(os.path.dirname(self._model), model), os.path.join(os.path.dirname(self._run), run)

    def _check_free(self, fingerprint: Mapping[str, str]) -> None:
        finished = FinishedTraining.read(self._run)
        if finished is not None:
            differing = differences(finished.fingerprint, fingerprint)
            found = f"of a training since which there changed: {differing}" if differing else "without its own model"
            raise FileExistsError(
                f"`model_run_dir` must be absent, empty or the output of this same training next to its model; got "
                f"{self._run!r}, an output {found}. Name other folders, or remove {self._model!r} and {self._run!r} "
                "to train again."
            )
        check_absent_or_empty(self._model, name="model_dir")
        check_absent_or_empty(self._run, name="model_run_dir")


def finished_outputs(model_dir: str, model_run_dir: str) -> FinishedTraining | None:
    """Reads the note of finished outputs; None unless both folders are complete and have their final names."""
    finished = FinishedTraining.read(model_run_dir)
    return finished if finished is not None and fingerprint_folders([model_dir]) == finished.model else None


def _complete_rename(folder: str, path: str) -> None:
    """Renames a folder, unless that has already been done."""
    if not tf.io.gfile.exists(folder):
        return
    if has_locks(path):
        check_absent_or_empty(path)
        rename_to(folder, path)
    else:
        # An object store renames a folder file by file, and may have been interrupted.
        copy_files(folder, path)
        tf.io.gfile.rmtree(folder)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputSizes:
    """Estimated sizes of a training's outputs, in bytes.

    Attributes:
        checkpoints: all checkpoints that exist at a time: those that are kept and the one being written; and logs.
        model: the exported model.
        run: the weights twice, as a checkpoint and for GraphSkewValidator, and logs.
    """

    checkpoints: int
    model: int
    run: int

    @classmethod
    def of_model(cls, model: tf_keras.Model) -> OutputSizes:
        """Estimates the sizes from a compiled model that has all its variables.

        This includes the slots of its optimizer: under Adam, a checkpoint is three times the size of the weights.
        """
        weights = sum(variable.shape.num_elements() * variable.dtype.size for variable in model.variables)
        return cls(
            checkpoints=(MAX_TO_KEEP + 1) * num_state_bytes(model) + LOGS_BYTES,
            model=weights + LOGS_BYTES,
            run=2 * weights + LOGS_BYTES,
        )


def check_outputs(folders: Mapping[str, tuple[str, int]]) -> None:
    """Checks that folders can be created and written, and that their disks have space for the given bytes.

    Folders on object stores are checked by writing an object; their free space is unknown. Neither a folder nor its
    parents need to exist; nothing is left behind.
    """
    needs: dict[int, list[tuple[str, str, int]]] = {}
    for name, (folder, num_bytes) in folders.items():
        if not has_locks(folder):
            _check_object_store(name, folder)
            continue
        existing = _nearest_existing(folder)
        _check_writable(name, folder, existing)
        needs.setdefault(os.stat(existing).st_dev, []).append((name, existing, num_bytes))
    for on_one_disk in needs.values():
        _check_room(on_one_disk)


def check_places(*, model_dir: str, model_run_dir: str, checkpoint_dir: str) -> None:
    """Checks, before anything is read, that outputs can be written, as far as is known without a model.

    `checkpoint_dir` may be empty.
    """
    folders = {"model_dir": model_dir, "model_run_dir": model_run_dir, "checkpoint_dir": checkpoint_dir}
    # If a training has ended, finding that out needs no space.
    if not (has_locks(model_run_dir) and os.path.exists(os.path.join(model_run_dir, FINISHED_FILE))):
        check_outputs({name: (folder, LOGS_BYTES) for name, folder in folders.items() if folder})


def _nearest_existing(folder: str) -> str:
    """The folder, or the nearest of its parents that exists."""
    path = os.path.abspath(folder)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _check_writable(name: str, folder: str, existing: str) -> None:
    """Writes a file where the folder is or will be created: permissions alone do not prove that this is possible."""
    reason = None
    if not os.path.isdir(existing):
        reason = "which is not a folder"
    else:
        try:
            # With a used-up quota, an empty file may still be created. This one has no name where the file system
            # supports that, so that a killed process leaves nothing behind.
            with tempfile.TemporaryFile(dir=existing) as file:
                file.write(b"x")
                file.flush()
        except OSError as error:
            reason = f"where nothing can be written: {error.strerror}"
    if reason is not None:
        place = "" if existing == os.path.abspath(folder) else f" in {existing!r}"
        raise ValueError(
            f"`{name}` must be a folder that can be made and written; got {folder!r}{place}, {reason}. Name another "
            "folder, or fix this one."
        )


def _check_object_store(name: str, folder: str) -> None:
    path = os.path.join(folder, f".write-check-{uuid.uuid4().hex[:12]}")
    try:
        with tf.io.gfile.GFile(path, "w") as file:
            file.write("x")
        tf.io.gfile.remove(path)
    except (tf.errors.OpError, OSError) as error:
        raise ValueError(
            f"`{name}` must be a folder that can be written; got {folder!r}: {error} Name another one, or give this "
            "process the right to write."
        ) from error


def _check_room(folders: Sequence[tuple[str, str, int]]) -> None:
    """Compares the free space of one disk with what all folders on it need."""
    free = shutil.disk_usage(folders[0][1]).free
    needed = sum(num_bytes for _, _, num_bytes in folders)
    if free < needed:
        names = ", ".join(f"`{name}` {num_bytes:,}" for name, _, num_bytes in folders)
        raise ValueError(
            f"`{folders[0][0]}` must have room for {needed:,} bytes ({names}); got {free:,} bytes free on the disk of "
            f"{folders[0][1]!r}. Free space, or name folders on a larger disk."
        )
