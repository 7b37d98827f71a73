from __future__ import annotations

import math

import pytest
import tensorflow as tf
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2

from tfx_gnn.components.graph_tuner.search_space import Choice, FloatRange
from tfx_gnn.components.graph_tuner.trial_logs import write_trial_logs
from tfx_gnn.components.graph_tuner.trials import COMPLETE, FAILED, Trial, TuningSummary


def _trial(number, state, epochs, value=None, **hyperparameters):
    return Trial(
        number=number,
        hyperparameters=hyperparameters,
        state=state,
        value=value,
        exported_epoch=2 if value is not None else 0,
        epochs=epochs,
        objective_by_epoch=(),
        num_parameters=3,
        seconds=1.0,
        error="",
    )


SUMMARY = TuningSummary(
    model_fn="module:model_fn",
    objective="val_accuracy",
    maximizes=True,
    sampler="random",
    pruner="none",
    num_epochs=2,
    search_space={"units": Choice(values=([8, 4], 16)), "rate": FloatRange(low=0.25, high=0.5)},
    fixed={"residual": True},
    trials=(
        _trial(0, COMPLETE, ({"loss": 2.0, "val_accuracy": 0.5}, {"loss": 1.0, "val_accuracy": 0.75}), 0.75, units=16),
        _trial(1, FAILED, ({"loss": None, "val_accuracy": 0.25},), units=[8, 4]),
    ),
    best_trial=0,
)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    write_trial_logs(SUMMARY, str(folder))
    return folder


def _values(folder):
    (path,) = (path for path in folder.iterdir() if path.is_file())
    return [
        (event.step, value) for event in tf.compat.v1.train.summary_iterator(str(path)) for value in event.summary.value
    ]


def _hparams(folder):
    return {
        value.tag: plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content)
        for _, value in _values(folder)
        if value.metadata.plugin_data.plugin_name == "hparams"
    }


def _scalars(folder):
    return [
        (value.tag, step, float(tf.make_ndarray(value.tensor)))
        for step, value in _values(folder)
        if value.metadata.plugin_data.plugin_name == "scalars"
    ]


def test_search_tells_tensorboard_its_space_and_its_metrics(logs):
    experiment = _hparams(logs)["_hparams_/experiment"].experiment

    units, rate = experiment.hparam_infos
    assert (units.name, list(units.domain_discrete)) == ("units", ["[8, 4]", 16.0])
    assert (rate.name, rate.type) == ("rate", api_pb2.DATA_TYPE_FLOAT64)
    assert (rate.domain_interval.min_value, rate.domain_interval.max_value) == (0.25, 0.5)
    assert [(info.name.group, info.name.tag) for info in experiment.metric_infos] == [
        ("", "best_val_accuracy"),
        ("validation", "epoch_accuracy"),
    ]


def test_each_trial_has_a_folder_with_its_hyperparameters_value_and_curves(logs):
    whole, failed = _hparams(logs / "trial-00000"), _hparams(logs / "trial-00001")

    start = whole["_hparams_/session_start_info"].session_start_info
    assert {name: value.WhichOneof("kind") for name, value in start.hparams.items()} == {
        "units": "number_value",
        "residual": "bool_value",
    }
    assert (start.hparams["units"].number_value, start.hparams["residual"].bool_value) == (16.0, True)
    assert failed["_hparams_/session_start_info"].session_start_info.hparams["units"].string_value == "[8, 4]"
    assert [found["_hparams_/session_end_info"].session_end_info.status for found in (whole, failed)] == [
        api_pb2.STATUS_SUCCESS,
        api_pb2.STATUS_FAILURE,
    ]
    assert _scalars(logs / "trial-00000") == [("best_val_accuracy", 1, 0.75)]
    assert _scalars(logs / "trial-00000" / "train") == [("epoch_loss", 0, 2.0), ("epoch_loss", 1, 1.0)]
    assert _scalars(logs / "trial-00000" / "validation") == [("epoch_accuracy", 0, 0.5), ("epoch_accuracy", 1, 0.75)]
    assert _scalars(logs / "trial-00001") == []
    ((_, _, loss),) = _scalars(logs / "trial-00001" / "train")
    assert math.isnan(loss)
