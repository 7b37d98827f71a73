from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.serving.model_interface import ServedTask, write_served_task
from tfx_gnn.serving.request_records import (
    FINITE,
    NONFINITE,
    WRONG_SHAPE,
    DomainAnswer,
    answer_kind,
    label_keys,
    out_of_domain_requests,
    without_labels,
)


def _keys(record: bytes) -> set[str]:
    return set(tf.train.Example.FromString(record).features.feature)


def test_labels_are_what_the_model_tells(tmp_path, toy_records) -> None:
    served = ServedTask(task={}, label_keys=("nodes/item.x", "absent"), roots=(), tensor_inputs={})
    write_served_task(served, str(tmp_path))

    stripped = without_labels(toy_records["test"], str(tmp_path))

    assert label_keys(toy_records["test"], str(tmp_path)) == ["absent", "nodes/item.x"]
    assert [_keys(full) - _keys(less) for full, less in zip(toy_records["test"], stripped, strict=True)] == [
        {"nodes/item.x"}
    ] * 4


def test_labels_of_a_model_that_tells_nothing_are_features_of_the_readout(toy_model_dir, toy_records) -> None:
    saved_model_dir = os.path.join(toy_model_dir, "Format-Serving")

    (stripped,) = without_labels(toy_records["test"][:1], saved_model_dir)

    assert label_keys(toy_records["test"], saved_model_dir) == ["nodes/_readout.color"]
    assert _keys(toy_records["test"][0]) - _keys(stripped) == {"nodes/_readout.color"}


def _record(**lists):
    features = {}
    for key, values in lists.items():
        if isinstance(values[0], float):
            features[key] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        elif isinstance(values[0], int):
            features[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        else:
            features[key] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


RECORD = _record(
    **{
        "context/energy": [1.5],
        "nodes/a.#size": [2],
        "nodes/a.#id": [7, 8],
        "nodes/a.price": [1.0, 2.0],
        "nodes/a.words": [b"x"],
        "nodes/a.parts": [3],
        "nodes/a.parts.d1": [1, 0],
        "nodes/_readout.label": [1.0],
        "edges/e.count": [4, 5],
        "edges/e.#source": [0, 1],
        "edges/_readout/seed.time": [3],
    }
)


def test_features_of_numbers_get_each_value_and_nothing_else_changes():
    requests = out_of_domain_requests([_record(**{"nodes/a.#size": [0]}), RECORD], ["context/energy"])

    assert [(request.feature, request.value) for request in requests] == [
        *(("edges/e.count", value) for value in ("-1", "0", "1099511627776")),
        *(("nodes/a.parts", value) for value in ("-1", "0", "1099511627776")),
        *(("nodes/a.price", value) for value in ("-1.0", "0.0", "1e+30", "nan", "inf", "-inf")),
    ]
    first = tf.train.Example.FromString(requests[0].record)
    assert first.features.feature["edges/e.count"].int64_list.value == [-1, -1]
    first.features.feature["edges/e.count"].int64_list.value[:] = [4, 5]
    assert first == tf.train.Example.FromString(RECORD)


@pytest.mark.parametrize(
    ("outputs", "kind"),
    [
        ({"x": np.ones([1, 2]), "names": np.array([b"a"])}, FINITE),
        ({"x": np.array([np.nan])}, NONFINITE),
        ({"x": np.ones([2])}, WRONG_SHAPE),
        ({"scores": np.array([[1.0, -np.inf]]), "num_candidates": np.array([1])}, FINITE),
        ({"scores": np.array([[-np.inf, -np.inf]]), "num_candidates": np.array([1])}, NONFINITE),
    ],
)
def test_answers_are_told_apart(outputs, kind):
    assert answer_kind(outputs) == kind


def test_no_number_as_answer_is_doubtful_for_numbers_alone():
    answers = [DomainAnswer(feature="x", value=value, answer=NONFINITE) for value in ("-1.0", "nan", "inf", "0")]

    assert [answer.text() for answer in answers if answer.is_doubtful] == ["x = -1.0", "x = 0"]
