"""Anomalies as TensorFlow Metadata writes them, one file per split, and as text for people."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

import tfx_gnn
from tfx_gnn.components.graph_example_validator.checks import CHECKS, DRIFT, ERROR, OFF
from tfx_gnn.components.graph_example_validator.distribution_shifts import JENSEN_SHANNON, Shift
from tfx_gnn.records.examples_folder import split_dir
from tfx_gnn.records.findings import Finding

ANOMALIES_FILE = "SchemaDiff.pb"
"""File of a split, as TFX's ExampleValidator names it."""
READABLE_FILE = "anomalies.json"

_SEVERITY = {True: anomalies_pb2.AnomalyInfo.ERROR, False: anomalies_pb2.AnomalyInfo.WARNING}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Anomaly:
    """A check that did not pass.

    Attributes:
        check: its name.
        severity: "error" or "warning".
        split: split in which it did not pass.
        about: tf.Example key, set or pair of them; empty for the split as a whole.
        num_examples: how many examples, seeds, nodes, pairs or files.
        num_values: how many values in them; 0 if values are not counted.
        description: all of it in words.
        places: the first few places.
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
        """Whether examples with it are not to be trained on."""
        return self.severity == ERROR


def anomaly_of(finding: Finding, severities: Mapping[str, str], details: str = "") -> Anomaly | None:
    """Puts a finding in words; None if its check is off."""
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
    """Writes the anomalies of each split, also of those without any, and `anomalies.json` of all."""
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
    """The path of one step as TensorFlow Data Validation writes it: quoted if it could be taken for several."""
    return "'" + name.replace("'", "''") + "'" if "." in name or "'" in name else name


def to_anomalies_proto(
    anomalies: Sequence[Anomaly], shifts: Sequence[Shift], schema: schema_pb2.Schema
) -> anomalies_pb2.Anomalies:
    """Writes the anomalies of one split as TensorFlow Metadata has them, one entry for each key."""
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
