"""The checks of GraphExampleValidator: the severity of each, and what to do when it fails."""

from __future__ import annotations

import dataclasses

from tensorflow_metadata.proto.v0 import anomalies_pb2

from tfx_gnn.components.graph_example_validator import label_copies, seed_times, split_leaks
from tfx_gnn.records import batch_check

ERROR, WARNING, OFF = "error", "warning", "off"
SEVERITIES = (ERROR, WARNING, OFF)

NO_EXAMPLES = "no_examples"
DAMAGED_FILE = "damaged_file"
EMPTY_SET = "empty_set"
MISSING_ROOT = "missing_root"
NO_BASELINE = "no_baseline"
DRIFT = "drift"
SKEW = "skew"

_Type = anomalies_pb2.AnomalyInfo


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """One check.

    Attributes:
        summary: what is wrong when it does not pass, in a few words.
        advice: what to do then.
        counts: what its findings count.
        severity: how bad it is, unless options say otherwise.
        anomaly_type: `AnomalyInfo.Type` of TensorFlow Metadata that comes closest.
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
        summary="Records are no tf.Examples",
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
        summary="The number of values is not that of the items",
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
        advice="Look whether the tables or the sampling plan lost it.",
        counts="examples",
        severity=WARNING,
        anomaly_type=_Type.FEATURE_TYPE_NO_VALUES,
    ),
    MISSING_ROOT: Check(
        summary="Readout nodes do not tell what they read from",
        advice="Write an edge of each `_readout/<root>` edge set to every `_readout` node.",
    ),
    split_leaks.SEED_IN_TWO_SPLITS: Check(
        summary="The same seed is in two splits",
        advice="Split by a key of the seed.",
        counts="seeds",
    ),
    split_leaks.UNSEEN_NODE_SHOWN: Check(
        summary="Nodes that were promised to be unseen occur in an earlier split",
        advice="Sample with visibility='inductive', or do not promise unseen nodes.",
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
    seed_times.SEED_NEWER: Check(
        summary="Seeds are newer than those of a later split",
        advice="Split by time, or do not promise it.",
        counts="seeds",
    ),
    seed_times.EDGE_NEWER: Check(
        summary="Edges are newer than the seed of their example, or not older where they must be",
        advice="Sample with `temporal`.",
    ),
    label_copies.LABEL_COPIED: Check(
        summary="A feature of the seed is a copy of its label",
        advice="Exclude the feature from the examples.",
        counts="seeds",
    ),
    label_copies.LABEL_DETERMINED: Check(
        summary="A feature of the seed determines its label without exception",
        advice="Exclude the feature, unless it is known of new seeds before their label is.",
        counts="seeds",
        severity=WARNING,
    ),
    DRIFT: Check(
        summary="The distribution differs from that of the earlier data",
        advice="Look at both statistics; raise the threshold if the change is meant.",
        counts="",
        severity=WARNING,
        anomaly_type=_Type.COMPARATOR_L_INFTY_HIGH,
    ),
    SKEW: Check(
        summary="The distribution differs from that of the first split",
        advice="Look at both statistics; raise the threshold if the difference is meant.",
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
