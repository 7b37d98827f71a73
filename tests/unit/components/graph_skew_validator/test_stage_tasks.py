"""Training and serving of every task, side by side."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import Any

import pytest
import tf_keras

from tfx_gnn.components.graph_skew_validator.options import GraphSkewValidatorOptions
from tfx_gnn.components.graph_skew_validator.report import SkewReport
from tfx_gnn.components.graph_skew_validator.stage import validate_skew
from tfx_gnn.keras.layers import MapFeatures
from tfx_gnn.models.tasks import GraphClassification, LinkPrediction, MultiTask, NodeClassification, NodeRegression
from tfx_gnn.training.data.input_pipeline import LabelledGraphs, evaluation_batch
from tfx_gnn.training.export.training_reference import TRAINING_REFERENCE_DIR, TrainingReference
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written

TASKS = {
    "links": LinkPrediction(),
    "nodes and graphs": MultiTask(
        tasks={
            "color": NodeClassification(label_feature="color", num_classes=2),
            "price": NodeRegression(label_feature="price", num_outputs=2, mean=(1.0, 2.0), std=(3.0, 4.0)),
            "shape": GraphClassification(label_feature="shape", num_classes=2),
        }
    ),
    "links of a batch": LinkPrediction(),
}


def _batch_norm_model(task_graphs: Any) -> tf_keras.Model:
    """States are normalised over the batch, in serving as in training: a mistake."""
    inputs, graph = task_graphs.inputs_with_states(LinkPrediction(), task_graphs.LINK_SCHEMA)
    normalize = tf_keras.layers.BatchNormalization()

    def normalized(node_set: Any, *, node_set_name: str) -> Any:
        is_item = node_set_name == "item"
        return {"hidden_state": normalize(node_set["hidden_state"], training=True)} if is_item else {}

    output = LinkPrediction().objective().output_layer()(MapFeatures(node_sets_fn=normalized)(graph))
    return tf_keras.Model(inputs, output)


def _train(folder: Path, task_graphs: Any, name: str, budget: Any) -> None:
    """Exports a model, and its training path."""
    task = TASKS[name]
    schema = task_graphs.NODE_SCHEMA if name == "nodes and graphs" else task_graphs.LINK_SCHEMA
    spec, objective = task_graphs.raw_spec(schema), task.objective()
    model = _batch_norm_model(task_graphs) if name == "links of a batch" else task_graphs.model_of(task, schema)
    with libraries_traced_as_written():
        task_graphs.export(str(folder / "model"), task, schema, model)
        preprocess = functools.partial(
            evaluation_batch, labelled=LabelledGraphs(graph_spec=spec, objective=objective), budget=budget
        )
        TrainingReference(graph_spec=spec, preprocess=preprocess, model=model, objective=objective, batch_size=2).save(
            str(folder / "run" / TRAINING_REFERENCE_DIR)
        )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, task_graphs: Any, write_examples: Any, made_budget: Any) -> Any:
    """Gives the folder of a task's examples, model and run."""

    @functools.cache
    def train(name: str) -> Path:
        folder = tmp_path_factory.mktemp("skew")
        is_link = name != "nodes and graphs"
        examples = task_graphs.LINK_EXAMPLES if is_link else task_graphs.NODE_EXAMPLES
        write_examples(str(folder / "examples"), {"test": [examples]}, None)
        _train(folder, task_graphs, name, made_budget(is_link))
        return folder

    return train


def _validate(trained: Path, folder: Path, model_dir: Path | None = None) -> SkewReport:
    return validate_skew(
        examples_dir=str(trained / "examples"),
        transformed_examples_dir=str(trained / "examples"),
        model_dir=str(model_dir or trained / "model"),
        model_run_dir=str(trained / "run"),
        skew_dir=str(folder / "skew"),
        infra_blessing_dir=str(folder / "blessing"),
        options=GraphSkewValidatorOptions(),
    )


@pytest.fixture(scope="module")
def made_budget(size_constraints_by_hand: Any) -> Any:
    """Budgets of two graphs with room for more candidates than they have."""

    def make(is_link: bool) -> Any:  # noqa: FBT001 - a fixture's function.
        readouts = 9 if is_link else 3
        edges = {f"_readout/{root}": readouts for root in (("source", "target") if is_link else ("seed",))}
        content = size_constraints_by_hand.made_content(node_sets=("item", "_readout"), edge_sets=("link", *edges))
        budget = content.find("tight", 2)
        sizes = {"total_num_nodes": {"item": 12, "_readout": readouts}, "total_num_edges": {"link": 5, **edges}}
        return type(budget)(**{**{name: getattr(budget, name) for name in budget.__dataclass_fields__}, **sizes})

    return make


@pytest.mark.parametrize("name", ["links", "nodes and graphs"])
def test_equal_ways_are_blessed(trained: Any, tmp_path: Path, name: str) -> None:
    report = _validate(trained(name), tmp_path)

    assert report.blessed, report.reasons
    assert report.ids_compared
    outputs = {output.key: output for output in report.outputs}
    if name == "links":
        # Four candidates in the batch of two graphs, of three and one, then two of the last.
        assert {key: output.num_values for key, output in outputs.items()} == {"scores": 8, "num_candidates": 3}
    else:
        assert {"color/label", "price/prediction", "shape/probabilities"} <= set(outputs)
        assert outputs["price/prediction"].num_values == 8
    assert max(output.largest_difference for output in report.outputs) < 1e-6


def test_model_whose_answers_depend_on_the_batch_is_caught(trained: Any, tmp_path: Path) -> None:
    report = _validate(trained("links of a batch"), tmp_path)

    assert not report.blessed
    assert report.largest_difference == 0.0
    assert any(reason.startswith("answers depend on the other examples of a request") for reason in report.reasons)


def test_other_scores_are_caught(trained: Any, edit_weights: Any, tmp_path: Path) -> None:
    links = trained("links")
    shutil.copytree(links / "model", tmp_path / "model")
    edit_weights(tmp_path / "model" / "Format-Serving", [1, 2], lambda kernel: kernel * [[1.0, 1.1]])

    report = _validate(links, tmp_path, tmp_path / "model")

    assert not report.blessed
    reason, *warnings = report.reasons
    assert all(warning.startswith("warning: answers are NaN or infinite") for warning in warnings)
    assert reason.startswith("training and serving give other scores: scores: 6 of 8 values differ")
