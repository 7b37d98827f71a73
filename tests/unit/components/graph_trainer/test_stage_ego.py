"""A model of sampled trees, from tables to served answers, and a model of whole subgraphs from the same examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.components.graph_skew_validator.options import GraphSkewValidatorOptions
from tfx_gnn.components.graph_skew_validator.stage import validate_skew
from tfx_gnn.components.graph_trainer.stage import train_graph_model
from tfx_gnn.components.graph_trainer.tpu_readiness import check_training_for_tpu
from tfx_gnn.components.graph_trainer.training_run import Exporters
from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.records.examples_folder import read_split
from tfx_gnn.sampling import Hop, SamplingPlan, SplitPlan
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan, read_recorded_plan
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.training.loop.trainer_inputs import TrainerFolders
from tfx_gnn.training.options import BatchingOptions, GraphTrainerOptions
from tfx_gnn.transform.graph_view import GraphView

SCHEMA = """
node_sets { key: "paper" value {
  metadata { filename: "papers.csv" }
  features { key: "x" value { dtype: DT_FLOAT } }
  features { key: "topic" value { dtype: DT_INT64 } } } }
edge_sets { key: "cites" value { source: "paper" target: "paper" metadata { filename: "cites.csv" } } }
"""
NUM_PAPERS = 300
PLAN = SamplingPlan(
    seed_node_set="paper",
    hops=(
        Hop(edge_set="cites", fan_out=4, name="first", padding="replicate"),
        Hop(edge_set="cites", fan_out=2, name="second", inputs=("first",)),
    ),
    expands_seed_again=True,
    is_ego=True,
    label_features=("topic",),
    splits=SplitPlan(weights={"train": 3, "val": 1}),
)


def preprocessing_fn(graph: GraphView) -> GraphView:
    return graph


TASK = NodeClassification(label_feature="topic", num_classes=2)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Everything that training reads. The topic of a paper depends on the papers that it cites, not on itself."""
    folder = tmp_path_factory.mktemp("papers")
    random = np.random.default_rng(5)
    x = random.normal(size=NUM_PAPERS)
    cited = [random.choice(NUM_PAPERS, size=number % 4 + 1, replace=False) for number in range(NUM_PAPERS)]
    topics = [int(x[list(papers)].mean() > 0.0) for papers in cited]
    (folder / "graph_schema.pbtxt").write_text(SCHEMA)
    rows = "".join(f"p{number},{x[number]},{topic}\n" for number, topic in enumerate(topics))
    (folder / "papers.csv").write_text(f"id,x,topic\n{rows}")
    pairs = "".join(f"p{number},p{target}\n" for number, papers in enumerate(cited) for target in papers)
    (folder / "cites.csv").write_text(f"source,target\n{pairs}")
    generate_subgraph_examples(
        tables_dir=str(folder), examples_dir=str(folder / "examples"), options=SubgraphExampleGenOptions(plan=PLAN)
    )
    transform_graphs(
        examples_dir=str(folder / "examples"),
        graph_schema_dir=str(folder / "examples"),
        transform_graph_dir=str(folder / "transform"),
        transformed_examples_dir=str(folder / "transformed"),
        transformed_graph_schema_dir=str(folder / "schema"),
        options=GraphTransformOptions(preprocessing_fn=f"{__name__}:preprocessing_fn"),
    )
    return {
        "transformed_examples_dir": str(folder / "transformed"),
        "transform_graph_dir": str(folder / "transform"),
        "graph_schema_dir": str(folder / "examples"),
        "transformed_graph_schema_dir": str(folder / "schema"),
    }


def options(name: str, hyperparameters: dict[str, Any] | None = None, **batching: Any) -> GraphTrainerOptions:
    return GraphTrainerOptions(
        model_fn=f"tfx_gnn.models.model_fns:{name}",
        task=TASK,
        num_epochs=8,
        hyperparameters={"units": 16, "dropout_rate": 0.0, "learning_rate": 0.02, **(hyperparameters or {})},
        batching=BatchingOptions(**batching),
    )


