from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.components.graph_bulk_inferrer.answer_columns import answer_columns

RECORDS = np.array([4, 5])


def test_classes_have_label_and_score_and_text_ids():
    outputs = {
        "id": np.array([b"u1", b"\xc3\xbc2"], object),
        "unseen_id": np.array([False, True]),
        "label": np.array([b"red", b"blue"], object),
        "score": np.array([0.75, 0.5], np.float32),
        "logits": np.zeros([2, 2], np.float32),
        "probabilities": np.array([[0.25, 0.75], [0.5, 0.5]], np.float32),
    }

    table = answer_columns(RECORDS, outputs, with_scores=False)

    assert table.to_pydict() == {
        "record": [4, 5],
        "id": ["u1", "\u00fc2"],
        "unseen_id": [False, True],
        "label": ["red", "blue"],
        "score": [0.75, 0.5],
    }
    scored = answer_columns(RECORDS, outputs, with_scores=True)
    assert scored["probabilities"].to_pylist() == [[0.25, 0.75], [0.5, 0.5]]
    assert scored["logits"].to_pylist() == [[0.0, 0.0], [0.0, 0.0]]
    assert scored.column_names[-2:] == ["probabilities", "logits"]


def test_one_number_is_a_column_and_several_are_a_list():
    one = answer_columns(RECORDS, {"prediction": np.array([[1.5], [2.5]], np.float32)}, with_scores=True)
    two = answer_columns(RECORDS, {"prediction": np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)}, with_scores=True)

    assert one["prediction"].to_pylist() == [1.5, 2.5]
    assert two["prediction"].to_pylist() == [[1.0, 2.0], [3.0, 4.0]]


def test_links_have_a_row_for_each_pair_with_its_rank():
    outputs = {
        "scores": np.array([[0.5, 2.0, 1.0], [3.0, -np.inf, -np.inf]], np.float32),
        "num_candidates": np.array([3, 1]),
        "source_id": np.array([[7, 7, 7], [8, -1, -1]]),
        "target_id": np.array([[1, 2, 3], [4, -1, -1]]),
        "unseen_target_id": np.array([[False, True, False], [True, False, False]]),
        "source_embedding": np.arange(12, dtype=np.float32).reshape([2, 3, 2]),
    }

    table = answer_columns(RECORDS, outputs, with_scores=False)

    assert table.to_pydict() == {
        "record": [4, 4, 4, 5],
        "source_id": [7, 7, 7, 8],
        "target_id": [1, 2, 3, 4],
        "unseen_target_id": [False, True, False, True],
        "score": [0.5, 2.0, 1.0, 3.0],
        "rank": [3, 1, 2, 1],
        "source_embedding": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]],
    }


def test_links_without_pairs_have_no_row_and_the_columns_of_others():
    outputs = {
        "scores": np.zeros([2, 0], np.float32),
        "num_candidates": np.array([0, 0]),
        "source_id": np.zeros([2, 0], object),
        "target_id": np.zeros([2, 0], object),
    }

    table = answer_columns(RECORDS, outputs, with_scores=False)

    assert {field.name: str(field.type) for field in table.schema} == {
        "record": "int64",
        "source_id": "string",
        "target_id": "string",
        "score": "float",
        "rank": "int64",
    }
    assert table.num_rows == 0


def test_columns_of_several_tasks_have_their_names_and_one_order():
    outputs = {
        "weight/prediction": np.array([[1.5], [2.5]], np.float32),
        "color/score": np.array([0.75, 0.5], np.float32),
        "id": np.array([1, 2]),
        "color/label": np.array([b"red", b"blue"], object),
    }

    table = answer_columns(RECORDS, outputs, with_scores=False)

    assert table.column_names == ["record", "id", "color/label", "color/score", "weight/prediction"]


def test_batch_without_examples_has_the_columns_of_others():
    outputs = {"label": np.zeros(0, object), "score": np.zeros(0, np.float32)}

    assert answer_columns(np.zeros(0, np.int64), outputs, with_scores=False).num_rows == 0


def test_model_of_something_else_is_refused():
    with pytest.raises(ValueError, match=r"`model_dir` must hold a model that predicts .*; got the outputs \['x'\]"):
        answer_columns(RECORDS, {"x": np.zeros([2, 1])}, with_scores=False)
