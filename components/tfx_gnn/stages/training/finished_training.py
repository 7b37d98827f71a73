"""The note of a training that has ended.

It is the last thing that is written, into the hidden folder of the model run: from then on all that is left to do is
to give two folders their names. Who starts the same training again finds by it what is left, and that nothing else is.
"""

from __future__ import annotations

import dataclasses
import os

import tensorflow as tf

from tfx_gnn.serving.disk_sync import sync_path
from tfx_gnn.stages.files import options_json
from tfx_gnn.stages.files.process_lock import has_locks

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
        """Reads the note of a model run.

        Args:
            run_dir: folder of the run, hidden or not; may be missing.

        Returns:
            The note; None if the training has not ended there.
        """
        path = os.path.join(run_dir, FINISHED_FILE)
        if not tf.io.gfile.exists(path):
            return None
        with tf.io.gfile.GFile(path) as file:
            return options_json.from_json(file.read(), cls)

    def write(self, run_dir: str) -> None:
        """Writes the note, whole or not at all.

        Args:
            run_dir: hidden folder of the run, in which nothing is missing but this.
        """
        path = os.path.join(run_dir, FINISHED_FILE)
        with tf.io.gfile.GFile(path + ".writing", "w") as file:
            file.write(options_json.to_json(self))
        if has_locks(run_dir):
            sync_path(path + ".writing")
        tf.io.gfile.rename(path + ".writing", path, overwrite=True)
        if has_locks(run_dir):
            sync_path(run_dir)
