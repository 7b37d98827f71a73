"""Requests made from examples: without labels, or with values outside the training domain.

Values outside the domain are negative, zero, huge, NaN and infinite.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.graph_constants import EDGES, NODES
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.serving.model_interface import NUM_CANDIDATES_OUTPUT, SCORES_OUTPUT, read_served_task

FINITE, NONFINITE, REFUSED, WRONG_SHAPE = "finite", "not finite", "refused", "wrong shape"
FAILED = "failed"
"""Kinds of responses; `FAILED` is an error other than a refused request, such as out of memory."""

_VALUES: dict[str, tuple[float, ...]] = {
    "float_list": (-1.0, 0.0, 1e30, math.nan, math.inf, -math.inf),
    "int64_list": (-1, 0, 2**40),
}
_ROW_LENGTHS = re.compile(r"(.*)\.d[0-9]+")


def label_keys(records: Sequence[bytes], saved_model_dir: str) -> list[str]:
    """Lists the features of examples that requests to a model may omit.

    Args:
        records: serialized raw graph tf.Examples.
        saved_model_dir: folder that holds `saved_model.pb`.

    Returns:
        The features that the model declares, sorted; if it declares none, all features of `_readout` whose names do
        not begin with `#`.
    """
    served = read_served_task(saved_model_dir)
    if served is not None:
        return sorted(served.label_keys)
    keys = {key for record in records for key in tf.train.Example.FromString(record).features.feature}
    prefix = f"nodes/{READOUT_NODE_SET}."
    return sorted(key for key in keys if key.startswith(prefix) and not key.startswith(f"{prefix}#"))


def without_labels(records: Sequence[bytes], saved_model_dir: str) -> list[bytes]:
    """Removes from examples the features that requests to a model may omit.

    Args:
        records: serialized raw graph tf.Examples.
        saved_model_dir: folder that holds `saved_model.pb`.

    Returns:
        The same number of records, in the same order.
    """
    keys = label_keys(records, saved_model_dir)
    return [_without(record, keys) for record in records]


def _without(record: bytes, keys: Collection[str]) -> bytes:
    example = tf.train.Example.FromString(record)
    for key in keys:
        example.features.feature.pop(key, None)
    stripped: bytes = example.SerializeToString(deterministic=True)
    return stripped


@dataclasses.dataclass(frozen=True, kw_only=True)
class DomainRequest:
    """A request in which all values of one feature are the same.

    Attributes:
        feature: tf.Example key.
        value: the value as text, such as "-1.0" or "nan".
        record: serialized tf.Example.
    """

    feature: str
    value: str
    record: bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class DomainAnswer:
    """Kind of response to a `DomainRequest`.

    Attributes:
        feature: tf.Example key.
        value: the value that all items had, as text.
        answer: `FINITE`, `NONFINITE`, `REFUSED`, `FAILED` or `WRONG_SHAPE`.
    """

    feature: str
    value: str
    answer: str

    @property
    def is_doubtful(self) -> bool:
        """Whether a finite value got a non-finite response, or failed."""
        return self.answer in (NONFINITE, FAILED) and math.isfinite(float(self.value))

    def text(self) -> str:
        """Feature and value."""
        return f"{self.feature} = {self.value}"


def out_of_domain_requests(records: Sequence[bytes], labels: Collection[str] = ()) -> list[DomainRequest]:
    """Makes requests from real examples, one for each numeric feature and each value, ordered by feature.

    For each feature, it uses the first example that has values of it. Sizes, ends of edges, row lengths, original ids,
    labels and auxiliary sets are unchanged.
    """
    sources: dict[str, tuple[tf.train.Example, str]] = {}
    for record in records:
        example = tf.train.Example.FromString(record)
        for key, kind in _numeric_features(example, labels):
            sources.setdefault(key, (example, kind))
    requests = []
    for key, (example, kind) in sorted(sources.items()):
        for value in _VALUES[kind]:
            changed = tf.train.Example()
            changed.CopyFrom(example)
            numbers = getattr(changed.features.feature[key], kind).value
            numbers[:] = [value] * len(numbers)
            requests.append(
                DomainRequest(feature=key, value=str(value), record=changed.SerializeToString(deterministic=True))
            )
    return requests


def answer_kind(outputs: Mapping[str, Any]) -> str:
    """Classifies a model's response to one example: `FINITE`, `NONFINITE` or `WRONG_SHAPE`.

    Minus infinity after the last candidate of a row is not a score.
    """
    for key, value in outputs.items():
        array = np.asarray(value)
        if array.shape[:1] != (1,):
            return WRONG_SHAPE
        if array.dtype.kind == "f":
            counts = (
                outputs.get(key[: -len(SCORES_OUTPUT)] + NUM_CANDIDATES_OUTPUT) if key.endswith(SCORES_OUTPUT) else None
            )
            scores = array if counts is None else array[:, : int(np.asarray(counts)[0])]
            if not np.isfinite(scores).all():
                return NONFINITE
    return FINITE


def _numeric_features(example: tf.train.Example, labels: Collection[str]) -> Iterator[tuple[str, str]]:
    features = example.features.feature
    for key, feature in features.items():
        kind = feature.WhichOneof("kind")
        set_name, _, name = key.rpartition("/" if key.startswith("context/") else ".")
        lengths = _ROW_LENGTHS.fullmatch(key)
        is_structure = name.startswith("#") or (lengths is not None and lengths[1] in features)
        is_auxiliary = set_name.startswith((f"{NODES}/_", f"{EDGES}/_"))
        if is_structure or is_auxiliary or key in labels or kind not in _VALUES:
            continue
        if len(getattr(feature, kind).value):
            yield key, kind
