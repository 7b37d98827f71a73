from __future__ import annotations

import pytest

from tfx_gnn.distribution.options import StrategyOptions
from tfx_gnn.io.options_json import from_json, to_json
from tfx_gnn.models.tasks import (
    GraphClassification,
    LinkPrediction,
    MultiTask,
    NodeClassification,
    NodeRegression,
)
from tfx_gnn.training.options import (
    BatchingOptions,
    CheckpointOptions,
    ExecutionOptions,
    ExportOptions,
    GraphTrainerOptions,
)

TASK = NodeClassification(label_feature="color", class_vocabulary="color")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_epochs": 0}, "`num_epochs` must be at least 1; got 0"),
        ({"batch_size": -1}, "`batch_size` must be at least 0; got -1"),
        (
            {"batching": "packing"},
            r"`batching` must be one of \['packed', 'fit_or_skip', 'tight', 'ego'\]; got 'packing'. Did you mean",
        ),
        ({"success_ratio": 0.0}, r"`success_ratio` must lie in \(0, 1\]; got 0.0"),
        ({"early_stopping_patience": -1}, "`early_stopping_patience` must be at least 0; got -1"),
        ({"examples_per_class": -1}, "`examples_per_class` must be at least 0; got -1"),
        (
            {"examples_per_class": 20, "class_sampling": "balanced"},
            "`examples_per_class` must be 0 with `class_sampling`; got 20 and 'balanced'",
        ),
        (
            {"examples_per_class": 20, "task": LinkPrediction()},
            "`examples_per_class` must be 0 for tasks without one class per example; got 20 for LinkPrediction",
        ),
        ({"optimizer": "adamax"}, "`optimizer` must be one of .*; got 'adamax'"),
        ({"optimizer": "adamw"}, "`weight_decay` must be above 0 for 'adamw'; got 0"),
        ({"learning_rate": float("inf")}, "`learning_rate` must be at least 0 and finite; got inf"),
        ({"l2": -1.0}, "`l2` must be at least 0 and finite; got -1.0"),
        ({"learning_rate_schedule": "cosin"}, "`learning_rate_schedule` must be one of .*; got 'cosin'"),
        ({"warmup_share": 1.0}, r"`warmup_share` must lie in \[0, 1\); got 1.0"),
        (
            {"learning_rate_schedule": "step", "final_learning_rate_share": 0.0},
            "above 0 for 'exponential' and 'step'; got 0.0 with 'step'",
        ),
        ({"final_learning_rate_share": 0.5}, "must be left out for schedule 'constant', which never falls; got 0.5"),
        ({"monitor": "accuracy"}, "`early_stopping_patience` must be at least 1 to watch 'val_accuracy'; got 0"),
        (
            {"early_stopping_patience": 3, "monitor": "lift"},
            "`monitor_mode` must be 'min' or 'max' for a metric of your own; got 'auto' for 'val_lift'",
        ),
        ({"monitor_mode": "up"}, r"`monitor_mode` must be one of \['auto', 'min', 'max'\]; got 'up'"),
        ({"monitor_mode": "max"}, "`monitor_mode` must not be 'max' for 'val_loss'"),
        ({"monitor": "val_"}, "`monitor` must name a loss or metric; got 'val_'"),
        ({"training_seed": -1}, r"`training_seed` must lie in \[0, 2\*\*31\); got -1"),
        ({"shuffle_buffer_size": 0}, "`shuffle_buffer_size` must be at least 1; got 0"),
        ({"sharding": "rows"}, "`sharding` must be one of .*; got 'rows'"),
        (
            {"class_sampling": "equal"},
            "`class_sampling` must be 'balanced', or map class names to numbers; got 'equal'",
        ),
        (
            {"class_sampling": {"red": "5"}},
            r"must map class names to positive numbers up to 1,000,000; got \{'red': '5'\}",
        ),
        ({"class_sampling": {"red": 1e300}}, r"up to 1,000,000; got \{'red': 1e\+300\}"),
        ({"class_sampling": {"red": 0.0}}, r"must map class names to positive numbers up to .*; got \{'red': 0.0\}"),
        (
            {"class_sampling": "balanced", "task": NodeRegression(label_feature="size")},
            "must be '' for tasks without one class per example; got 'balanced' for NodeRegression",
        ),
        ({"class_sampling": "balanced", "task": LinkPrediction()}, "got 'balanced' for LinkPrediction"),
        (
            {
                "class_sampling": "balanced",
                "task": MultiTask(tasks={"a": TASK, "b": NodeRegression(label_feature="size")}),
            },
            "got 'balanced' for MultiTask",
        ),
        (
            {
                "class_sampling": {"red": 2.0},
                "task": GraphClassification(label_feature="kind", num_classes=2, class_weights="balanced"),
            },
            r"must be '' where the task has `class_weights`; got \{'red': 2.0\} and class_weights='balanced'",
        ),
        ({"precision": "float16"}, "`precision` must be one of .*; got 'float16'"),
        ({"steps_per_execution": 0}, "`steps_per_execution` must be at least 1; got 0"),
        ({"checkpoint_every_steps": -1}, "`checkpoint_every_steps` must be at least 0; got -1"),
        ({"verify_tpu": "maybe"}, "`verify_tpu` must be one of .*; got 'maybe'"),
        ({"strategy": "mirror"}, "`strategy` must be one of .*; got 'mirror'"),
        ({"eval_split": "train"}, "`eval_split` must be another split than `train_split`; got 'train' for both"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GraphTrainerOptions.from_flat({"model_fn": "m:f", "task": TASK, **options})


FLAT = {
    "model_fn": "m:f",
    "task": TASK,
    "num_epochs": 3,
    "batching": "tight",
    "batch_size": 8,
    "class_sampling": {"red": 2.0},
    "precision": "mixed_bfloat16",
    "strategy": "parameter_server",
    "num_parameter_partitions": 2,
    "checkpoint_every_steps": 5,
    "checkpoint_dir": "/checkpoints",
    "raw_tensor_signature": True,
}
GROUPED = GraphTrainerOptions(
    model_fn="m:f",
    task=TASK,
    num_epochs=3,
    batching=BatchingOptions(kind="tight", batch_size=8, class_sampling={"red": 2.0}),
    execution=ExecutionOptions(precision="mixed_bfloat16"),
    strategy=StrategyOptions(kind="parameter_server", num_parameter_partitions=2),
    checkpoints=CheckpointOptions(every_steps=5, directory="/checkpoints"),
    export=ExportOptions(raw_tensor_signature=True),
)


def test_flat_names_fill_the_groups():
    assert GraphTrainerOptions.from_flat(FLAT) == GROUPED


def test_groups_travel_as_json():
    assert from_json(to_json(GROUPED), GraphTrainerOptions) == GROUPED


def test_value_in_place_of_a_group_is_refused():
    with pytest.raises(TypeError, match=r"`batching` must be a BatchingOptions; got 'packed'. Write BatchingOptions\("):
        GraphTrainerOptions(model_fn="m:f", task=TASK, batching="packed")


def test_parameter_servers_cannot_repeat_a_training_bit_for_bit():
    with pytest.raises(ValueError, match="`deterministic` must be False for strategy 'parameter_server'"):
        GraphTrainerOptions.from_flat({**FLAT, "deterministic": True})
