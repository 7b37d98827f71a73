"""GraphTuner and GraphTrainer, joined by what the one finds and the other takes."""

from __future__ import annotations

import pytest
from tfx.types import channel, standard_artifacts

from tfx_gnn.components import (
    Choice,
    FloatRange,
    GraphSchemaArtifact,
    GraphTrainer,
    GraphTrainerOptions,
    GraphTuner,
    GraphTunerOptions,
    SizeConstraintsArtifact,
    parameters,
)
from tfx_gnn.models import NodeClassification


def _inputs():
    return {
        "transformed_examples": channel.Channel(type=standard_artifacts.Examples),
        "transform_graph": channel.Channel(type=standard_artifacts.TransformGraph),
        "graph_schema": channel.Channel(type=GraphSchemaArtifact),
        "transformed_graph_schema": channel.Channel(type=GraphSchemaArtifact),
        "size_constraints": channel.Channel(type=SizeConstraintsArtifact),
    }


@pytest.fixture
def options():
    trainer = GraphTrainerOptions(
        model_fn="tfx_gnn.models.model_fns:gcn",
        task=NodeClassification(label_feature="topic", class_vocabulary="topics"),
    )
    space = {"units": Choice(values=(8, 16)), "learning_rate": FloatRange(low=1e-4, high=0.1, log=True)}
    return GraphTunerOptions(trainer=trainer, search_space=space, num_trials=7)


def test_the_trainer_takes_what_the_tuner_finds(options):
    tuner = GraphTuner(**_inputs(), options=options)

    found = tuner.outputs["best_hyperparameters"]
    trainer = GraphTrainer(**_inputs(), best_hyperparameters=found, options=options.trainer)

    assert found.type is standard_artifacts.HyperParameters
    assert trainer.inputs["best_hyperparameters"] is found
    assert "best_hyperparameters" not in GraphTrainer(**_inputs(), options=options.trainer).inputs


def test_options_arrive_as_they_were_given(options):
    sent = GraphTuner(**_inputs(), options=options).spec.exec_properties

    assert parameters.from_exec_properties(GraphTunerOptions, sent) == options
    parameters.check_code_is_unchanged(options.model_fn, sent)
