"""Statistics files as TFX's StatisticsGen writes them: `Split-<name>/FeatureStats.pb`."""

from __future__ import annotations

import os

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.records.examples_folder import split_dir

STATISTICS_FILE = "FeatureStats.pb"


def write_statistics(folder: str, dataset: statistics_pb2.DatasetFeatureStatistics, split: str) -> None:
    """Writes the statistics of a split into the folder of an ExampleStatistics artifact."""
    tf.io.gfile.makedirs(split_dir(folder, split))
    content = statistics_pb2.DatasetFeatureStatisticsList(datasets=[dataset])
    with tf.io.gfile.GFile(_path(folder, split), "wb") as file:
        file.write(content.SerializeToString(deterministic=True))


def read_statistics(folder: str, split: str) -> statistics_pb2.DatasetFeatureStatistics | None:
    """Reads the statistics of a split; None if the folder has none of it."""
    path = _path(folder, split)
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path, "rb") as file:
        content = file.read()
    try:
        found = statistics_pb2.DatasetFeatureStatisticsList.FromString(content)
    except DecodeError as error:
        raise ValueError(
            f"`folder` must hold serialized DatasetFeatureStatisticsList messages; got {len(content)} other bytes in "
            f"{path!r}. Point at statistics that StatisticsGen or GraphExampleValidator made."
        ) from error
    if len(found.datasets) != 1:
        raise ValueError(
            f"`folder` must hold statistics of one data set a split; got {len(found.datasets)} in {path!r}. "
            "Point at statistics without slices."
        )
    return found.datasets[0]


def _path(folder: str, split: str) -> str:
    return os.path.join(split_dir(folder, split), STATISTICS_FILE)
