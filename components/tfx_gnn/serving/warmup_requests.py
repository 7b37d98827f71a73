"""TensorFlow Serving's warm-up file, made from real requests.

It is a TFRecord file of `tensorflow.serving.PredictionLog` messages in the SavedModel's folder. The first request of
each size makes TensorFlow optimize the graph and prepare kernels; with the file, that happens while the server loads
the model. The package tensorflow-serving-api is not needed: the few fields that are used are written here in
protobuf's wire format. This module imports only TensorFlow and the standard library, as does `fresh_process_check`,
which loads it by its path.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import saved_model_pb2

WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"
"""Path in a SavedModel's folder where TensorFlow Serving looks for the file."""

BATCH_SIZES = (1, 8, 64)
"""Numbers of examples in the requests to each signature."""

MOST_REQUESTS = 1000
"""Largest number of requests; TensorFlow Serving refuses a model with more."""

MOST_BYTES = 16 * 2**20
"""Largest size of a request with several examples; a server holds the whole file in memory while it warms up."""

_EXAMPLES_INPUT = "examples"
_NOT_FOR_SERVERS = ("bulk_inferrer", "evaluator")
# Field numbers of PredictionLog, PredictLog, PredictRequest, ModelSpec and a map entry.
_PREDICT_LOG = 6
_REQUEST = 1
_MODEL_SPEC, _INPUTS = 1, 2
_SIGNATURE_NAME = 3
_KEY, _VALUE = 1, 2
_WIRE_SIZES = {1: 8, 5: 4}


def write_warmup_requests(saved_model_dir: str, records: Sequence[bytes]) -> int:
    """Writes the warm-up file of a SavedModel, replacing an existing one.

    Each signature whose only input is `examples`, except those for components of TFX, gets one request each with 1, 8
    and 64 examples. Records are taken in order, and repeated if there are fewer. A request with several examples that
    would exceed `MOST_BYTES` is left out.

    Args:
        saved_model_dir: folder that holds `saved_model.pb`.
        records: serialized raw graph tf.Examples as users would send them, at least one.

    Returns:
        Number of requests written.

    Raises:
        ValueError: if `records` is empty.
    """
    if not records:
        raise ValueError("`records` must hold at least one example; got none. Take some from an examples folder.")
    requests = [
        (name, [records[position % len(records)] for position in range(batch_size)])
        for name in signatures_of_examples(saved_model_dir)
        for batch_size in BATCH_SIZES
    ]
    path = os.path.join(saved_model_dir, WARMUP_FILE)
    tf.io.gfile.makedirs(os.path.dirname(path))
    kept = [(name, batch) for name, batch in requests if len(batch) == 1 or sum(map(len, batch)) <= MOST_BYTES]
    kept = kept[:MOST_REQUESTS]
    with tf.io.TFRecordWriter(path) as writer:
        for name, batch in kept:
            writer.write(_prediction_log(name, batch))
    return len(kept)


def has_warmup_requests(saved_model_dir: str) -> bool:
    """Returns whether a SavedModel has a warm-up file."""
    found: bool = tf.io.gfile.exists(os.path.join(saved_model_dir, WARMUP_FILE))
    return found


def read_warmup_requests(saved_model_dir: str) -> Iterator[tuple[str, dict[str, tensor_pb2.TensorProto]]]:
    """Reads the warm-up file of a SavedModel, whoever wrote it.

    Args:
        saved_model_dir: folder that holds `saved_model.pb`.

    Yields:
        For each predict request, the name of its signature ("" for the default one) and its inputs by name. Logs of
        other kinds, which this library does not write, are skipped. Yields nothing if there is no file.

    Raises:
        ValueError: if a record is not a PredictionLog.
    """
    if not has_warmup_requests(saved_model_dir):
        return
    for record in tf.data.TFRecordDataset(os.path.join(saved_model_dir, WARMUP_FILE)).as_numpy_iterator():
        for request in _values(bytes(record), _PREDICT_LOG, _REQUEST):
            names = [name.decode() for name in _values(request, _MODEL_SPEC, _SIGNATURE_NAME)]
            inputs = {}
            for entry in _values(request, _INPUTS):
                (key,), (value,) = _values(entry, _KEY), _values(entry, _VALUE)
                inputs[key.decode()] = tensor_pb2.TensorProto.FromString(value)
            yield (names[-1] if names else ""), inputs


def signatures_of_examples(saved_model_dir: str) -> list[str]:
    """Lists the signatures for servers whose only input is `examples`, by name, without loading the SavedModel."""
    with tf.io.gfile.GFile(os.path.join(saved_model_dir, tf.saved_model.SAVED_MODEL_FILENAME_PB), "rb") as file:
        (meta_graph,) = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs
    found = [name for name, one in meta_graph.signature_def.items() if list(one.inputs) == [_EXAMPLES_INPUT]]
    return sorted(name for name in found if name not in _NOT_FOR_SERVERS)


def _prediction_log(signature_name: str, batch: Sequence[bytes]) -> bytes:
    tensor = tf.make_tensor_proto(list(batch), tf.string, shape=[len(batch)]).SerializeToString()
    model_spec = _field(_SIGNATURE_NAME, signature_name.encode())
    inputs = _field(_KEY, _EXAMPLES_INPUT.encode()) + _field(_VALUE, tensor)
    request = _field(_MODEL_SPEC, model_spec) + _field(_INPUTS, inputs)
    return _field(_PREDICT_LOG, _field(_REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    """Writes a length-delimited field."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    groups = []
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _values(message: bytes, *path: int) -> list[bytes]:
    """Finds the contents of all nested fields at a path of field numbers."""
    found = [message]
    for number in path:
        found = [content for outer in found for key, content in _fields(outer) if key == number]
    return found


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields numbers and contents of the length-delimited fields, and skips others."""
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        kind = tag & 7
        if kind == 0:
            _, position = _read_varint(message, position)
            continue
        if kind == 2:
            size, position = _read_varint(message, position)
        else:
            size = _WIRE_SIZES.get(kind, len(message))
        if position + size > len(message):
            raise _damaged()
        if kind == 2:
            yield tag >> 3, message[position : position + size]
        position += size


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            break
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise _damaged()


def _damaged() -> ValueError:
    return ValueError(
        f"`{WARMUP_FILE}` must hold PredictionLog messages; got a record that is not one. Export the model again."
    )
