"""The results of a comparison of training and serving, as `skew.json`."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from typing import Any

import tensorflow as tf

import tfx_gnn
from tfx_gnn.components.graph_skew_validator.comparison import FeatureSkew
from tfx_gnn.components.graph_skew_validator.served_by_id import ServedByIdSkew
from tfx_gnn.io import options_json
from tfx_gnn.serving.request_records import DomainAnswer

SKEW_FILE = "skew.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SkewReport:
    """The differences between training and serving for the same examples.

    Attributes:
        blessed: whether nothing differs by more than is allowed.
        reasons: sentences that explain the verdict, whatever it is.
        options: what was compared, and what is allowed.
        num_examples: examples that were read, by split.
        num_compared: examples among these that could be compared value by value.
        batch_size: examples per batch.
        num_unanswered: examples that one of the two sides refuses.
        num_of_another_seed: pairs of examples with different seeds.
        num_of_another_size: pairs of examples with different numbers of nodes or edges.
        first_problems: the first occurrence of each of these three problems, in words.
        ids_compared: whether the transformed examples have original ids to compare.
        only_in_training: keys that serving lacks.
        only_served: keys that training lacks.
        features: every feature, and every part of the structure, by key.
        largest_difference: the largest difference of all features.
        rounding: floating point features computed from the blocks that GraphTransform transforms at once against those
            computed from batches. Differences are divided by the value if that is above 1.
        outputs: training's outputs against served outputs, in equal batches, by name. Differences of
            floats are divided by the example's largest value if that is above 1.
        one_by_one: outputs served in batches against outputs of the same examples served one by one,
            for some of the examples.
        num_other_labels: examples whose most probable class differs between training and serving. For all other
            examples, class names are compared as one of the outputs.
        num_other_labels_one_by_one: the same between batches and single requests.
        out_of_domain: responses to requests with values that no table had, by feature and value.
        served_by_id: the same examples against what a server samples and answers for the ids of their seeds; None if
            no server was asked.
        tfx_gnn_version: version of this library.
        format_version: version of this format.
    """

    blessed: bool
    reasons: tuple[str, ...]
    options: dict[str, Any]
    num_examples: dict[str, int]
    num_compared: int
    batch_size: int
    num_unanswered: int
    num_of_another_seed: int
    num_of_another_size: int
    first_problems: tuple[str, ...]
    ids_compared: bool
    only_in_training: tuple[str, ...]
    only_served: tuple[str, ...]
    features: tuple[FeatureSkew, ...]
    largest_difference: float
    rounding: FeatureSkew
    outputs: tuple[FeatureSkew, ...]
    one_by_one: tuple[FeatureSkew, ...]
    num_other_labels: int
    num_other_labels_one_by_one: int
    out_of_domain: tuple[DomainAnswer, ...] = ()
    served_by_id: ServedByIdSkew | None = None
    tfx_gnn_version: str = tfx_gnn.__version__
    format_version: int = 2


def write_skew_report(report: SkewReport, folder: str) -> None:
    """Writes a report to a folder."""
    with tf.io.gfile.GFile(os.path.join(folder, SKEW_FILE), "w") as file:
        file.write(json.dumps(_finite(dataclasses.asdict(report)), indent=2, allow_nan=False) + "\n")


def read_skew_report(folder: str) -> SkewReport:
    """Reads a report from a folder."""
    path = os.path.join(folder, SKEW_FILE)
    if not tf.io.gfile.exists(path):
        raise FileNotFoundError(f"`folder` must hold {SKEW_FILE}; got {folder!r}. Point at an output of `skew`.")
    with tf.io.gfile.GFile(path, "r") as file:
        return options_json.from_json(file.read(), SkewReport)


def _finite(value: Any) -> Any:
    """Replaces infinity, which JSON lacks, with a string that `float` can read."""
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
