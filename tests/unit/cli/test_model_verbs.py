from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from typer.testing import CliRunner

from tfx_gnn.cli.app import app
from tfx_gnn.records.examples_folder import write_split_shard


class _Answers(tf.Module):
    """Answers a price of 1 and the candidates' guesses."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def predict(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        guesses = tf.io.parse_example(examples, {"guess": tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64)})[
            "guess"
        ]
        ids = tf.fill(tf.shape(guesses.to_tensor()), "user")
        return {
            "price/prediction": tf.ones([tf.size(examples), 1]),
            "link/scores": guesses.to_tensor(float("-inf")),
            "link/num_candidates": guesses.row_lengths(),
            "source_id": ids,
            "target_id": ids,
        }


def _example(price: float, guesses: list[float], labels: list[int]) -> bytes:
    example = tf.train.Example()
    features = example.features.feature
    features["context/price"].float_list.value.append(price)
    features["context/year"].int64_list.value.append(2000 + int(price))
    features["guess"].float_list.value.extend(guesses)
    features["nodes/_readout.label"].int64_list.value.extend(labels)
    serialized: bytes = example.SerializeToString()
    return serialized


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    module = _Answers()
    tf.saved_model.save(module, str(tmp_path / "model" / "Format-Serving"), signatures=module.predict)
    records = [_example(1.0, [2.0, 0.5, 1.0], [1, 0, 0]), _example(3.0, [0.25, 0.75], [1, 0])]
    for split in ("train", "test"):
        write_split_shard(str(tmp_path / "examples"), split, 0, 1, records)
    return {"--model-dir": str(tmp_path / "model"), "--examples-dir": str(tmp_path / "examples")}


def _run(*arguments: str, exit_code: int = 0) -> Any:
    shown = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "120"})
    assert shown.exit_code == exit_code, shown.output
    return shown.stdout


def test_evaluate_shows_each_task_and_its_slices(folders: dict[str, str], tmp_path: Path) -> None:
    task = {"price": {"kind": "graph_regression", "label_feature": "price"}, "link": {"kind": "link_prediction"}}
    outputs = ["--evaluation-dir", str(tmp_path / "e"), "--blessing-dir", str(tmp_path / "b")]
    given = [text for option in folders.items() for text in option]

    shown = _run(
        "evaluate", *given, *outputs, "--task-json", json.dumps({"kind": "multi_task", "tasks": task}),
        "--baseline-confidence", "0",
        "--thresholds", '{"link.mrr": 0.9}', "--slice", "context/year", "--slice-thresholds", '{"link.mrr": 0.7}',
        exit_code=1,
    )  # fmt: skip

    rows = [line.replace("│", " ").split() for line in shown.splitlines()]
    assert ["model", "2", "1.4142", "1.0000", "-1.0000"] in rows
    assert ["the", "mean", "label", "2", "1.0000", "1.0000", "0.0000"] in rows
    assert ["context/year", "=", "2003", "1", "0.5000", "0.0000", "1.0000", "1.0000", "0.0000", "0.5000"] in rows
    assert "task 'link': MRR 0.7500 is below 0.9" in shown
    assert "task 'link', context/year = '2003': MRR 0.5000 is below 0.7" in shown
    assert shown.splitlines()[-1] == (
        "NOT blessed: task 'link': MRR 0.7500 is below 0.9; "
        "task 'link', context/year = '2003': MRR 0.5000 is below 0.7; "
        "task 'price': RMSE 1.4142 is not below the mean label's 1.0000 by more than 0"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"kind": "graph_regression", "label": "price"}', "`--task-json` must have no fields but ["),
        (
            '{"kind": "graph_regression"}',
            "`label_feature` must be given for a GraphRegression; got [] in `--task",
        ),
        (
            '{"kind": "graph_regression", "label_feature": 3}',
            "`label_feature` must be a string; got 3 in `--task",
        ),
        ('{"kind": "regression", "label_feature": "price"}', "`kind` must be one of ["),
        (
            '{"kind": "multi_task", "tasks": []}',
            "`tasks` must be an object with values by name; got [] in `--task",
        ),
        ('"graph_regression"', "`label_feature` must be given for a GraphRegression; got [] in `--task-json`."),
        ("3", "`--task-json` must be an object with fields of a Task; got 3."),
        ("graph_regression", "`--task-json` must be JSON that describes a Task; got 16 characters"),
    ],
)
def test_mistakes_in_a_task_name_the_field(folders: dict[str, str], tmp_path: Path, text: str, told: str) -> None:
    given = [option for pair in folders.items() for option in pair]
    outputs = ["--evaluation-dir", str(tmp_path / "e"), "--blessing-dir", str(tmp_path / "b")]

    shown = CliRunner().invoke(app, ["evaluate", *given, *outputs, "--task-json", text])

    assert shown.exit_code == 2
    assert shown.stderr.startswith(told)
    assert shown.stderr.count("\n") == 1


@pytest.mark.parametrize("verb", ["evaluate", "predict"])
def test_examples_of_another_schema_are_refused_in_one_line(folders: dict[str, str], tmp_path: Path, verb: str) -> None:
    other = tf.train.Example.FromString(_example(1.0, [], [1]))
    other.features.feature["guess"].int64_list.value.extend([1])
    for split in ("train", "test"):
        write_split_shard(str(tmp_path / "others"), split, 0, 1, [other.SerializeToString()])
    command = [verb, "--model-dir", folders["--model-dir"]]
    if verb == "predict":
        command += ["--examples", str(tmp_path / "others" / "Split-test")]
    else:
        command += ["--examples-dir", str(tmp_path / "others"), "--task-json", '{"kind": "link_prediction"}']
        command += ["--evaluation-dir", str(tmp_path / "e"), "--blessing-dir", str(tmp_path / "b")]

    shown = CliRunner().invoke(app, command)

    assert shown.exit_code == 2, shown.output
    name = "`--examples`" if verb == "predict" else "`examples`"
    told = f"{name} must hold float values of feature 'guess' of the context; got int64 in example 0."
    assert shown.stderr.startswith(told)
    assert shown.stderr.count("\n") == 1
    assert ("record 0 of graphs-00000-of-00001.gz (split 'test')" in shown.stderr) == (verb == "evaluate")


def test_predict_shows_numbers_and_the_best_candidates(folders: dict[str, str]) -> None:
    asked = ["predict", "--model-dir", folders["--model-dir"]]
    asked += ["--examples", f"{folders['--examples-dir']}/Split-test"]

    shown, lines = _run(*asked), _run(*asked, "--json").splitlines()

    assert "user (2.0000), user (1.0000), user (0.5000)" in shown
    assert json.loads(lines[1]) == {
        "link": {
            "candidates": [
                {"source_id": "user", "target_id": "user", "score": 0.75},
                {"source_id": "user", "target_id": "user", "score": 0.25},
            ]
        },
        "price": {"prediction": 1.0},
    }
