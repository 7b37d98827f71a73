from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.serving.prediction import plain_answers

INFINITY = np.inf


def test_candidates_come_from_the_best_and_without_padding() -> None:
    outputs = {
        "scores": np.array([[0.5, 2.0, 0.5], [1.0, -INFINITY, -INFINITY]], np.float32),
        "num_candidates": np.array([3, 1]),
        "source_id": np.array([[7, 7, 7], [8, -1, -1]]),
        "target_id": np.array([[b"x", b"y", b"z"], [b"x", b"", b""]], object),
    }

    assert plain_answers(outputs) == [
        {
            "candidates": [
                {"source_id": 7, "target_id": "y", "score": 2.0},
                {"source_id": 7, "target_id": "x", "score": 0.5},
                {"source_id": 7, "target_id": "z", "score": 0.5},
            ]
        },
        {"candidates": [{"source_id": 8, "target_id": "x", "score": 1.0}]},
    ]


def test_tasks_have_their_names_and_share_the_id() -> None:
    outputs = {
        "id": np.array([b"a"], object),
        "price/prediction": np.array([[1.5]]),
        "size/prediction": np.array([[1.0, 2.0]]),
        "kind/label": np.array([b"tool"], object),
        "kind/score": np.array([0.75]),
    }

    assert plain_answers(outputs) == [
        {
            "id": "a",
            "kind": {"label": "tool", "score": 0.75},
            "price": {"prediction": 1.5},
            "size": {"prediction": [1.0, 2.0]},
        }
    ]


def test_no_example_gives_no_answer() -> None:
    assert plain_answers({"prediction": np.zeros([0, 1])}) == []


def test_other_models_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must answer a class, numbers or scores of candidates; got \['y'\]"):
        plain_answers({"y": np.zeros([2])})
