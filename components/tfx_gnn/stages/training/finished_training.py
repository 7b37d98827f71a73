"""A training whose processes are started again although it has ended: its supervisor did not learn of the end.

In a folder of checkpoints that was asked for by name a note stays behind, so the same command finds that nothing
is left to do. It is written before the outputs appear, and holds once they are there.
"""

from __future__ import annotations

import dataclasses
import os

import tensorflow as tf

from tfx_gnn.stages.files import options_json
from tfx_gnn.stages.training.summary import SUMMARY_FILE, TrainingSummary

FINISHED_FILE = "finished.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinishedTraining:
    """What has ended.

    Attributes:
        fingerprint: name of the training.
        num_epochs: epochs that were asked for.
        model_dir: the model.
        model_run_dir: its run.
    """

    fingerprint: str
    num_epochs: int
    model_dir: str
    model_run_dir: str

    def note(self, checkpoint_dir: str) -> None:
        """Notes that the outputs are about to appear.

        Args:
            checkpoint_dir: folder of the training's checkpoints.
        """
        tf.io.gfile.makedirs(checkpoint_dir)
        path = os.path.join(checkpoint_dir, FINISHED_FILE)
        with tf.io.gfile.GFile(path + ".writing", "w") as file:
            file.write(options_json.to_json(self))
        tf.io.gfile.rename(path + ".writing", path, overwrite=True)

    def summary(self, checkpoint_dir: str) -> TrainingSummary | None:
        """Looks whether this very training has ended.

        Args:
            checkpoint_dir: folder of its checkpoints.

        Returns:
            What it did; None if it has to be done, or to go on.
        """
        path = os.path.join(checkpoint_dir, FINISHED_FILE)
        summary_path = os.path.join(self.model_run_dir, SUMMARY_FILE)
        if not all(map(tf.io.gfile.exists, (path, self.model_dir, summary_path))):
            return None
        with tf.io.gfile.GFile(path) as file:
            if options_json.from_json(file.read(), FinishedTraining) != self:
                return None
        with tf.io.gfile.GFile(summary_path) as file:
            return options_json.from_json(file.read(), TrainingSummary)
