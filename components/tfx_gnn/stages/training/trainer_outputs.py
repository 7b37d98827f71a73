"""What the trainer writes, and which of several processes writes it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

import tensorflow as tf
import tf_keras

from tfx_gnn.stages.files.atomic_folder import atomic_folder

LOGS_DIR = "logs"
CHECKPOINTS_DIR = "checkpoints"
EXPORTED = "exported"


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
    """
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
    return tf.train.CheckpointOptions(experimental_io_device="/job:localhost" if is_served else None)
