"""Checks before training starts that its outputs can be written."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence

import tensorflow as tf
import tf_keras

from tfx_gnn.components.graph_trainer.output_folders import FINISHED_FILE
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.training.checkpoints.checkpoints import MAX_TO_KEEP, num_state_bytes

LOGS_BYTES = 16 << 20
"""Room for TensorBoard's logs, the summary, and vocabularies of an export: what the smallest model needs, too."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputSizes:
    """What a training is going to write, in bytes: an estimate by the sizes of what it trains.

    Attributes:
        checkpoints: all that are there at a time: those that are kept, and the one that is being written; and logs.
        model: the exported model.
        run: the weights once as a checkpoint and once for GraphSkewValidator, and logs.
    """

    checkpoints: int
    model: int
    run: int

    @classmethod
    def of_model(cls, model: tf_keras.Model) -> OutputSizes:
        """Estimates from a compiled model that has all its variables.

        With the slots of its optimizer: under Adam a checkpoint has three times the size of the weights.
        """
        weights = sum(variable.shape.num_elements() * variable.dtype.size for variable in model.variables)
        return cls(
            checkpoints=(MAX_TO_KEEP + 1) * num_state_bytes(model) + LOGS_BYTES,
            model=weights + LOGS_BYTES,
            run=2 * weights + LOGS_BYTES,
        )


def check_outputs(folders: Mapping[str, tuple[str, int]]) -> None:
    """Checks that folders can be made and written, and that their disks have room for the bytes that go there.

    Folders on object stores are checked by writing an object; their room is not known. Neither a folder nor its
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
    """Checks before anything is read that outputs can be written, as far as is known without a model.

    `checkpoint_dir` may be empty.
    """
    folders = {"model_dir": model_dir, "model_run_dir": model_run_dir, "checkpoint_dir": checkpoint_dir}
    # Where a training has ended, no room is needed to find that out.
    if not (has_locks(model_run_dir) and os.path.exists(os.path.join(model_run_dir, FINISHED_FILE))):
        check_outputs({name: (folder, LOGS_BYTES) for name, folder in folders.items() if folder})


def _nearest_existing(folder: str) -> str:
    """The folder, or the nearest of its parents that is there."""
    path = os.path.abspath(folder)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _check_writable(name: str, folder: str, existing: str) -> None:
    """Writes a file where the folder is, or will be made: permissions alone do not tell."""
    reason = None
    if not os.path.isdir(existing):
        reason = "which is no folder"
    else:
        try:
            # Where a quota is used up, a folder may yet be made.
            with tempfile.TemporaryDirectory(prefix=".write-check-", dir=existing) as made:
                pathlib.Path(made, "file").write_bytes(b"x")
        except OSError as error:
            reason = f"where nothing can be written: {error.strerror}"
    if reason is not None:
        place = "" if existing == os.path.abspath(folder) else f" in {existing!r}"
        raise ValueError(
            f"`{name}` must be a folder that can be made and written; got {folder!r}{place}, {reason}. Name another "
            "folder, or mend this one."
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
    """Compares the room on one disk with what all folders there need."""
    free = shutil.disk_usage(folders[0][1]).free
    needed = sum(num_bytes for _, _, num_bytes in folders)
    if free < needed:
        names = ", ".join(f"`{name}` {num_bytes:,}" for name, _, num_bytes in folders)
        raise ValueError(
            f"`{folders[0][0]}` must have room for {needed:,} bytes ({names}); got {free:,} bytes free on the disk of "
            f"{folders[0][1]!r}. Free space, or name folders on a larger disk."
        )
