"""Event files for TensorBoard: what its HParams tab reads, and files that go on where a training resumes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfx_gnn.io.protobuf_wire import Message, encode_message

_EVENT_FILES = "events.out.tfevents."
_PLUGIN = "hparams"
_HISTOGRAMS, _TENSOR_CLASS, _NUM_BINS = "histograms", 2, 30
_EXPERIMENT, _SESSION_START, _SESSION_END = 2, 3, 4
_SUCCESS, _FAILURE = 1, 2


def write_scalars(scalars: Mapping[str, float], step: int) -> None:
    """Writes scalars by tag with the default writer."""
    for tag, value in scalars.items():
        tf.summary.scalar(tag, value, step=step)


def write_histograms(values: Mapping[str, NDArray[np.floating[Any]]], step: int) -> None:
    """Writes a histogram of each array's finite values by tag with the default writer.

    NumPy counts, and one event holds them all: `tf.summary.histogram` runs dozens of TensorFlow operations for each
    tag, which took a tenth of the time of a small training.

    Args:
        values: arrays of any shape, by tag.
        step: step of the event.
    """
    summary = tf.compat.v1.Summary()
    for tag, array in values.items():
        counts, edges = np.histogram(array[np.isfinite(array)].astype(np.float64), bins=_NUM_BINS)
        bins = np.stack([edges[:-1], edges[1:], counts.astype(np.float64)], axis=1)
        value = summary.value.add(tag=tag, tensor=tf.make_tensor_proto(bins, tf.float64))
        value.metadata.plugin_data.plugin_name = _HISTOGRAMS
        value.metadata.data_class = _TENSOR_CLASS
    tf.summary.experimental.write_raw_pb(summary.SerializeToString(), step=step)


def write_session_start(hyperparameters: Mapping[str, Any], *, group: str = "") -> None:
    """Writes, with the default writer, what the HParams tab shows of this run.

    Args:
        hyperparameters: JSON values by name; lists, objects and None are shown as JSON texts.
        group: runs of one group are one row; by default each run is a row of its own.
    """
    start: Message = {
        1: [{1: name, 2: _value(value)} for name, value in sorted(hyperparameters.items())],
        4: group,
        5: time.time(),
    }
    _write_plugin_data("session_start_info", {_SESSION_START: start}, step=0)


def write_session_end(*, step: int, succeeded: bool = True) -> None:
    """Writes, with the default writer, that the run has ended."""
    end: Message = {1: _SUCCESS if succeeded else _FAILURE, 2: time.time()}
    _write_plugin_data("session_end_info", {_SESSION_END: end}, step=step)


def write_experiment(hyperparameters: Mapping[str, Message], metrics: Sequence[tuple[str, str, str]]) -> None:
    """Writes, with the default writer, what all runs below the writer's folder have in common.

    Args:
        hyperparameters: fields of `tensorboard.hparams.HParamInfo` without the name, by name.
        metrics: the run below a trial's folder, "" for the trial itself, the tag, and the name to show.
    """
    experiment: Message = {
        3: time.time(),
        4: [{1: name, **info} for name, info in hyperparameters.items()],
        5: [{1: {1: group, 2: tag}, 3: shown} for group, tag, shown in metrics],
    }
    _write_plugin_data("experiment", {_EXPERIMENT: experiment}, step=0)


def domain_of_values(values: Sequence[Any]) -> Message:
    """Returns fields of `tensorboard.hparams.HParamInfo` for a choice among JSON values."""
    return {5: {1: [_value(value) for value in values]}}


def domain_of_range(low: float, high: float) -> Message:
    """Returns fields of `tensorboard.hparams.HParamInfo` for numbers between two bounds."""
    return {4: 3, 6: {1: float(low), 2: float(high)}}


def remove_events_from(logs_dir: str, step: int) -> None:
    """Removes events from a step on, so that a resumed training does not write them twice.

    A record that was cut off when the process was killed goes, too. Each file is replaced atomically.

    Args:
        logs_dir: folder of runs; it may be missing.
        step: first step to remove, at least 1.
    """
    for folder, _, names in tf.io.gfile.walk(logs_dir):
        for name in names:
            if name.startswith(_EVENT_FILES):
                _keep_events_before(os.path.join(folder, name), step)


def _keep_events_before(path: str, step: int) -> None:
    # Hidden, because TensorBoard reads every file whose name contains "tfevents".
    partial = os.path.join(os.path.dirname(path), ".partial-events")
    with tf.io.TFRecordWriter(partial) as writer:
        for record in _readable_records(path):
            if tf.compat.v1.Event.FromString(record).step < step:
                writer.write(record)
    tf.io.gfile.rename(partial, path, overwrite=True)


def _readable_records(path: str) -> Iterator[bytes]:
    try:
        yield from tf.data.TFRecordDataset(path).as_numpy_iterator()
    except tf.errors.DataLossError:
        # The end of a file whose writer was killed; what comes before it is whole.
        return


def _write_plugin_data(name: str, content: Message, *, step: int) -> None:
    value = tf.compat.v1.Summary.Value(tag=f"_hparams_/{name}", tensor=tf.make_tensor_proto([], tf.float32))
    value.metadata.plugin_data.plugin_name = _PLUGIN
    value.metadata.plugin_data.content = encode_message({1: 0, **content})
    summary = tf.compat.v1.Summary(value=[value])
    tf.summary.experimental.write_raw_pb(summary.SerializeToString(), step=step)


def _value(value: Any) -> Message:
    """Returns the fields of a `google.protobuf.Value`."""
    if isinstance(value, bool):
        return {4: value}
    if isinstance(value, (int, float)):
        return {2: float(value)}
    return {3: value if isinstance(value, str) else json.dumps(value, sort_keys=True)}
