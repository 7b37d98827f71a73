"""The verdict on a model or on examples as files: `BLESSED` or `NOT_BLESSED`, and the reasons.

The two empty files are those of TFX's standard ModelBlessing artifact.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import tensorflow as tf

BLESSED_FILE = "BLESSED"
NOT_BLESSED_FILE = "NOT_BLESSED"
REASONS_FILE = "reasons.json"


def write_blessing(folder: str, *, blessed: bool, reasons: Sequence[str]) -> None:
    """Writes a verdict.

    Args:
        folder: existing folder without a verdict.
        blessed: the verdict.
        reasons: sentences, whatever the verdict.
    """
    with tf.io.gfile.GFile(os.path.join(folder, REASONS_FILE), "w") as file:
        file.write(json.dumps({"blessed": blessed, "reasons": list(reasons)}, indent=2) + "\n")
    with tf.io.gfile.GFile(os.path.join(folder, BLESSED_FILE if blessed else NOT_BLESSED_FILE), "w") as file:
        file.write("")


def is_blessed(folder: str) -> bool:
    """Reads a verdict.

    Args:
        folder: folder that holds `BLESSED` or `NOT_BLESSED`.

    Returns:
        Whether what was judged is blessed.

    Raises:
        FileNotFoundError: if the folder holds neither file.
        ValueError: if it holds both.
    """
    found = [name for name in (BLESSED_FILE, NOT_BLESSED_FILE) if tf.io.gfile.exists(os.path.join(folder, name))]
    if not found:
        raise FileNotFoundError(
            f"`folder` must hold {BLESSED_FILE} or {NOT_BLESSED_FILE}; got {folder!r} with neither. "
            "Point at the blessing that GraphEvaluator or GraphExampleValidator made."
        )
    if len(found) == 2:
        raise ValueError(
            f"`folder` must hold one verdict; got both {BLESSED_FILE} and {NOT_BLESSED_FILE} in {folder!r}. "
            "Judge again into an empty folder."
        )
    return found == [BLESSED_FILE]


def read_reasons(folder: str) -> list[str]:
    """Reads the reasons of a verdict.

    Args:
        folder: folder with a verdict; one that another tool wrote may lack reasons.

    Returns:
        The sentences; a single general one if none were recorded.
    """
    path = os.path.join(folder, REASONS_FILE)
    if not tf.io.gfile.exists(path):
        return ["the evaluator gave no reasons"]
    with tf.io.gfile.GFile(path, "r") as file:
        return [str(reason) for reason in json.loads(file.read())["reasons"]]
