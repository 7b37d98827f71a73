"""One transform for several tasks about graphs: a model of one of them neither sees nor demands labels of others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tfx_gnn.components.graph_skew_validator.options import GraphSkewValidatorOptions
from tfx_gnn.components.graph_skew_validator.stage import validate_skew
from tfx_gnn.components.graph_trainer.stage import train_graph_model
from tfx_gnn.components.graph_trainer.training_run import Exporters
from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
from tfx_gnn.models.tasks import GraphClassification, GraphRegression, MultiTask
from tfx_gnn.records.examples_folder import read_split
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.serving.model_interface import read_served_task
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.serving.verification import verify_saved_model
from tfx_gnn.training.data.precomputed_batches import (
    PrecomputedBatchesOptions,
    read_manifest,
    write_precomputed_batches,
)
from tfx_gnn.training.loop.summary import TrainingSummary
from tfx_gnn.training.options import GraphTrainerOptions

IS_EVEN = GraphClassification(label_feature="is_even", num_classes=2)
LENGTH = GraphRegression(label_feature="length")
EXAMPLES, TRANSFORM, TRANSFORMED, TRANSFORMED_SCHEMA, SIZES, READY = (
    *("examples", "transform", "transformed", "schema", "sizes", "ready"),
)


@pytest.fixture(scope="module")
def folder(ring_project: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stages before the trainer, for rings of 3 to 6 atoms."""
    folder = tmp_path_factory.mktemp("rings")
    ring_project.write_tables(folder / "tables")
    labels = GraphLevelExamples(label_features=("length", "is_even"), splits=SplitPlan(weights={"train": 3, "val": 2}))
    generate_subgraph_examples(
        tables_dir=str(folder / "tables"),
        examples_dir=str(folder / EXAMPLES),
        options=SubgraphExampleGenOptions(num_shards=1, graph_level_examples=labels),
    )
    transform_graphs(
        examples_dir=str(folder / EXAMPLES),
        graph_schema_dir=str(folder / EXAMPLES),
        transform_graph_dir=str(folder / TRANSFORM),
        transformed_examples_dir=str(folder / TRANSFORMED),
        transformed_graph_schema_dir=str(folder / TRANSFORMED_SCHEMA),
        options=GraphTransformOptions(preprocessing_fn="ring_project:preprocessing_fn"),
    )
    learn_size_constraints(
        examples_dir=str(folder / TRANSFORMED),
        graph_schema_dir=str(folder / TRANSFORMED_SCHEMA),
        size_constraints_dir=str(folder / SIZES),
        options=SizeConstraintLearnerOptions(batch_size=4),
    )
    return folder


def _train(folder: Path, name: str, task: Any, exporters: Exporters, **folders: str) -> TrainingSummary:
    return train_graph_model(
        transformed_examples_dir=str(folder / TRANSFORMED),
        transform_graph_dir=str(folder / TRANSFORM),
        graph_schema_dir=str(folder / EXAMPLES),
        transformed_graph_schema_dir=str(folder / TRANSFORMED_SCHEMA),
        size_constraints_dir=str(folder / SIZES),
        model_dir=str(folder / name / "model"),
        model_run_dir=str(folder / name / "run"),
        options=GraphTrainerOptions(model_fn="ring_project:model_fn", task=task, num_epochs=1),
        exporters=exporters,
        **folders,
    )


@pytest.fixture(scope="module")
def trained(folder: Path, served_and_reference: Exporters, served_only: Exporters) -> Callable[[str], Path]:
    """Trains for one task or for both, once each; tells where."""

    @functools.cache
    def train(name: str) -> Path:
        if name == "one":
            _train(folder, name, IS_EVEN, served_and_reference)
        else:
            _train(folder, name, MultiTask(tasks={"is_even": IS_EVEN, "length": LENGTH}), served_only)
        return folder / name

    return train


def _without(record: bytes, *keys: str) -> bytes:
    example = tf.train.Example.FromString(record)
    for key in keys:
        del example.features.feature[key]
    serialized: bytes = example.SerializeToString()
    return serialized


@pytest.mark.parametrize("name", ["one", "both"])
def test_labels_of_all_tasks_may_be_missing_in_a_request_and_inputs_may_not(
    folder: Path, trained: Callable[[str], Path], name: str
) -> None:
    saved_model_dir = str(trained(name) / "model" / "Format-Serving")

    record, *_ = read_split(str(folder / EXAMPLES), "val").as_numpy_iterator()
    ask = ServingModel(saved_model_dir)
    (answer,) = ask.answers([record])
    assert list(ask.answers([_without(record, "context/length", "context/is_even")])) == [answer]
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(ask.answers([_without(record, "context/heat")]))
    served = read_served_task(saved_model_dir)
    assert served is not None
    assert served.label_keys == ("context/is_even", "context/length")
    verify_saved_model(saved_model_dir, [record], num_threads=0)


def test_training_sees_what_serving_sees(folder: Path, trained: Callable[[str], Path]) -> None:
    one = trained("one")

    report = validate_skew(
        examples_dir=str(folder / EXAMPLES),
        transformed_examples_dir=str(folder / TRANSFORMED),
        model_dir=str(one / "model"),
        model_run_dir=str(one / "run"),
        skew_dir=str(one / "skew"),
        infra_blessing_dir=str(one / "blessing"),
        options=GraphSkewValidatorOptions(),
    )

    assert report.blessed, report.reasons
    assert {feature.key for feature in report.features if feature.key.startswith("context/")} == {
        *("context/#id", "context/#size", "context/heat")
    }


def test_batches_that_were_made_for_all_tasks_serve_one(folder: Path, no_export: Exporters) -> None:
    write_precomputed_batches(
        transformed_examples_dir=str(folder / TRANSFORMED),
        transformed_graph_schema_dir=str(folder / TRANSFORMED_SCHEMA),
        size_constraints_dir=str(folder / SIZES),
        precomputed_batches_dir=str(folder / READY),
        options=PrecomputedBatchesOptions(num_epochs=1),
    )

    summary = _train(folder, "ready_made", IS_EVEN, no_export, precomputed_batches_dir=str(folder / READY))

    assert [epoch.num_steps for epoch in summary.epoch_inputs] == [
        epoch.num_batches for epoch in read_manifest(str(folder / READY)).epochs
    ]