@pytest.fixture(scope="module")
def trained(folders: dict[str, str], served_and_reference: Exporters, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ego")
    train_graph_model(
        **folders,
        model_dir=str(folder / "model"),
        model_run_dir=str(folder / "run"),
        options=options("ego_sage", kind="ego", batch_size=16),
        exporters=served_and_reference,
    )
    return folder


def test_model_tells_by_which_plan_its_examples_were_sampled(trained: Path) -> None:
    recorded = trained / "model" / "Format-Serving" / "assets.extra" / "sampling_plan.json"

    assert read_recorded_plan(str(recorded)) == RecordedPlan(
        plan=PLAN, sampling_seed=SubgraphExampleGenOptions(plan=PLAN).sampling_seed
    )


def accuracy(folder: Path) -> float:
    summary = json.loads((folder / "run" / "training_summary.json").read_text())
    return float(summary["epochs"][-1]["val_accuracy"])


def test_trees_are_learned_without_a_budget(trained: Path) -> None:
    summary = json.loads((trained / "run" / "training_summary.json").read_text())

    assert accuracy(trained) >= 0.9
    assert (summary["budget"]["kind"], summary["budget"]["batch_size"]) == ("ego", 16)
    # The last batch of an epoch is filled up with padding, and no example is left out.
    assert summary["num_steps"] == 8 * -(-summary["num_train_examples"] // 16)
    assert summary["epoch_inputs"][-1]["num_graphs"] == summary["num_train_examples"]


def test_served_answers_are_those_of_training(folders: dict[str, str], trained: Path) -> None:
    examples_dir = folders["graph_schema_dir"]
    report = validate_skew(
        examples_dir=examples_dir,
        transformed_examples_dir=folders["transformed_examples_dir"],
        model_dir=str(trained / "model"),
        model_run_dir=str(trained / "run"),
        skew_dir=str(trained / "skew"),
        infra_blessing_dir=str(trained / "blessing"),
        options=GraphSkewValidatorOptions(),
    )
    model = ServingModel(str(trained / "model" / "Format-Serving"))
    records = list(read_split(examples_dir, "val").as_numpy_iterator())
    answers = model(tf.constant(records))

    assert report.blessed, report.reasons
    assert len(answers["id"]) == len(records)
    np.testing.assert_allclose(
        np.concatenate([model(tf.constant([record]))["probabilities"] for record in records[:3]]),
        answers["probabilities"][:3],
        atol=1e-5,
    )


def test_model_of_trees_is_ready_for_tpus(folders: dict[str, str]) -> None:
    readiness = check_training_for_tpu(TrainerFolders(**folders), options("ego_gat", kind="ego", batch_size=4))

    assert not readiness.problems


def test_same_examples_train_a_model_of_subgraphs(
    folders: dict[str, str], no_export: Exporters, tmp_path: Path
) -> None:
    learn_size_constraints(
        examples_dir=folders["transformed_examples_dir"],
        graph_schema_dir=folders["transformed_graph_schema_dir"],
        size_constraints_dir=str(tmp_path / "sizes"),
        options=SizeConstraintLearnerOptions(batch_size=16),
    )
    train_graph_model(
        **folders,
        size_constraints_dir=str(tmp_path / "sizes"),
        model_dir=str(tmp_path / "model"),
        model_run_dir=str(tmp_path / "run"),
        # The topic follows from the papers that are cited, one step away.
        options=options("graph_sage", {"num_layers": 1}),
        exporters=no_export,
    )

    assert accuracy(tmp_path) >= 0.9


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"batching": BatchingOptions(batch_size=8)}, "`size_constraints_dir` must be given for batching 'packed'"),
        ({"model_fn": "tfx_gnn.models.model_fns:graph_sage"}, "`batching` must not be 'ego' for graph_sage"),
    ],
)
def test_wrong_options_are_refused(
    folders: dict[str, str], tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    base = options("ego_sage", kind="ego", batch_size=8)
    fields = {name: getattr(base, name) for name in ("model_fn", "task", "batching")}

    with pytest.raises(ValueError, match=message):
        train_graph_model(
            **folders,
            model_dir=str(tmp_path / "model"),
            model_run_dir=str(tmp_path / "run"),
            options=GraphTrainerOptions(**{**fields, **changed}),
        )


def test_batch_size_is_needed() -> None:
    with pytest.raises(ValueError, match="`batch_size` must be at least 1; got 0"):
        BatchingOptions(kind="ego")
