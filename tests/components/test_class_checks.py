"""The check that training has every class."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tfx_gnn.models import MultiTask, NodeClassification, NodeRegression
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn_pipelines.checks.class_checks import untrained_classes

KIND, SIZE = NodeClassification(label_feature="kind"), NodeRegression(label_feature="size")
LABELS = {
    "kind": pa.array([b"a", b"b", b"a", b"b", b"rare", None, b"rare", b"odd"], pa.large_binary()),
    "size": pa.array(range(8)),
}


def seeds_of(**rows):
    return {
        split: Seeds(
            keys=np.asarray(of_split, np.uint64),
            rows=np.asarray(of_split),
            readout_splits=np.arange(len(of_split) + 1),
            readout_nodes={"seed": np.asarray(of_split)},
        )
        for split, of_split in rows.items()
    }


def test_classes_outside_training_alone_are_named_with_their_rows():
    (message,) = untrained_classes(
        MultiTask(tasks={"kind": KIND, "size": SIZE}),
        LABELS,
        seeds_of(train=[0, 1], val=[2, 4, 5], test=[3, 6, 7]),
        train_split="train",
    )

    assert message.startswith(
        "`train` must have rows of every class; got 'rare', 'odd' of 'kind' in 1 rows of 'val' and 2 rows of 'test' "
        "alone."
    )


@pytest.mark.parametrize(
    ("task", "splits"),
    [(SIZE, {"train": [0, 1], "test": [6]}), (KIND, {"train": [0, 1, 4], "test": [2, 5, 6]}), (KIND, {"test": [2]})],
)
def test_nothing_is_said_of_numbers_and_of_classes_that_are_trained(task, splits):
    assert not list(untrained_classes(task, LABELS, seeds_of(**splits), train_split="train"))
