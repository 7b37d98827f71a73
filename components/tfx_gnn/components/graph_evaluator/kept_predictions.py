"""The answers of an evaluation that are kept: with them, two runs are compared example by example.

Each task has a Parquet file of its own. A row has the hash of what the example is about, the label and the model's
answer, and neither ids nor features. Of more than `bootstrap_sample.MOST_ROWS` rows, those with the smallest hashes are
kept, which are the same ones in every run. This module does not import TensorFlow, so that runs are compared fast.
"""

from __future__ import annotations

import dataclasses
import json
import os
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tfx_gnn.components.graph_evaluator.bootstrap_sample import BootstrapSample
from tfx_gnn.components.graph_evaluator.weighted_metrics import weigh_classes, weigh_numbers, weigh_ranks
from tfx_gnn.io.file_contents import file_exists, read_bytes

if TYPE_CHECKING:
    from tfx_gnn.components.graph_evaluator.intervals import WeightedMetrics

BY_SEED, BY_GRAPH, BY_BYTES = "seed", "graph", "bytes"
"""What identifies examples: ids of their seeds, ids of their graphs, or all that is in them."""

CLASSIFICATION, REGRESSION, LINK_PREDICTION = "classification", "regression", "link_prediction"

_FORMAT_VERSION = 1
_ABOUT = b"tfx_gnn.predictions"
_HASHES = "example"
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    CLASSIFICATION: ("truth", "predicted"),
    REGRESSION: ("truth", "predicted"),
    LINK_PREDICTION: ("label", "score", "rank"),
}
_REMEDY = "Run GraphEvaluator again"


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeptPredictions:
    """The kept answers of one task.

    Attributes:
        kind: "classification", "regression" or "link_prediction".
        split: the split that was evaluated.
        identified_by: what the hashes are of, `BY_SEED`, `BY_GRAPH` or `BY_BYTES`.
        num_examples: examples that have a label, kept or not.
        setting: numbers of each example of a regression; ranks up to which a true pair of a link prediction counts.
        sample: the rows, whose hashes are of what their examples are about.
    """

    kind: str
    split: str
    identified_by: str
    num_examples: int
    setting: tuple[int, ...]
    sample: BootstrapSample

    def report(self) -> dict[str, Any]:
        """Returns the contents of `predictions` in `metrics.json`."""
        return {
            "num_kept": len(self.sample.hashes),
            "num_examples": self.num_examples,
            "identified_by": self.identified_by,
        }

    def weighted_metrics(self, sample: BootstrapSample) -> WeightedMetrics:
        """Returns a function from weights of rows to metrics, for rows of this task."""
        if self.kind == CLASSIFICATION:
            return weigh_classes(sample.model)
        if self.kind == REGRESSION:
            return weigh_numbers(sample.model, self.setting[0])
        return weigh_ranks(sample.model, sample.lengths, self.setting)


def predictions_file(task: str) -> str:
    """Names the file of a task in the folder of an evaluation; a single task is ""."""
    return f"predictions{f'.{urllib.parse.quote(task, safe=str())}' if task else ''}.parquet"


def write_predictions(kept: KeptPredictions) -> bytes:
    """Writes kept answers as the bytes of a Parquet file."""
    sample = kept.sample
    columns: dict[str, pa.Array] = {_HASHES: pa.array(sample.hashes, pa.uint64())}
    offsets = pa.array(np.concatenate([[0], np.cumsum(sample.lengths)]), pa.int64())
    for name, values in sample.model.items():
        is_text = values.dtype.kind in "OU"
        flat = pa.array(values.tolist(), pa.string()).dictionary_encode() if is_text else pa.array(values)
        columns[name] = flat if kept.kind == CLASSIFICATION else pa.LargeListArray.from_arrays(offsets, flat)
    about = {
        "format_version": _FORMAT_VERSION,
        "kind": kept.kind,
        "split": kept.split,
        "identified_by": kept.identified_by,
        "num_examples": kept.num_examples,
        "setting": list(kept.setting),
        # As text: it may be 2**64, which few readers of JSON hold exactly.
        "limit": str(sample.limit),
    }
    table = pa.table(columns).replace_schema_metadata({_ABOUT: json.dumps(about).encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def read_predictions(folder: str, task: str) -> KeptPredictions | None:
    """Reads the kept answers of a task.

    Args:
        folder: folder of an evaluation.
        task: name of the task; "" for a single one.

    Returns:
        The answers; None if the evaluation kept none.

    Raises:
        ValueError: if the file is damaged, or of another version.
    """
    path = os.path.join(folder, predictions_file(task))
    if not file_exists(path):
        return None
    try:
        # Not `read_table`, which imports pandas.
        table = pq.ParquetFile(pa.BufferReader(read_bytes(path))).read()
        about = json.loads((table.schema.metadata or {})[_ABOUT])
        if about["format_version"] == _FORMAT_VERSION:
            return _of_table(table, about)
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"`{path}` must hold the kept predictions of an evaluation; got a damaged file: "
            f"{' '.join(str(error).split())[:160]}. {_REMEDY}."
        ) from error
    raise ValueError(
        f"`{path}` must hold predictions of format version {_FORMAT_VERSION}; got version {about['format_version']!r}. "
        f"{_REMEDY}, or read it with the version of this library that wrote it."
    )


def _of_table(table: pa.Table, about: Mapping[str, Any]) -> KeptPredictions:
    # Through lists, because `to_numpy` imports pandas.
    hashes = np.array(table[_HASHES].to_pylist(), np.uint64)
    lengths = np.ones(len(hashes), np.int64)
    kind = about["kind"]
    missing = [name for name in _COLUMNS[kind] if name not in table.column_names]
    if missing:
        raise ValueError(f"it has no columns {missing}")
    model = {}
    for name in table.column_names:
        if name == _HASHES:
            continue
        column = table[name].combine_chunks()
        if kind != CLASSIFICATION:
            lengths = np.diff(np.array(column.offsets.to_pylist(), np.int64))
            column = column.flatten()
        is_text = kind == CLASSIFICATION and name in _COLUMNS[kind]
        if pa.types.is_floating(column.type) == is_text or column.null_count:
            raise ValueError(f"column {name!r} has values of another type")
        model[name] = np.array(column.to_pylist(), object if is_text else np.float64)
    sample = BootstrapSample(
        limit=int(about["limit"]), hashes=hashes, slices={}, lengths=lengths, model=model, blessed={}
    )
    if any(len(values) != lengths.sum() for values in model.values()):
        raise ValueError("its columns have values of different numbers")
    return KeptPredictions(
        kind=kind,
        split=str(about["split"]),
        identified_by=str(about["identified_by"]),
        num_examples=int(about["num_examples"]),
        setting=tuple(int(one) for one in about["setting"]),
        sample=sample,
    )
