from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.serving.prediction import Prediction, ServingModel, plain_answers, read_records


@pytest.fixture(scope="module")
def toy_model(toy_model_dir: str) -> ServingModel:
    return ServingModel(os.path.join(toy_model_dir, "Format-Serving"))


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_examples_are_classified_in_order_whatever_the_batches(
    toy_model: ServingModel, toy_records: dict[str, list[bytes]], batch_size: int
) -> None:
    predictions = list(toy_model.classify(toy_records["test"], batch_size=batch_size))

    # softmax([-x, x]) of the winner is 1 / (1 + exp(-2 |x|)) for x = 1.5, -2, 0.5, -0.5.
    assert [(p.id, p.label, round(p.score, 4)) for p in predictions] == [
        ("w-0", "red", 0.9526),
        ("x-0", "blue", 0.982),
        ("y-0", "red", 0.7311),
        ("z-0", "blue", 0.7311),
    ]


def test_no_example_gives_no_prediction(toy_model: ServingModel) -> None:
    assert list(toy_model.classify([])) == []


def test_empty_batch_gives_outputs_of_zero_rows(toy_model: ServingModel) -> None:
    outputs = toy_model(tf.constant([], tf.string))

    assert outputs["logits"].shape == (0, 2)
    assert outputs["label"].shape == (0,)


@pytest.mark.parametrize("garbage", [b"\x0agarbage", b"\xff\xfe\x80 no text either"])
def test_garbage_raises_invalid_argument(toy_model: ServingModel, garbage: bytes) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="parse"):
        list(toy_model.classify([garbage]))


def test_batch_size_below_one_is_refused(toy_model: ServingModel) -> None:
    with pytest.raises(ValueError, match="`batch_size` must be at least 1; got 0"):
        list(toy_model.classify([], batch_size=0))


def test_model_without_score_is_no_classifier(defective_model_dir, toy_records) -> None:
    model = ServingModel(os.path.join(defective_model_dir("has no score"), "Format-Serving"))

    with pytest.raises(ValueError, match=r"must give the outputs .*'score'.*; got \['id', 'label'"):
        list(model.classify(toy_records["test"]))


def test_model_with_other_inputs_is_refused(tmp_path: Path) -> None:
    module = tf.Module()
    module.double = tf.function(lambda x: {"y": 2 * x}, input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    tf.saved_model.save(module, str(tmp_path), signatures=module.double)

    with pytest.raises(ValueError, match=r"one input 'examples'; got inputs \['x'\]"):
        ServingModel(str(tmp_path))


def test_integer_ids_stay_integers() -> None:
    assert Prediction(id=7, label="a", score=0.5).id == 7


def test_records_of_a_split_are_read_in_file_order(toy_examples_dir: str, toy_records: dict[str, list[bytes]]) -> None:
    records = list(read_records(os.path.join(toy_examples_dir, "Split-test")))

    w, x, y, z = toy_records["test"]
    assert records == [w, y, x, z]


def test_records_of_one_plain_file_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "requests.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"one")

    assert list(read_records(path)) == [b"one"]


@pytest.mark.parametrize("name", ["requests.tfrecord", "requests.gz"])
def test_file_without_records_gives_none(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    tf.io.TFRecordWriter(path, "GZIP" if name.endswith(".gz") else "").close()

    assert list(read_records(path)) == []


@pytest.mark.parametrize("name", ["notes.txt", "notes.gz"])
@pytest.mark.parametrize("content", [b"short", b"a page of text that is long enough to look like a record"])
def test_file_of_another_format_is_refused_by_name(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(ValueError, match=rf"must hold .*TFRecord files.*{name}"):
        list(read_records(str(path)))


@pytest.mark.parametrize("name", ["absent", ""])
def test_missing_records_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="`path` must be a TFRecord file or a folder that holds some"):
        list(read_records(os.path.join(str(tmp_path), name)))


def test_hidden_names_are_no_records(tmp_path: Path) -> None:
    tf.io.TFRecordWriter(str(tmp_path / "requests.tfrecord")).close()
    (tmp_path / "_notes.txt").write_text("no record")
    (tmp_path / ".ipynb_checkpoints").mkdir()

    assert list(read_records(str(tmp_path))) == []


def test_folder_beside_records_is_refused_by_name(tmp_path: Path) -> None:
    tf.io.TFRecordWriter(str(tmp_path / "requests.tfrecord")).close()
    (tmp_path / "model").mkdir()

    with pytest.raises(ValueError, match=r"record files only; got .* which holds the folder 'model'\. Move it out"):
        list(read_records(str(tmp_path)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "got a named pipe"),
        (lambda path: path.symlink_to("nowhere"), "got a link to 'nowhere', which does not"),
    ],
    ids=["pipe", "broken link"],
)
def test_what_cannot_be_read_to_an_end_is_refused_by_name(
    tmp_path: Path, make: Callable[[Path], None], message: str
) -> None:
    make(tmp_path / "graphs-00000-of-00001.gz")

    with pytest.raises(ValueError, match=f"graphs-00000-of-00001.gz` must be a regular file; {message}"):
        list(read_records(str(tmp_path)))


def test_folder_of_splits_is_refused_with_their_names(toy_examples_dir: str) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"one split of an examples folder; got .*\['Split-test', 'Split-train'\]"
    ):
        list(read_records(toy_examples_dir))


INFINITY = np.inf


def test_candidates_come_from_the_best_and_without_padding() -> None:
    outputs = {
        "scores": np.array([[0.5, 2.0, 0.5], [1.0, -INFINITY, -INFINITY]], np.float32),
        "num_candidates": np.array([3, 1]),
        "source_id": np.array([[7, 7, 7], [8, -1, -1]]),
        "target_id": np.array([[b"x", b"y", b"z"], [b"x", b"", b""]], object),
        "unseen_target_id": np.array([[False, True, False], [False, False, False]]),
    }

    assert plain_answers(outputs) == [
        {
            "candidates": [
                {"source_id": 7, "target_id": "y", "unseen_target_id": True, "score": 2.0},
                {"source_id": 7, "target_id": "x", "unseen_target_id": False, "score": 0.5},
                {"source_id": 7, "target_id": "z", "unseen_target_id": False, "score": 0.5},
            ]
        },
        {"candidates": [{"source_id": 8, "target_id": "x", "unseen_target_id": False, "score": 1.0}]},
    ]


def test_tasks_have_their_names_and_share_the_id() -> None:
    outputs = {
        "id": np.array([b"a"], object),
        "unseen_id": np.array([True]),
        "price/prediction": np.array([[1.5]]),
        "size/prediction": np.array([[1.0, 2.0]]),
        "kind/label": np.array([b"tool"], object),
        "kind/score": np.array([0.75]),
    }

    assert plain_answers(outputs) == [
        {
            "id": "a",
            "unseen_id": True,
            "kind": {"label": "tool", "score": 0.75},
            "price": {"prediction": 1.5},
            "size": {"prediction": [1.0, 2.0]},
        }
    ]


def test_no_example_gives_no_answer() -> None:
    assert plain_answers({"prediction": np.zeros([0, 1])}) == []


def test_other_models_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must return a class, numbers or scores of candidates; got \['y'\]"):
        plain_answers({"y": np.zeros([2])})
