"""Checkpoint files in a folder; incomplete ones are ignored.

A checkpoint is the files that TensorFlow writes, and a manifest that is written after them and gets its name by
one renaming. What lacks a manifest, or is not what its manifest says, was not written to its end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf

import tfx_gnn
from tfx_gnn.io import options_json
from tfx_gnn.io.process_lock import has_locks, process_lock
from tfx_gnn.training.checkpoints.training_fingerprint import differences
from tfx_gnn.training.loop.training_loop import TrainingPosition

FORMAT_VERSION = 1

_START = "step-"
_MANIFEST = ".json"
_UNNAMED_MANIFEST = ".json.writing"
_LOCK_FILE = ".lock"


@contextlib.contextmanager
def locked_checkpoints(folder: str) -> Iterator[None]:
    """Locks a folder of checkpoints against other trainings; does nothing on object stores, which have no locks.

    One process of a training holds it: the one that writes.

    Args:
        folder: made if need be, and removed at the end if it is empty then.

    Yields:
        Nothing.

    Raises:
        BlockingIOError: if another process holds it.
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
    """Tells the size of the checkpoints that are there.

    Args:
        folder: of checkpoints; may be missing.

    Returns:
        Bytes of all their files.
    """
    if not tf.io.gfile.exists(folder):
        return 0
    names = [name for name in tf.io.gfile.listdir(folder) if name.startswith(_START)]
    return sum(tf.io.gfile.stat(os.path.join(folder, name)).length for name in names)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointManifest:
    """What a checkpoint is of.

    Attributes:
        position: where training goes on from it.
        fingerprint: what must be the same when it goes on: names to values or hashes.
        files: names of TensorFlow's files to their sizes in bytes.
        tfx_gnn_version: version of this library.
        format_version: version of this form.
    """

    position: TrainingPosition
    fingerprint: dict[str, str]
    files: dict[str, int]
    tfx_gnn_version: str = tfx_gnn.__version__
    format_version: int = FORMAT_VERSION


class CheckpointFiles:
    """The checkpoints of one training.

    Args:
        folder: where they are; made when the first one is written.
        fingerprint: names to values or hashes of what must not change while training goes on.
        say: gets a line for each checkpoint that is passed over.
    """

    def __init__(self, folder: str, *, fingerprint: Mapping[str, str], say: Callable[[str], None]) -> None:
        self.folder = folder
        self._fingerprint = dict(fingerprint)
        self._say = say

    def path(self, position: TrainingPosition) -> str:
        """Tells where the checkpoint of a position is.

        Args:
            position: where training goes on.

        Returns:
            Prefix of its files, as `tf.train.Checkpoint.write` and `read` take it.
        """
        return os.path.join(self.folder, _name(position))

    def newest_whole(self) -> TrainingPosition | None:
        """Finds the checkpoint to go on from. All of it is read, so restoring it cannot fail half-way.

        Returns:
            Its position; None if there is no whole checkpoint.

        Raises:
            ValueError: if the newest one that is whole is of another training: it names what differs.
        """
        for name in reversed(self._finished()):
            manifest, defect = self._examine(name)
            if manifest is not None and defect is None:
                self._check_fingerprint(manifest)
                return manifest.position
            self._say(f"Checkpoint {os.path.join(self.folder, name)!r} is passed over: {defect}.")
        return None

    def finish(self, position: TrainingPosition, *, max_to_keep: int) -> None:
        """Makes the checkpoint of a position count, and removes what is older than those to keep.

        Args:
            position: all files of its `path` have been written.
            max_to_keep: how many stay, this one included; at least 1.
        """
        name = _name(position)
        manifest = CheckpointManifest(position=position, fingerprint=self._fingerprint, files=self._sizes(name))
        unnamed = os.path.join(self.folder, name + _UNNAMED_MANIFEST)
        with tf.io.gfile.GFile(unnamed, "w") as file:
            file.write(json.dumps(dataclasses.asdict(manifest), indent=2) + "\n")
        tf.io.gfile.rename(unnamed, os.path.join(self.folder, name + _MANIFEST), overwrite=True)
        # Newer ones were skipped as damaged, or training would have resumed there.
        older = [other for other in self._finished() if other < name]
        kept = {name, *older[max(len(older) - max_to_keep + 1, 0) :]}
        self._remove_all_but(kept)

    def remove_all(self) -> None:
        """Removes all checkpoints."""
        self._remove_all_but(set())

    def remove(self, name: str) -> None:
        """Removes all files of a checkpoint, its manifest first: what is left of it counts no more.

        Args:
            name: last part of its `path`.
        """
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
        """Reads a manifest, and says what is wrong with it or its files."""
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
                f"{self.folder!r}, and since then there changed: {differing}. Remove the folder to begin anew, or "
                "name another one."
            )

    def _finished(self) -> list[str]:
        """Names of checkpoints, oldest first: names are in the order of positions."""
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
    """Tells of which checkpoint a file is; TensorFlow writes into a folder `<name>_temp` first."""
    return file.partition(".")[0].partition("_")[0]
