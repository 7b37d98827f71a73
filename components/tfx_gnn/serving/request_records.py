"""Requests made of examples: labels are removed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tensorflow as tf

from tfx_gnn.graph.ops.readout_structure import READOUT
from tfx_gnn.serving.served_task import read_served_task


def label_keys(records: Sequence[bytes], saved_model_dir: str) -> list[str]:
    """Names the features of examples that requests to a model need not have.

    Args:
        records: serialized raw graph tf.Examples.
        saved_model_dir: folder that holds `saved_model.pb`.

    Returns:
        What the model tells; of a model that does not, all of `_readout` but what begins with `#`. Sorted.
    """
    served = read_served_task(saved_model_dir)
    if served is not None:
        return sorted(served.label_keys)
    keys = {key for record in records for key in tf.train.Example.FromString(record).features.feature}
    prefix = f"nodes/{READOUT}."
    return sorted(key for key in keys if key.startswith(prefix) and not key.startswith(f"{prefix}#"))


def without_labels(records: Sequence[bytes], saved_model_dir: str) -> list[bytes]:
    """Takes out of examples what requests to a model need not have.

    Args:
        records: serialized raw graph tf.Examples.
        saved_model_dir: folder that holds `saved_model.pb`.

    Returns:
        As many records, in the same order.
    """
    keys = label_keys(records, saved_model_dir)
    return [_without(record, keys) for record in records]


def _without(record: bytes, keys: Collection[str]) -> bytes:
    example = tf.train.Example.FromString(record)
    for key in keys:
        example.features.feature.pop(key, None)
    stripped: bytes = example.SerializeToString(deterministic=True)
    return stripped
