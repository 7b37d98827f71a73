"""The checks of GraphExampleValidator, and the anomalies that they report, in TensorFlow Metadata's format."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

import tfx_gnn
from tfx_gnn.components.graph_example_validator import label_copies, split_leaks
from tfx_gnn.components.graph_example_validator.check_names import (
    ERROR,
    NO_EXAMPLES,
    OFF,
    SEED_IN_TWO_SPLITS,
    WARNING,
)
from tfx_gnn.components.graph_example_validator.distribution_shifts import DRIFT, JENSEN_SHANNON, SKEW, Shift
from tfx_gnn.records import batch_check
from tfx_gnn.records.examples_folder import split_dir
from tfx_gnn.records.findings import Finding

DAMAGED_FILE = "damaged_file"
EMPTY_SET = "empty_set"
MISSING_ROOT = "missing_root"
NO_BASELINE = "no_baseline"
STRUCTURE_DRIFT = "structure_drift"

ANOMALIES_FILE = "SchemaDiff.pb"
"""File name of a split's anomalies, the same as in TFX's ExampleValidator."""
READABLE_FILE = "anomalies.json"

_SEVERITY = {True: anomalies_pb2.AnomalyInfo.ERROR, False: anomalies_pb2.AnomalyInfo.WARNING}
_Type = anomalies_pb2.AnomalyInfo
_REVEALED = (
    "Exclude the feature from the examples by `excluded_features` of the plan, or name it in `accepted_features` if it "
    "is known for new seeds before their label is."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """One check.

    Attributes:
        summary: what is wrong if the check fails, in a few words.
        advice: what to do if it fails.
        counts: the unit in which its findings are counted.
        severity: the severity, unless the options override it.
        anomaly_type: the closest `AnomalyInfo.Type` of TensorFlow Metadata.
    """

    summary: str
    advice: str
    counts: str = "examples"
    severity: str = ERROR
    anomaly_type: int = _Type.CUSTOM_VALIDATION


CHECKS = {
    NO_EXAMPLES: Check(
        summary="The split has no examples that can be read",
        advice="Make the examples again, or choose other splits.",
        anomaly_type=_Type.DATASET_LOW_NUM_EXAMPLES,
    ),
    DAMAGED_FILE: Check(
        summary="A file cannot be read to its end",
        advice="Make the examples again.",
        counts="files",
        anomaly_type=_Type.UNEXPECTED_DATA_TYPE,
    ),
    batch_check.NOT_AN_EXAMPLE: Check(
        summary="Records are not tf.Examples",
        advice="Write serialized tf.Examples.",
        counts="records",
        anomaly_type=_Type.UNEXPECTED_DATA_TYPE,
    ),
    batch_check.UNDECLARED_FEATURE: Check(
        summary="Feature is not in the graph schema",
        advice="Declare it, or leave it out of the examples.",
        anomaly_type=_Type.SCHEMA_NEW_COLUMN,
    ),
    batch_check.WRONG_KIND: Check(
        summary="Values are of another kind than declared",
        advice="Write the values in the declared dtype.",
        anomaly_type=_Type.UNEXPECTED_DATA_TYPE,
    ),
    batch_check.WRONG_SIZE: Check(
        summary="The size of a set is not one number, at least 0",
        advice="Write one graph component to an example, and the number of its items.",
        anomaly_type=_Type.INVALID_FEATURE_SHAPE,
    ),
    batch_check.WRONG_NUMBER_OF_VALUES: Check(
        summary="The number of values does not match the number of items",
        advice="Write all values, or correct the shape in the schema.",
        anomaly_type=_Type.INVALID_FEATURE_SHAPE,
    ),
    batch_check.WRONG_ROW_LENGTHS: Check(
        summary="Row lengths do not fit the rows of the ragged dimension",
        advice="Write one length, at least 0, for each row.",
        anomaly_type=_Type.INVALID_FEATURE_SHAPE,
    ),
    batch_check.MISSING_FEATURE: Check(
        summary="A declared feature is absent where its set has items",
        advice="Write the declared feature.",
        anomaly_type=_Type.FEATURE_TYPE_LOW_FRACTION_PRESENT,
    ),
    batch_check.DANGLING_EDGE: Check(
        summary="Edges point to nodes that are not there",
        advice="Write only edges with both ends in the example.",
    ),
    batch_check.DANGLING_INDEX: Check(
        summary="Index features refer to nodes that are not there",
        advice="Write indices of nodes in the example, or -1 for none.",
    ),
    batch_check.MISSING_SET: Check(
        summary="A required set has no items",
        advice="Write its items, or do not require the set.",
        anomaly_type=_Type.FEATURE_TYPE_LOW_NUMBER_VALUES,
    ),
    batch_check.NOT_FINITE: Check(
        summary="Values are NaN or infinite",
        advice="Clean the tables: one such value makes the loss NaN.",
        anomaly_type=_Type.FLOAT_TYPE_HAS_NAN,
    ),
    batch_check.OUT_OF_DTYPE: Check(
        summary="Values do not fit the declared dtype",
        advice="Declare a wider dtype, or correct the values.",
        anomaly_type=_Type.INT_TYPE_BIG_INT,
    ),
    EMPTY_SET: Check(
        summary="A declared set has no items in any example",
        advice="Check whether the tables or the sampling plan lost it.",
        counts="examples",
        severity=WARNING,
        anomaly_type=_Type.FEATURE_TYPE_NO_VALUES,
    ),
    MISSING_ROOT: Check(
        summary="Readout nodes do not show which nodes they read from",
        advice="Write an edge of each `_readout/<root>` edge set to every `_readout` node.",
    ),
    SEED_IN_TWO_SPLITS: Check(
        summary="The same seed is in two splits",
        advice="Split by a key of the seed.",
        counts="seeds",
    ),
    split_leaks.UNSEEN_NODE_SHOWN: Check(
        summary="Nodes that must be unseen occur in an earlier split",
        advice="Sample with visibility='inductive', or set `inductive` to False.",
        counts="nodes",
    ),
    split_leaks.SUPERVISION_EDGE_SHOWN: Check(
        summary="Pairs to be predicted are edges of an earlier split's examples",
        advice="Hide supervision edges and their reverses from earlier splits.",
        counts="pairs",
    ),
    split_leaks.SUPERVISION_EDGE_IN_EXAMPLE: Check(
        summary="Pairs to be predicted are edges of their own example",
        advice="Leave the seed's edge and its reverse out of message passing.",
    ),
    split_leaks.SEED_NEWER: Check(
        summary="Seeds are newer than those of a later split",
        advice="Split by time, or leave `seed_time_feature` empty.",
        counts="seeds",
    ),
    split_leaks.EDGE_NEWER: Check(
        summary="Edges are newer than the seed of their example, or not older where they must be",
        advice="Sample with `temporal`.",
    ),
    label_copies.LABEL_COPIED: Check(
        summary="A feature of the seed is a copy of its label",
        advice=_REVEALED,
        counts="seeds",
    ),
    label_copies.LABEL_DETERMINED: Check(
        summary="A feature of the seed determines its label without exception",
        advice=_REVEALED,
        counts="seeds",
    ),
    DRIFT: Check(
        summary="The distribution differs from that of the earlier data",
        advice="Look at both statistics; raise the threshold if the change is intended.",
        counts="",
        severity=WARNING,
        anomaly_type=_Type.COMPARATOR_L_INFTY_HIGH,
    ),
    STRUCTURE_DRIFT: Check(
        summary="The graph differs in size or density from that of the earlier data",
        advice="Look for missing or repeated files; raise the threshold if the change is intended.",
        counts="",
        severity=WARNING,
    ),
    SKEW: Check(
        summary="The distribution differs from that of the first split",
        advice="Look at both statistics; raise the threshold if the difference is intended.",
        counts="",
        severity=WARNING,
        anomaly_type=_Type.COMPARATOR_L_INFTY_HIGH,
    ),
    NO_BASELINE: Check(
        summary="The earlier data have no statistics of the split",
        advice="Give statistics with the same splits.",
        counts="",
        severity=WARNING,
        anomaly_type=_Type.COMPARATOR_CONTROL_DATA_MISSING,
    ),
}
"""All checks by name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Anomaly:
    """A check that failed.

    Attributes:
        check: name of the check.
        severity: "error" or "warning".
        split: split in which it failed.
        about: tf.Example key, set or pair of these that it concerns; empty for the split as a whole.
        num_examples: number of examples, seeds, nodes, pairs or files that failed.
        num_values: number of values in them that failed; 0 if values are not counted.
        description: a full description in words.
        places: the first few places where it failed.
    """

    check: str
    severity: str
    split: str
    about: str
    num_examples: int
    num_values: int
    description: str
    places: tuple[str, ...]

    @property
    def is_error(self) -> bool:
        """Whether the anomaly makes the examples unfit for training."""
        return self.severity == ERROR


