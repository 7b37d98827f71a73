"""What the trainer writes, and which of several processes writes it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

import tensorflow as tf
import tf_keras

from tfx_gnn.distribution.cluster import ClusterRole
from tfx_gnn.stages.files.atomic_folder import atomic_folder

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
def output_folders(model_dir: str, model_run_dir: str, *, is_chief: bool) -> Iterator[tuple[str, str]]:
    """Yields folders to write into, which appear whole or not at all.

    Args:
        model_dir: absent or empty folder.
        model_run_dir: absent or empty folder.
        is_chief: whether this process is the one that writes. The others get folders that are
            thrown away: some of what is written only works if all take part.

    Yields:
        Folders for the model and for its run.

    Raises:
        ValueError: if one of them would lie in the other.
        FileExistsError: if one holds files already.
    """
    places = [os.path.join(os.path.normpath(folder), "") for folder in (model_dir, model_run_dir)]
    if places[0].startswith(places[1]) or places[1].startswith(places[0]):
        raise ValueError(
            f"`model_dir` and `model_run_dir` must be two folders, none in the other; got {model_dir!r} and "
            f"{model_run_dir!r}. Each appears whole at the end: put them side by side."
        )
    with contextlib.ExitStack() as stack:
        if is_chief:
            run = stack.enter_context(atomic_folder(model_run_dir))
            yield stack.enter_context(atomic_folder(model_dir)), run
            return
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="tfx-gnn-worker-"))
        folders = os.path.join(scratch, "model"), os.path.join(scratch, "run")
        for folder in folders:
            os.mkdir(folder)
        yield folders


@contextlib.contextmanager
def errors_of_other_processes(role: ClusterRole) -> Iterator[None]:
    """Says of an error between machines what it means.

    Args:
        role: of this process.

    Raises:
        ConnectionError: if another process is gone.
    """
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

    Args:
        checkpoint_dir: what was asked for; empty for a hidden folder beside the model run: an orchestrator
            gives a retry another run folder, but beside the first one.
        model_run_dir: folder of the model run.
        fingerprint: name of the training.

    Returns:
        The folder.
    """
    parent = os.path.dirname(os.path.abspath(model_run_dir) if "://" not in model_run_dir else model_run_dir)
    return checkpoint_dir or os.path.join(parent, f".checkpoints-{fingerprint[:16]}")


def move_files(folder: str, target: str) -> None:
    """Moves all files of a folder, which may be on another disk.

    Args:
        folder: where they are; it is gone afterwards. May be missing.
        target: where they go.
    """
    if not tf.io.gfile.exists(folder):
        return
    for path, _, names in tf.io.gfile.walk(folder):
        place = os.path.join(target, os.path.relpath(path, folder))
        tf.io.gfile.makedirs(place)
        for name in names:
            tf.io.gfile.copy(os.path.join(path, name), os.path.join(place, name), overwrite=True)
    tf.io.gfile.rmtree(folder)


def save_weights(model: tf_keras.Model, run_dir: str) -> str:
    """Saves the weights as a checkpoint of a model run; every process that trains must take part.

    Args:
        model: the trained model, whatever its strategy.
        run_dir: folder for the run.

    Returns:
        Prefix of the checkpoint, for `load_weights`.
    """
    prefix = os.path.join(run_dir, CHECKPOINTS_DIR, EXPORTED)
    tf.train.Checkpoint(model=model).write(prefix, options=_options(model))
    return prefix


def load_weights(model: tf_keras.Model, prefix: str) -> None:
    """Loads what `save_weights` saved into a model of one device.

    Args:
        model: a model built by the same function.
        prefix: where the checkpoint is.
    """
    tf.train.Checkpoint(model=model).read(prefix).expect_partial().assert_existing_objects_matched()


def _options(model: tf_keras.Model) -> tf.train.CheckpointOptions:
    is_served = isinstance(model.distribute_strategy, tf.distribute.ParameterServerStrategy)
    # Parameter servers may see other disks.
    return tf.train.CheckpointOptions(experimental_io_device="/job:chief" if is_served else None)
