"""Saves and restores the exact state of a training.

A checkpoint holds the weights, the optimizer's slots and step count, the dropout generators, the metrics of the
current epoch, and any other state that is needed to resume. Its manifest holds the position in the data: after
resuming, the next step takes the next batch of the epoch.

On disk, a checkpoint consists of the files that TensorFlow writes and a manifest, which is written after them and
gets its name by a single rename. A checkpoint that lacks its manifest, or differs from it, is incomplete and is
ignored.

With several synchronous workers, all of them take part in saving, because variables with a separate value in each
replica are summed in the process; only the chief's files are kept. Under parameter servers the coordinator writes.
All processes read the same folder when they resume.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.distribution.strategy_predicates import is_multi_worker_strategy, is_parameter_server_strategy
from tfx_gnn.io import options_json
from tfx_gnn.io.process_lock import has_locks, process_lock
from tfx_gnn.io.renames import rename_file
from tfx_gnn.training.checkpoints.resumable_state import PackedStates, ResumableState
from tfx_gnn.training.checkpoints.training_fingerprint import differences
from tfx_gnn.training.loop.determinism import find_generators
from tfx_gnn.training.loop.training_loop import TrainingPosition

MAX_TO_KEEP = 2
"""Number of checkpoints to keep: the newest, and one more in case it is damaged."""

FORMAT_VERSION = 1

_START = "step-"
_MANIFEST = ".json"
_UNNAMED_MANIFEST = ".json.writing"
_LOCK_FILE = ".lock"


class TrainingCheckpoints:
    """Saves a training and resumes it; a `TrainingHook`.

    The folder must be on storage that all processes share. The model must have all of its variables: see
    `create_training_variables`.

    Args:
        fingerprint: dict from names to values or hashes of what must not change before training resumes.
        states: other objects to save, by name.
        every_steps: steps between two checkpoints; 0 to save only after each epoch.
        writes: whether this process keeps what it saves, as the chief does.
        say: called with a line of text for each checkpoint that is skipped.
        check: called before each save; raises an error if the state is not worth saving.
    """

    def __init__(
        self,
        *,
        folder: str,
        model: tf_keras.Model,
        strategy: tf.distribute.Strategy,
        fingerprint: Mapping[str, str],
        states: Mapping[str, ResumableState],
        every_steps: int,
        writes: bool,
        say: Callable[[str], None],
        check: Callable[[TrainingPosition], None] = lambda _: None,
    ) -> None:
        self._files = CheckpointFiles(folder, fingerprint=fingerprint, say=say)
        self._strategy = strategy
        self._every_steps = every_steps
        self._writes = writes
        self._check = check
        self._saved: TrainingPosition | None = None
        self._checkpoint = tf.train.Checkpoint(
            model=model,
            metrics=list(model.metrics),
            generators=list(find_generators(model)),
            states=PackedStates(states),
        )
        self._options = tf.train.CheckpointOptions(experimental_io_device=_io_device(strategy))

    @property
    def saved_position(self) -> TrainingPosition | None:
        """Position of the newest checkpoint that this process saved or resumed from; None before `resume`."""
        return self._saved

    def resume(self) -> TrainingPosition:
        """Restores the newest complete checkpoint, and returns where training resumes.

        If there is no checkpoint, it saves the initial state, so that write errors surface now.
        """
        position = self._files.newest_whole()
        self._check_agreement(position)
        if position is None:
            position = TrainingPosition()
            self.save(position)
        else:
            self.restore(position)
        return position

    def restore(self, position: TrainingPosition) -> None:
        """Restores the state at a position whose checkpoint is still kept."""
        try:
            status = self._checkpoint.read(self._files.path(position), options=self._options)
            status.assert_existing_objects_matched()
        except (AssertionError, ValueError) as error:
            raise ValueError(
                f"`model_fn` must give the model that the checkpoint {self._files.path(position)!r} was saved from; "
                f"got another one: {error} Remove the checkpoints to start over."
            ) from error
        self._saved = position

    def save(self, position: TrainingPosition) -> None:
        """Saves everything; the previous checkpoint stays until this one is complete."""
        self._check(position)
        if self._writes:
            with self._room_for(position):
                tf.io.gfile.makedirs(self._files.folder)
                self._checkpoint.write(self._files.path(position), options=self._options)
                self._files.finish(position, max_to_keep=MAX_TO_KEEP)
        else:
            with tempfile.TemporaryDirectory() as folder:
                self._checkpoint.write(os.path.join(folder, "not-kept"), options=self._options)
        self._saved = position

    def on_step_end(self, position: TrainingPosition, logs: Mapping[str, Any]) -> None:
        """Saves if training passed a multiple of `every_steps` since the last save."""
        every, last = self._every_steps, self._saved
        if every and last is not None and position.global_step // every > last.global_step // every:
            self.save(position)

    def on_epoch_end(self, position: TrainingPosition, logs: Mapping[str, float]) -> None:
        """Saves."""
        self.save(position)

    def on_stop(self, position: TrainingPosition) -> None:
        """Saves, unless this position was just saved."""
        if self._saved != position:
            self.save(position)

    @contextlib.contextmanager
    def _room_for(self, position: TrainingPosition) -> Iterator[None]:
        """Removes an unfinished checkpoint on failure, and reports the sizes if the disk is full."""
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            with contextlib.suppress(OSError, tf.errors.OpError):
                self._files.remove(os.path.basename(self._files.path(position)))
            if not _is_full_disk(error):
                raise
            previous = "none was saved before" if self._saved is None else f"that after step {self._saved.global_step}"
            needed = num_state_bytes(self._checkpoint.model)
            raise OSError(
                f"`checkpoint_dir` must have room for a checkpoint of {needed:,} bytes; "
                f"got {shutil.disk_usage(self._files.folder).free:,} bytes free in {self._files.folder!r} after step "
                f"{position.global_step}. The newest whole checkpoint is {previous}. Free some space, and run the same "
                "command again: training resumes there."
            ) from error

    def _check_agreement(self, position: TrainingPosition | None) -> None:
        """Checks that all synchronous workers resume from the same position."""
        if not is_multi_worker_strategy(self._strategy):
            return
        step = -1 if position is None else position.global_step
        here = self._strategy.run(lambda: tf.constant([step], tf.int64))
        steps = sorted(set(self._strategy.gather(here, axis=0).numpy().tolist()))
        if len(steps) > 1:
            raise ValueError(
                f"`checkpoint_dir` must be on storage that all workers share; got newest checkpoints after steps "
                f"{steps} (-1: none), here {step} in {self._files.folder!r}. Name a folder that all workers see."
            )


def create_training_variables(
    model: tf_keras.Model, strategy: tf.distribute.Strategy, features: Any, labels: Any
) -> None:
    """Creates the optimizer's slots and the variables of losses and metrics, as Keras does only at the first step.

    Variables that exist can be restored, and the restoring can be checked for completeness. The batch's values do not
    matter.
    """
    with strategy.scope():
        outputs = model(features, training=False)
        if not model.compiled_loss.built:
            model.compiled_loss.build(outputs)
        if not model.compiled_metrics.built:
            model.compiled_metrics.build(outputs, labels)
        # Older Keras optimizers restore a slot when they create it, at the first step.
        if not isinstance(model.optimizer, tf_keras.optimizers.legacy.Optimizer):
            model.optimizer.build(model.trainable_variables)


def remove_checkpoints(folder: str) -> None:
    """Removes the checkpoints of a finished training; other files in the folder stay."""
    CheckpointFiles(folder, fingerprint={}, say=lambda _: None).remove_all()


def num_state_bytes(model: tf_keras.Model) -> int:
    """Counts the bytes of a checkpoint, except the few bytes of metrics."""
    optimizer: Any = model.optimizer
    is_older = isinstance(optimizer, tf_keras.optimizers.legacy.Optimizer)
    variables = [*model.variables, *(optimizer.variables() if is_older else optimizer.variables)]
    return sum(variable.shape.num_elements() * variable.dtype.size for variable in variables)


@contextlib.contextmanager
def locked_checkpoints(folder: str) -> Iterator[None]:
    """Locks a folder of checkpoints against other trainings; does nothing on object stores, which have no locks.

    Of a training's processes, the one that writes holds the lock. The folder is created if necessary, and removed at
    the end if it is empty. If another process holds the lock, this raises BlockingIOError.
    """
    if not has_locks(folder):
        yield
        return
    was_there = os.path.isdir(folder)
    try:
        rule = f"`checkpoint_dir` must be used by one training at a time; got {folder!r}"
        with process_lock(os.path.join(folder, _LOCK_FILE), rule=rule):
            yield
    finally:
        if not was_there and os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)


def num_checkpoint_bytes(folder: str) -> int:
    """Counts the bytes of all checkpoints in a folder, which may be missing."""
    if not tf.io.gfile.exists(folder):
        return 0
    names = [name for name in tf.io.gfile.listdir(folder) if name.startswith(_START)]
    return sum(tf.io.gfile.stat(os.path.join(folder, name)).length for name in names)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointManifest:
    """Description of a checkpoint.

    Attributes:
        position: where training resumes from it.
        fingerprint: dict from names to values or hashes of what must be the same when training resumes.
        files: sizes of TensorFlow's files in bytes, by name.
        tfx_gnn_version: version of this library.
        format_version: version of this file format.
    """

    position: TrainingPosition
    fingerprint: dict[str, str]
    files: dict[str, int]
    tfx_gnn_version: str = tfx_gnn.__version__
    format_version: int = FORMAT_VERSION


class CheckpointFiles:
    """The checkpoints of one training in a folder, which is created when the first one is written.

    `say` is called with a line of text for each checkpoint that is skipped.
    """

    def __init__(self, folder: str, *, fingerprint: Mapping[str, str], say: Callable[[str], None]) -> None:
        self.folder = folder
        self._fingerprint = dict(fingerprint)
        self._say = say

    def path(self, position: TrainingPosition) -> str:
        """Returns the path of a position's checkpoint, for `tf.train.Checkpoint.write` and `read`."""
        return os.path.join(self.folder, _name(position))

    def newest_whole(self) -> TrainingPosition | None:
        """Finds the position of the newest complete checkpoint; reads all of it, so restoring cannot fail half-way.

        A checkpoint of another training raises a ValueError that names what differs.
        """
        for name in reversed(self._finished()):
            manifest, defect = self._examine(name)
            if manifest is not None and defect is None:
                self._check_fingerprint(manifest)
                return manifest.position
            self._say(f"Checkpoint {os.path.join(self.folder, name)!r} is skipped: {defect}.")
        return None

    def finish(self, position: TrainingPosition, *, max_to_keep: int) -> None:
        """Completes the checkpoint of a position, whose files are written, and removes older ones.

        `max_to_keep` includes this checkpoint.
        """
        name = _name(position)
        manifest = CheckpointManifest(position=position, fingerprint=self._fingerprint, files=self._sizes(name))
        unnamed = os.path.join(self.folder, name + _UNNAMED_MANIFEST)
        with tf.io.gfile.GFile(unnamed, "w") as file:
            file.write(json.dumps(dataclasses.asdict(manifest), indent=2) + "\n")
        rename_file(unnamed, os.path.join(self.folder, name + _MANIFEST))
        # Newer ones were skipped as damaged, or training would have resumed there.
        older = [other for other in self._finished() if other < name]
        kept = {name, *older[max(len(older) - max_to_keep + 1, 0) :]}
        self._remove_all_but(kept)

    def remove_all(self) -> None:
        """Removes all checkpoints."""
        self._remove_all_but(set())

    def remove(self, name: str) -> None:
        """Removes all files of a checkpoint, its manifest first, so that the rest no longer counts."""
        for file in sorted(self._files_of(name), key=lambda file: not file.endswith(_MANIFEST)):
            path = os.path.join(self.folder, file)
            if tf.io.gfile.isdir(path):
                tf.io.gfile.rmtree(path)
            else:
                tf.io.gfile.remove(path)

    def _remove_all_but(self, kept: set[str]) -> None:
        for owner in {_owner(file) for file in self._names()} - kept:
            self.remove(owner)

    def _examine(self, name: str) -> tuple[CheckpointManifest | None, str | None]:
        """Reads a manifest, and describes what is wrong with it or its files."""
        with tf.io.gfile.GFile(os.path.join(self.folder, name + _MANIFEST)) as file:
            text = file.read()
        try:
            manifest = options_json.from_json(text, CheckpointManifest)
        except ValueError:
            return None, "its manifest cannot be read"
        if self._sizes(name) != manifest.files:
            return manifest, f"its files are {self._sizes(name)}, but {manifest.files} were written"
        try:
            reader = tf.train.load_checkpoint(os.path.join(self.folder, name))
            for key in reader.get_variable_to_shape_map():
                reader.get_tensor(key)
        except tf.errors.OpError as error:
            return manifest, error.message
        return manifest, None

    def _check_fingerprint(self, manifest: CheckpointManifest) -> None:
        differing = differences(manifest.fingerprint, self._fingerprint)
        if differing:
            raise ValueError(
                f"`checkpoint_dir` must hold checkpoints of this very training; got those of another one in "
                f"{self.folder!r}; what differs: {differing}. Remove the folder to start over, or name another one."
            )

    def _finished(self) -> list[str]:
        """Lists the names of checkpoints, oldest first: names sort in the order of positions."""
        return sorted(name.removesuffix(_MANIFEST) for name in self._names() if name.endswith(_MANIFEST))

    def _files_of(self, name: str) -> list[str]:
        return [file for file in self._names() if _owner(file) == name]

    def _names(self) -> list[str]:
        if not tf.io.gfile.exists(self.folder):
            return []
        names = (name.rstrip("/") for name in tf.io.gfile.listdir(self.folder))
        return [name for name in names if name.startswith(_START)]

    def _sizes(self, name: str) -> dict[str, int]:
        data = [file for file in self._files_of(name) if ".index" in file or ".data-" in file]
        return {file: tf.io.gfile.stat(os.path.join(self.folder, file)).length for file in sorted(data)}


def _name(position: TrainingPosition) -> str:
    return f"{_START}{position.global_step:010d}-epoch-{position.epoch:06d}"


def _owner(file: str) -> str:
    """Returns the checkpoint that a file belongs to; TensorFlow writes into a folder `<name>_temp` first."""
    return file.partition(".")[0].partition("_")[0]


def _io_device(strategy: tf.distribute.Strategy) -> str | None:
    """Returns the coordinator's device under parameter servers, which may see no shared storage."""
    return "/job:chief" if is_parameter_server_strategy(strategy) else None


def _is_full_disk(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, tf.errors.OpError) and (
        os.strerror(errno.ENOSPC) in str(error) or os.strerror(errno.EDQUOT) in str(error)
    )