def make_anomaly(finding: Finding, severities: Mapping[str, str], details: str = "") -> Anomaly | None:
    """Describes a finding in words; None if its check is off."""
    check = CHECKS[finding.check]
    severity = severities.get(finding.check, check.severity)
    if severity == OFF:
        return None
    parts = []
    if check.counts and finding.num_examples:
        values = f", {finding.num_values} values" if finding.num_values else ""
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(finding.num_by_kind.items()))
        parts.append(f"{finding.num_examples} {check.counts}{values}{f' ({kinds})' if kinds else ''}")
    parts += [details] if details else []
    parts += [place.text() for place in finding.places[:1]]
    words = f"{check.summary}: {'; '.join(parts)}" if parts else check.summary
    return Anomaly(
        check=finding.check,
        severity=severity,
        split=finding.split,
        about=finding.about,
        num_examples=finding.num_examples,
        num_values=finding.num_values,
        description=f"{words}. {check.advice}",
        places=tuple(place.text() for place in finding.places),
    )


def write_anomalies(
    folder: str, anomalies: Sequence[Anomaly], shifts: Sequence[Shift], splits: Sequence[str], schema: schema_pb2.Schema
) -> None:
    """Writes the anomalies of every split, even if it has none, and `anomalies.json` for all splits."""
    for split in splits:
        of_split = [anomaly for anomaly in anomalies if anomaly.split == split]
        message = to_anomalies_proto(of_split, [shift for shift in shifts if shift.split == split], schema)
        tf.io.gfile.makedirs(split_dir(folder, split))
        with tf.io.gfile.GFile(os.path.join(split_dir(folder, split), ANOMALIES_FILE), "wb") as file:
            file.write(message.SerializeToString(deterministic=True))
    content = {
        "format_version": 1,
        "tfx_gnn_version": tfx_gnn.__version__,
        "anomalies": [dataclasses.asdict(anomaly) for anomaly in anomalies],
    }
    with tf.io.gfile.GFile(os.path.join(folder, READABLE_FILE), "w") as file:
        file.write(json.dumps(content, indent=2) + "\n")


