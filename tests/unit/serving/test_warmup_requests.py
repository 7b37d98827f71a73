from __future__ import annotations

import os
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow_serving.apis import classification_pb2, predict_pb2, prediction_log_pb2

from tfx_gnn.serving.warmup_requests import (
    MOST_BYTES,
    WARMUP_FILE,
    has_warmup_requests,
    read_warmup_requests,
    write_warmup_requests,
)


@pytest.fixture
def saved_model_dir(tmp_path: Path) -> str:
    """A model with two signatures of examples and one of numbers."""
    module = tf.Module()
    module.call = tf.function(
        lambda examples: {"size": tf.strings.length(examples)},
        input_signature=[tf.TensorSpec([None], tf.string, name="examples")],
    )
    module.other = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([], tf.float32, name="x")])
    signatures = {"serving_default": module.call, "embeddings": module.call, "tensors": module.other}
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=signatures)
    return str(tmp_path / "model")


def _requests(saved_model_dir: str) -> list[tuple[str, list[bytes]]]:
    found = []
    for name, inputs in read_warmup_requests(saved_model_dir):
        assert list(inputs) == ["examples"]
        found.append((name, tf.make_ndarray(inputs["examples"]).tolist()))
    return found


def test_each_signature_of_examples_gets_requests_of_several_sizes(saved_model_dir: str) -> None:
    assert not has_warmup_requests(saved_model_dir)

    assert write_warmup_requests(saved_model_dir, [b"a", b"bc", b""]) == 6

    assert has_warmup_requests(saved_model_dir)
    requests = _requests(saved_model_dir)
    assert [(name, len(batch)) for name, batch in requests] == [
        (name, size) for name in ("embeddings", "serving_default") for size in (1, 8, 64)
    ]
    assert requests[1][1] == [b"a", b"bc", b"", b"a", b"bc", b"", b"a", b"bc"]


def test_large_examples_are_sent_alone(saved_model_dir: str) -> None:
    write_warmup_requests(saved_model_dir, [b"x" * (MOST_BYTES // 4)])

    assert [(name, len(batch)) for name, batch in _requests(saved_model_dir)] == [
        ("embeddings", 1),
        ("serving_default", 1),
    ]


def test_file_is_read_by_the_messages_of_tensorflow_serving(saved_model_dir: str) -> None:
    write_warmup_requests(saved_model_dir, [b"a" * 200])

    path = os.path.join(saved_model_dir, WARMUP_FILE)
    logs = [prediction_log_pb2.PredictionLog.FromString(r) for r in tf.data.TFRecordDataset(path).as_numpy_iterator()]

    assert {log.WhichOneof("log_type") for log in logs} == {"predict_log"}
    last = logs[-1].predict_log.request
    assert last.model_spec.signature_name == "serving_default"
    assert tf.make_ndarray(last.inputs["examples"]).tolist() == [b"a" * 200] * 64


def test_file_of_another_writer_is_read(saved_model_dir: str) -> None:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "any"
    request.model_spec.version.value = 3
    request.inputs["examples"].CopyFrom(tf.make_tensor_proto([b"a"]))
    request.output_filter.append("size")
    log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
    log.log_metadata.sampling_config.sampling_rate = 0.5
    other = prediction_log_pb2.PredictionLog(
        classify_log=prediction_log_pb2.ClassifyLog(request=classification_pb2.ClassificationRequest())
    )
    os.makedirs(os.path.join(saved_model_dir, "assets.extra"), exist_ok=True)
    with tf.io.TFRecordWriter(os.path.join(saved_model_dir, WARMUP_FILE)) as writer:
        for message in (log, other):
            writer.write(message.SerializeToString())

    assert _requests(saved_model_dir) == [("", [b"a"])]


@pytest.mark.parametrize("damage", [b"\x32", b"\x32\x05ab", b"\xff" * 11, b"\x31abc", b"\x37"], ids=repr)
def test_record_that_is_no_message_is_refused(saved_model_dir: str, damage: bytes) -> None:
    write_warmup_requests(saved_model_dir, [b"a"])
    with tf.io.TFRecordWriter(os.path.join(saved_model_dir, WARMUP_FILE)) as writer:
        writer.write(damage)

    with pytest.raises(ValueError, match="must hold PredictionLog messages"):
        _requests(saved_model_dir)


def test_model_without_the_file_has_no_requests(tmp_path: Path) -> None:
    assert _requests(str(tmp_path)) == []


def test_no_records_are_refused(saved_model_dir: str) -> None:
    with pytest.raises(ValueError, match="`records` must hold at least one example"):
        write_warmup_requests(saved_model_dir, [])
