"""A log of the finished files of an unfinished folder, from which an interrupted run resumes."""

from __future__ import annotations

import json
import os
import uuid
from typing import Any

import tensorflow as tf

from tfx_gnn.io.renames import rename_file

_LOG_DIR = ".finished_shards"
_DETAILS = "details"


class FinishedShards:
    """Records which files of an unfinished folder are complete.

    Each record is a small file in a hidden folder beside them, written atomically; any worker may write it.
    """

    def __init__(self, folder: str) -> None:
        """Opens the log of a folder with files by split, which all workers see."""
        self._folder = os.path.join(folder, _LOG_DIR)

    def note(self, split: str, shard: int, details: Any) -> None:
        """Records that a file is complete; to be called once it is in place. `details` must fit into JSON."""
        tf.io.gfile.makedirs(self._folder)
        partial = os.path.join(self._folder, uuid.uuid4().hex)
        with tf.io.gfile.GFile(partial, "w") as file:
            file.write(json.dumps({"split": split, "shard": shard, _DETAILS: details}))
        rename_file(partial, os.path.join(self._folder, f"{split}-{shard:05d}.json"))

    def read(self) -> dict[tuple[str, int], Any]:
        """Reads the details of the complete files, by (split, position of the file).

        Damaged records, which a power failure may leave, are ignored: their files are made again.
        """
        if not tf.io.gfile.exists(self._folder):
            return {}
        noted = {}
        for name in sorted(tf.io.gfile.listdir(self._folder)):
            if name.endswith(".json"):
                with tf.io.gfile.GFile(os.path.join(self._folder, name), "rb") as file:
                    content = file.read()
                try:
                    plain = json.loads(content)
                except ValueError:  # no JSON, or no text at all
                    continue
                noted[plain["split"], plain["shard"]] = plain[_DETAILS]
        return noted

    def remove(self) -> None:
        """Removes the log, once the folder is finished."""
        if tf.io.gfile.exists(self._folder):
            tf.io.gfile.rmtree(self._folder)
