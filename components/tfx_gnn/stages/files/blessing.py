"""The verdict on a model or on examples as files: `BLESSED` or `NOT_BLESSED`, and the reasons.

The two empty files are those of TFX's standard ModelBlessing artifact. Those of its InfraBlessing artifact, which
says that a model serves as it should, begin with `INFRA_`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import tensorflow as tf

from tfx_gnn.graph.text_files import read_json

BLESSED_FILE = "BLESSED"
NOT_BLESSED_FILE = "NOT_BLESSED"
REASONS_FILE = "reasons.json"
INFRA_PREFIX = "INFRA_"
"""Begins the names of the two files in an InfraBlessing."""


def write_blessing(folder: str, *, blessed: bool, reasons: Sequence[str], prefix: str = "") -> None:
    """Writes a verdict.

    Args:
        folder: existing folder without a verdict.
        blessed: the verdict.
        reasons: sentences, whatever the verdict.
        prefix: "", or `INFRA_PREFIX`.
    """
    with tf.io.gfile.GFile(os.path.join(folder, REASONS_FILE), "w") as file:
        file.write(json.dumps({"blessed": blessed, "reasons": list(reasons)}, indent=2) + "\n")
    with tf.io.gfile.GFile(os.path.join(folder, prefix + (BLESSED_FILE if blessed else NOT_BLESSED_FILE)), "w") as file:
        file.write("")


def is_blessed(folder: str, *, prefix: str = "") -> bool:
    """Reads a verdict.

    Args:
        folder: folder that holds `BLESSED` or `NOT_BLESSED`.
        prefix: "", or `INFRA_PREFIX`.

    Returns:
        Whether what was judged is blessed.

    Raises:
        FileNotFoundError: if the folder holds neither file.
        ValueError: if it holds both.
    """
    blessed, not_blessed = prefix + BLESSED_FILE, prefix + NOT_BLESSED_FILE
    found = [name for name in (blessed, not_blessed) if tf.io.gfile.exists(os.path.join(folder, name))]
    if not found:
        maker = "GraphSkewValidator" if prefix else "GraphEvaluator or GraphExampleValidator"
        raise FileNotFoundError(
            f"`folder` must hold {blessed} or {not_blessed}; got {folder!r} with neither. "
            f"Point at the blessing that {maker} made."
        )
    if len(found) == 2:
        raise ValueError(
            f"`folder` must hold one verdict; got both {blessed} and {not_blessed} in {folder!r}. "
            "Judge again into an empty folder."
        )
    return found == [blessed]


def read_reasons(folder: str) -> list[str]:
    """Reads the reasons of a verdict.

    Args:
        folder: folder with a verdict; one that another tool wrote may lack reasons.

    Returns:
        The sentences; a single general one if none were recorded.
    """
    path = os.path.join(folder, REASONS_FILE)
    reasons: list[str] = []
    if tf.io.gfile.exists(path):
        found = read_json(path)
        reasons = [str(reason) for reason in found.get("reasons", ())] if isinstance(found, dict) else []
    return reasons or ["no reasons were given"]
