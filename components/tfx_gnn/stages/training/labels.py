"""A first look at the labels of a split, before anything is built."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfx_gnn.models.tasks import READOUT_NODE_SET
from tfx_gnn.stages.files.record_files import RecordFile, place_of

_READ_BATCH = 1024
_NO_LABEL = -(2**63)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitLabels:
    """Labels of a split.

    Attributes:
        num_examples: examples of the split.
        num_unknown: examples whose label is outside of [0, num_classes): their class is
            not in the vocabulary.
        class_counts: examples of each class.
    """

    num_examples: int
    num_unknown: int
    class_counts: tuple[int, ...]


def count_labels(files: Sequence[RecordFile], *, label_feature: str, num_classes: int) -> SplitLabels:
    """Counts the labels of transformed examples, reading nothing else of them.

    Args:
        files: files of the split.
        label_feature: label feature of node set `_readout`, int64.
        num_classes: number of classes.

    Returns:
        The counts.

    Raises:
        ValueError: if an example has not exactly one `_readout` node with one label, a
            file is damaged, or there is no example.
    """
    size_key = f"nodes/{READOUT_NODE_SET}.#size"
    label_key = f"nodes/{READOUT_NODE_SET}.{label_feature}"
    spec = {
        size_key: tf.io.FixedLenFeature([], tf.int64, default_value=0),
        label_key: tf.io.FixedLenFeature([], tf.int64, default_value=_NO_LABEL),
    }
    counts = np.zeros([num_classes], np.int64)
    num_examples = 0
    for file in files:
        position = 0
        parsed = (
            tf.data.TFRecordDataset(file.path, compression_type="GZIP")
            .batch(_READ_BATCH)
            .map(lambda records: tf.io.parse_example(records, spec))
        )
        try:
            for batch in parsed.as_numpy_iterator():
                labels = batch[label_key]
                wrong = np.flatnonzero((batch[size_key] != 1) | (labels == _NO_LABEL))
                if wrong.size:
                    record = int(wrong[0])
                    raise ValueError(
                        f"`transformed_examples_dir` must give every example one {READOUT_NODE_SET!r} node with a "
                        f"label {label_feature!r}; got {int(batch[size_key][record])} nodes and "
                        f"{'no label' if labels[record] == _NO_LABEL else 'a label'} in "
                        f"{place_of(file, position + record)}. Leave examples without label out of the splits that "
                        "are trained on."
                    )
                known = labels[(labels >= 0) & (labels < num_classes)]
                counts += np.bincount(known, minlength=num_classes)
                position += len(labels)
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
            raise ValueError(
                "`transformed_examples_dir` must hold gzipped TFRecords of tf.Examples with one integer label each; "
                f"got others in {place_of(file)}. Make them by GraphTransform. Cause: {error.message}"
            ) from error
        num_examples += position
    if not num_examples:
        raise ValueError(
            f"`transformed_examples_dir` must hold examples to train on; got none in split {files[0].split!r}. "
            "Choose another split or make the examples again."
        )
    return SplitLabels(
        num_examples=num_examples,
        num_unknown=num_examples - int(counts.sum()),
        class_counts=tuple(int(count) for count in counts),
    )