def _as_path(name: str) -> str:
    """Writes one path step as TensorFlow Data Validation does: quoted if it could be mistaken for several steps."""
    return "'" + name.replace("'", "''") + "'" if "." in name or "'" in name else name


def to_anomalies_proto(
    anomalies: Sequence[Anomaly], shifts: Sequence[Shift], schema: schema_pb2.Schema
) -> anomalies_pb2.Anomalies:
    """Converts the anomalies of one split to TensorFlow Metadata's message, with one entry per key."""
    message = anomalies_pb2.Anomalies(
        baseline=schema, anomaly_name_format=anomalies_pb2.Anomalies.SERIALIZED_PATH, data_missing=False
    )
    types = {(shift.check, shift.key): shift.measure for shift in shifts}
    for anomaly in anomalies:
        info = message.anomaly_info[_as_path(anomaly.about)] if anomaly.about else message.dataset_anomaly_info
        kind: Any = CHECKS[anomaly.check].anomaly_type
        if types.get((anomaly.check, anomaly.about)) == JENSEN_SHANNON:
            kind = anomalies_pb2.AnomalyInfo.COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH
        summary = CHECKS[anomaly.check].summary
        info.reason.add(type=kind, short_description=summary, description=anomaly.description)
        info.severity = max(info.severity, _SEVERITY[anomaly.is_error])
        info.short_description = "Multiple errors" if len(info.reason) > 1 else summary
        info.description = " ".join(reason.description for reason in info.reason)
        if anomaly.about and not info.path.step:
            info.path.step.append(anomaly.about)
    for key in sorted({shift.key for shift in shifts}):
        info_of_key = message.drift_skew_info.add()
        info_of_key.path.step.append(key)
        for shift in shifts:
            if shift.key == key:
                to = info_of_key.drift_measurements if shift.check == DRIFT else info_of_key.skew_measurements
                to.add(type=shift.measure, value=shift.value, threshold=shift.threshold)
    return message
