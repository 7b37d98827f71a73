from __future__ import annotations

import math

import pytest

from tfx_gnn.components.graph_tuner.options import GraphTunerOptions
from tfx_gnn.components.graph_tuner.search_space import Choice, FloatRange
from tfx_gnn.distribution.options import StrategyOptions
from tfx_gnn.io.options_json import from_json, to_json
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.training.options import GraphTrainerOptions

TASK = NodeClassification(label_feature="color", class_vocabulary="color")
SPACE = {"units": Choice(values=(8, 16))}


def made_options(*, strategy="default", hyperparameters=None, **fields):
    trainer = GraphTrainerOptions(
        model_fn="my.model:model_fn",
        task=TASK,
        strategy=StrategyOptions(kind=strategy),
        hyperparameters=hyperparameters or {},
    )
    return GraphTunerOptions(**{"trainer": trainer, "search_space": SPACE, **fields})


def test_options_travel_as_json():
    options = made_options(search_space={"rate": FloatRange(low=1e-4, high=0.1, log=True), **SPACE})

    assert from_json(to_json(options), GraphTunerOptions) == options
    assert options.model_fn == "my.model:model_fn"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_trials": 0}, "`num_trials` must be at least 1; got 0"),
        ({"max_failed_trials": -1}, "`max_failed_trials` must be at least 0; got -1"),
        ({"sampler": "best"}, r"`sampler` must be one of \['tpe', 'random', 'grid'\]; got 'best'"),
        ({"pruner": "all"}, "`pruner` must be one of"),
        ({"search_seed": -1}, r"`search_seed` must lie in \[0, 2\*\*31\); got -1"),
        ({"search_space": {}}, "`search_space` must name a hyperparameter; got none"),
        ({"hyperparameters": {"units": 4}}, r"`search_space` must not name a fixed hyperparameter; got \['units'\]"),
        ({"search_space": {**SPACE, "": SPACE["units"]}}, "`search_space` must name every hyperparameter; got ''"),
        ({"hyperparameters": {"rate": math.nan}}, "`hyperparameters` must be what JSON can hold, .*'rate': nan"),
        ({"strategy": "multi_worker_mirrored"}, "`trainer` must run in one process"),
        ({"objective": "val_charm"}, "`direction` must be 'minimize' or 'maximize' for a metric of your own"),
        (
            {"sampler": "grid", "search_space": {"rate": FloatRange(low=0.0, high=1.0)}},
            "must hold only Choice and IntRange for sampler 'grid'",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        made_options(**fields)


@pytest.mark.parametrize(
    ("objective", "direction", "maximizes"),
    [
        ("val_loss", "auto", False),
        ("val_price_rmse", "auto", False),
        ("val_accuracy", "auto", True),
        ("val_hits_at_10", "auto", True),
        ("val_charm", "maximize", True),
        ("val_accuracy", "minimize", False),
    ],
)
def test_the_better_direction_is_known_of_losses_and_metrics(objective, direction, maximizes):
    assert made_options(objective=objective, direction=direction).maximizes is maximizes
