"""The two output folders of a training, the model and its run, which appear together.

No file system renames two folders at once. So the training counts as ended from the moment when the note of
`FinishedTraining` is there, the last thing that is written, into the hidden folder of the model run. Whoever starts
the same training again finds by it what is left: to give the two folders their names, and nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator, Mapping
from types import TracebackType

import tensorflow as tf
import tf_keras

from tfx_gnn.distribution.cluster import ClusterRole
from tfx_gnn.io import options_json
from tfx_gnn.io.atomic_folder import (
    check_absent_or_empty,
    held_outputs,
    make_partial_folder,
    rename_to,
    resolve_outputs,
)
from tfx_gnn.io.commit_journal import RESUMABLE, partial_folders, remove_partial_folders, sweep_beside
from tfx_gnn.io.disk_sync import sync_path, sync_tree
from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.training.checkpoints.training_fingerprint import differences

FINISHED_FILE = "finished.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinishedTraining:
    """What has ended.

    Attributes:
        fingerprint: what the training hung on: names to values or hashes.
        model: fingerprint of the files of the model.
        hidden_folders: last parts of the paths where the model and its run were written.
    """

    fingerprint: dict[str, str]
    model: str
    hidden_folders: tuple[str, str]

    @classmethod
    def read(cls, run_dir: str) -> FinishedTraining | None:
        """Reads the note of a model run, hidden or not; None if the training has not ended there."""
        path = os.path.join(run_dir, FINISHED_FILE)
        if not tf.io.gfile.exists(path):
            return None
        with tf.io.gfile.GFile(path) as file:
            return options_json.from_json(file.read(), cls)

    def write(self, run_dir: str) -> None:
        """Writes the note, whole or not at all."""
        path = os.path.join(run_dir, FINISHED_FILE)
        with tf.io.gfile.GFile(path + ".writing", "w") as file:
            file.write(options_json.to_json(self))
        if has_locks(run_dir):
            sync_path(path + ".writing")
        tf.io.gfile.rename(path + ".writing", path, overwrite=True)
        if has_locks(run_dir):
            sync_path(run_dir)


LOGS_DIR = "logs"


CHECKPOINTS_DIR = "checkpoints"


EXPORTED = "exported"


_BETWEEN_PROCESSES = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)


@contextlib.contextmanager
def errors_of_other_processes(role: ClusterRole) -> Iterator[None]:
    """Turns an error between machines into a ConnectionError that says what it means."""
    try:
        yield
    except _BETWEEN_PROCESSES as error:
        if role.is_alone:
            raise
        reason = (error.message.strip().splitlines() or [type(error).__name__])[-1]
        raise ConnectionError(
            f"Another process of this training is gone, or cannot be reached; got {type(error).__name__} in "
            f"{role.task_type} {role.task_id}: {reason} Start all processes again: training goes on from the newest "
            "checkpoint."
        ) from error


def checkpoint_folder(checkpoint_dir: str, model_run_dir: str, fingerprint: str) -> str:
    """Names the folder of a training's checkpoints, the same whenever it is started again.

    That is `checkpoint_dir` or, if it is empty, a hidden folder beside the model run: an orchestrator gives a retry
    another run folder, but beside the first one.
    """
    parent = os.path.dirname(os.path.abspath(model_run_dir) if "://" not in model_run_dir else model_run_dir)
    return checkpoint_dir or os.path.join(parent, f".checkpoints-{fingerprint[:16]}")


def copy_files(folder: str, target: str) -> None:
    """Copies all files of a folder, which may be missing, to another disk if need be; files there are replaced."""
    if not tf.io.gfile.exists(folder):
        return
    for path, _, names in tf.io.gfile.walk(folder):
        relative = os.path.relpath(path, folder)
        # To an object store "." would be a name like any other.
        place = target if relative == "." else os.path.join(target, relative)
        tf.io.gfile.makedirs(place)
        for name in names:
            tf.io.gfile.copy(os.path.join(path, name), os.path.join(place, name), overwrite=True)


def save_weights(model: tf_keras.Model, run_dir: str) -> str:
    """Saves the weights as a checkpoint of a model run, and returns its prefix; every process must take part."""
    prefix = os.path.join(run_dir, CHECKPOINTS_DIR, EXPORTED)
    tf.train.Checkpoint(model=model).write(prefix, options=_options(model))
    return prefix


def load_weights(model: tf_keras.Model, prefix: str) -> None:
    """Loads what `save_weights` saved into a model of one device, built by the same function."""
    tf.train.Checkpoint(model=model).read(prefix).expect_partial().assert_existing_objects_matched()


def _options(model: tf_keras.Model) -> tf.train.CheckpointOptions:
    is_served = isinstance(model.distribute_strategy, tf.distribute.ParameterServerStrategy)
    # Parameter servers may see other disks.
    return tf.train.CheckpointOptions(experimental_io_device="/job:chief" if is_served else None)


class OutputFolders:
    """The folders of a model and its run; a context manager that keeps other processes from writing them.

    Processes other than the chief get folders that are thrown away: some of what is written only works if all take
    part.
    """

    def __init__(self, model_dir: str, model_run_dir: str, *, is_chief: bool) -> None:
        self._outputs = {"model_dir": model_dir.rstrip("/"), "model_run_dir": model_run_dir.rstrip("/")}
        self._places = resolve_outputs(self._outputs) if is_chief else self._outputs
        self._model, self._run = self._places.values()
        self._is_chief = is_chief
        self._locks = contextlib.ExitStack()

    def __enter__(self) -> OutputFolders:
        """Begins to keep others out."""
        if self._is_chief:
            with contextlib.ExitStack() as stack:
                stack.enter_context(held_outputs(self._outputs, self._places, note=RESUMABLE))
                self._locks = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Lets others in again."""
        self._locks.close()

    def complete(self, fingerprint: Mapping[str, str]) -> bool:
        """Completes the outputs of this very training if it had ended before; tells whether they are there.

        Always False in a process that does not write.
        """
        if not self._is_chief:
            return False
        for run in (self._run, *partial_folders(self._run)):
            finished = FinishedTraining.read(run)
            if finished is not None and finished.fingerprint == fingerprint:
                hidden_model, hidden_run = self._hidden(finished)
                if fingerprint_folders([self._model, hidden_model]) == finished.model:
                    _complete_rename(hidden_model, self._model)
                    _complete_rename(hidden_run, self._run)
                    return True
        return False

    @contextlib.contextmanager
    def written(self, fingerprint: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yields folders to write into, which appear whole or not at all.

        What dead processes have left of the same outputs is removed.
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
                    # A machine that loses power must not keep the note without what it speaks of.
                    sync_tree(folder)
            FinishedTraining(
                fingerprint=dict(fingerprint),
                model=fingerprint_folders([model]),
                hidden_folders=(os.path.basename(model), os.path.basename(run)),
            ).write(run)
        except BaseException:
            # With the note there, what comes too late does not undo a training: the next start completes it.
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
                f"`model_run_dir` must be absent, empty or the output of this very training beside its model; got "
                f"{self._run!r}, an output {found}. Name other folders, or remove {self._model!r} and {self._run!r} "
                "to train anew."
            )
        check_absent_or_empty(self._model, name="model_dir")
        check_absent_or_empty(self._run, name="model_run_dir")


def finished_outputs(model_dir: str, model_run_dir: str) -> FinishedTraining | None:
    """Reads which training the outputs are of; None unless both are there, whole and under their names."""
    finished = FinishedTraining.read(model_run_dir)
    return finished if finished is not None and fingerprint_folders([model_dir]) == finished.model else None


def _complete_rename(folder: str, path: str) -> None:
    """Renames a folder, unless that has been done."""
    if not tf.io.gfile.exists(folder):
        return
    if has_locks(path):
        check_absent_or_empty(path)
        rename_to(folder, path)
    else:
        # An object store renames a folder file by file, and may have been cut short.
        copy_files(folder, path)
        tf.io.gfile.rmtree(folder)
