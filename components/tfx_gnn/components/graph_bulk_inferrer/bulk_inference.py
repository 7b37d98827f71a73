"""What was inferred in bulk: the counts that are written beside the tables."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping

import tensorflow as tf

INFERENCE_FILE = "inference.json"
"""File beside the splits with the `BulkInference` as JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BulkInference:
    """What was inferred.

    Attributes:
        blessed: whether the model was asked: False if its blessing is withheld, and then nothing else is there.
        reasons: why its blessing is withheld.
        num_examples: by split, examples read.
        num_refused: by split, examples that the model refused, which are in `dead_letters`.
        num_without_pairs: by split, examples of links without a candidate pair, and so without a row.
        num_rows: by split, rows written: one for each example, or for each of its candidate pairs.
        num_nonfinite: floating point values in these that are NaN or infinite.
        columns: by name of each column, its Arrow type as text.
        bigquery_tables: by split, the table of BigQuery that has its rows; empty if they were not loaded.
        model_fingerprint: text that is the same for equal models, as in blessings.
    """

    blessed: bool = True
    reasons: tuple[str, ...] = ()
    num_examples: Mapping[str, int] = dataclasses.field(default_factory=dict)
    num_refused: Mapping[str, int] = dataclasses.field(default_factory=dict)
    num_without_pairs: Mapping[str, int] = dataclasses.field(default_factory=dict)
    num_rows: Mapping[str, int] = dataclasses.field(default_factory=dict)
    num_nonfinite: int = 0
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    bigquery_tables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    model_fingerprint: str


def write_bulk_inference(found: BulkInference, folder: str) -> None:
    """Writes `inference.json` into a folder."""
    with tf.io.gfile.GFile(os.path.join(folder, INFERENCE_FILE), "w") as file:
        file.write(json.dumps(dataclasses.asdict(found), indent=2) + "\n")
