from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.components.graph_trainer.training_report import render_training_report
from tfx_gnn.records.blessing import LATEST_BLESSED_MODEL_FILE
from tfx_gnn.training import TrainingPreemptedError
from tfx_gnn.training.checkpoints.preemption import StopSignal

WARM = {"warm_start": "same_network", "num_epochs": 2, "checkpoint_every_steps": 2}


def _weights(folder):
    reader = tf.train.load_checkpoint(str(folder / "run" / "checkpoints" / "exported"))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if "_dense" in name and "OPTIMIZER" not in name
    }


def _assert_equal_weights(ours, expected):
    assert len(ours) == 2
    for name, value in expected.items():
        np.testing.assert_array_equal(ours[name], value)


def test_training_starts_from_the_weights_of_the_blessed_model(prepared, trained, tmp_path, capfd):
    options = {**WARM, "model_fn": "colored_items:unchanged_model_fn", "num_epochs": 1}

    summary = prepared.train(tmp_path, blessed_model_dir=str(trained.folder / "model"), **options)

    _assert_equal_weights(_weights(tmp_path), _weights(trained.folder))
    found = summary.warm_start
    assert (found.num_taken, found.num_grown, found.fresh, found.left) == (2, 0, (), ())
    written = json.loads((tmp_path / "run" / "training_summary.json").read_text())
    assert written["warm_start"]["num_taken"] == 2
    said = f"Started from {trained.folder / 'model'}: 2 weights taken"
    assert said in capfd.readouterr().err
    assert said in render_training_report(summary)


def test_training_that_is_resumed_does_not_start_from_the_blessed_model_again(
    prepared, trained, tmp_path, monkeypatch, capfd
):
    options = {**WARM, "blessed_model_dir": str(trained.folder / "model")}
    prepared.train(tmp_path / "whole", **options)
    with monkeypatch.context() as patched:
        patched.setattr(StopSignal, "is_made", lambda _, position: position.global_step == 3)
        with pytest.raises(TrainingPreemptedError, match="after step 3"):
            prepared.train(tmp_path / "ended", **options)
    capfd.readouterr()

    resumed = prepared.train(tmp_path / "ended", **options)

    _assert_equal_weights(_weights(tmp_path / "ended"), _weights(tmp_path / "whole"))
    assert "Started from" not in capfd.readouterr().err
    assert resumed.warm_start.num_taken == 2


def test_first_training_starts_from_initial_weights(prepared, tmp_path):
    record = {"found": False, "description": "no version in serving: this is the first model"}
    (tmp_path / LATEST_BLESSED_MODEL_FILE).write_text(json.dumps(record))

    summary = prepared.train(tmp_path / "trained", blessed_model_dir=str(tmp_path), **{**WARM, "num_epochs": 1})

    assert summary.warm_start.describe() == ("Trained from the start: no version in serving: this is the first model.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warm_start": "same_network"}, "got warm_start='same_network' without it. Add LatestBlessedModelResolver"),
        ({"blessed_model_dir": "serving"}, "got warm_start='none' with it"),
        ({"warm_start": "warm"}, r"`warm_start` must be .*'same_network'.*; got 'warm'"),
    ],
)
def test_model_must_be_given_for_a_warm_start_and_only_then(prepared, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        prepared.train(tmp_path, **options)
