"""Saves and restores the exact state of a training.

A checkpoint holds the weights, the optimizer's slots and count, the generators of dropout, the metrics of the
running epoch, and the state of whatever else the training cannot go on without. Its manifest holds the position
in the data. Going on from it, the next step takes the next batch of the epoch.

Under several workers in step all of them take part in saving, because variables that each replica has its own
value of are summed up on the way; only the chief's files are kept. Under parameter servers the coordinator
writes. All processes read the same folder when they go on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.training.checkpoints.checkpoint_files import CheckpointFiles
from tfx_gnn.training.checkpoints.resumable_state import PackedStates, ResumableState
from tfx_gnn.training.loop.determinism import generators_of
from tfx_gnn.training.loop.training_loop import TrainingPosition

MAX_TO_KEEP = 2
"""How many checkpoints are kept: the newest, and one in case it is damaged."""


class TrainingCheckpoints:
    """Saves a training and takes it up again; a `TrainingHook`.

    Args:
        folder: where checkpoints are kept, on storage that all processes share.
        model: compiled and built model, whose optimizer and metrics have their variables:
            see `create_training_variables`.
        strategy: what the model was created under.
        fingerprint: names to values or hashes of what must not change while training goes on.
        states: names to what else is saved.
        every_steps: steps between two checkpoints; 0 to save after each epoch only.
        writes: whether this process keeps what it saves: that of the chief.
        say: gets a line for each checkpoint that is passed over.
        check: called before each save; it raises an error if what would be saved is worth nothing.
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
            model=model, metrics=list(model.metrics), generators=list(generators_of(model)), states=PackedStates(states)
        )
        self._options = tf.train.CheckpointOptions(experimental_io_device=_io_device(strategy))

    @property
    def saved_position(self) -> TrainingPosition | None:
        """Position of the newest checkpoint that this process saved or went on from; None before `resume`."""
        return self._saved

    def resume(self) -> TrainingPosition:
        """Restores the newest whole checkpoint.

        If there is none, it saves the initial state, so that write errors surface now.

        Returns:
            Where training goes on.

        Raises:
            ValueError: if the checkpoint is of another training or model, or processes see different ones.
            OSError: if there is no room for a checkpoint.
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
        """Brings everything back as it was at a position.

        Args:
            position: a position that was saved, and is still kept.

        Raises:
            ValueError: if the model has other variables than the checkpoint.
        """
        try:
            status = self._checkpoint.read(self._files.path(position), options=self._options)
            status.assert_existing_objects_matched()
        except (AssertionError, ValueError) as error:
            raise ValueError(
                f"`model_fn` must give the model that the checkpoint {self._files.path(position)!r} was saved from; "
                f"got another one: {error} Remove the checkpoints to begin anew."
            ) from error
        self._saved = position

    def save(self, position: TrainingPosition) -> None:
        """Saves everything; the previous checkpoint stays until this one is whole.

        Args:
            position: where training goes on.

        Raises:
            OSError: if there is no room for it. The previous checkpoint is still there.
        """
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
        """Saves if a multiple of `every_steps` was passed since the last save."""
        every, last = self._every_steps, self._saved
        if every and last is not None and position.global_step // every > last.global_step // every:
            self.save(position)

    def on_epoch_end(self, position: TrainingPosition, logs: Mapping[str, float]) -> None:
        """Saves."""
        self.save(position)

    def on_stop(self, position: TrainingPosition) -> None:
        """Saves, unless that has just happened."""
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
            raise OSError(
                f"`checkpoint_dir` must have room for a checkpoint of {self._num_bytes():,} bytes; got "
                f"{shutil.disk_usage(self._files.folder).free:,} bytes free in {self._files.folder!r} after step "
                f"{position.global_step}. The newest whole checkpoint is {previous}. Free space, and run the same "
                "again: training goes on from there."
            ) from error

    def _num_bytes(self) -> int:
        return num_state_bytes(self._checkpoint.model)

    def _check_agreement(self, position: TrainingPosition | None) -> None:
        """Workers that train in step must all go on from the same place."""
        if not isinstance(self._strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return
        step = -1 if position is None else position.global_step
        here = self._strategy.run(lambda: tf.constant([step], tf.int64))
        steps = sorted(set(self._strategy.gather(here, axis=0).numpy().tolist()))
        if len(steps) > 1:
            raise ValueError(
                f"`checkpoint_dir` must be on storage that all workers share; got newest checkpoints after steps "
                f"{steps} (-1: none), here {step} in {self._files.folder!r}. Name a folder that all of them see."
            )


def create_training_variables(
    model: tf_keras.Model, strategy: tf.distribute.Strategy, features: Any, labels: Any
) -> None:
    """Creates what Keras creates at the first step only: the optimizer's slots, and variables of losses and metrics.

    What exists can be restored, and it can be checked that all of it was.

    Args:
        model: compiled model with weights.
        strategy: what the model was created under.
        features: a batch as the model takes it; its values do not matter.
        labels: the labels of this batch.
    """
    with strategy.scope():
        outputs = model(features, training=False)
        if not model.compiled_loss.built:
            model.compiled_loss.build(outputs)
        if not model.compiled_metrics.built:
            model.compiled_metrics.build(outputs, labels)
        # Keras' older optimizers restore a slot when they create it, at the first step.
        if not isinstance(model.optimizer, tf_keras.optimizers.legacy.Optimizer):
            model.optimizer.build(model.trainable_variables)


def remove_checkpoints(folder: str) -> None:
    """Removes the checkpoints of a training that has ended; other files in the folder stay.

    Args:
        folder: where they are.
    """
    CheckpointFiles(folder, fingerprint={}, say=lambda _: None).remove_all()


def num_state_bytes(model: tf_keras.Model) -> int:
    """Tells the size of a checkpoint, but for the few bytes of metrics.

    Args:
        model: compiled model with weights, and slots of its optimizer.

    Returns:
        Bytes of all weights and of the optimizer's variables.
    """
    optimizer: Any = model.optimizer
    is_older = isinstance(optimizer, tf_keras.optimizers.legacy.Optimizer)
    variables = [*model.variables, *(optimizer.variables() if is_older else optimizer.variables)]
    return sum(variable.shape.num_elements() * variable.dtype.size for variable in variables)


def _io_device(strategy: tf.distribute.Strategy) -> str | None:
    """Parameter servers may see no shared storage: the coordinator writes and reads all files."""
    return "/job:chief" if isinstance(strategy, tf.distribute.experimental.ParameterServerStrategy) else None


def _is_full_disk(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, tf.errors.OpError) and (
        os.strerror(errno.ENOSPC) in str(error) or os.strerror(errno.EDQUOT) in str(error)
    )
