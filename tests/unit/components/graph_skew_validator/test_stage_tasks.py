"""Training and serving of every task, side by side."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import pytest
import tf_keras

from tfx_gnn.components.graph_skew_validator.options import GraphSkewValidatorOptions
from tfx_gnn.components.graph_skew_validator.report import SkewReport
from tfx_gnn.components.graph_skew_validator.stage import validate_skew
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
}


def _train(folder: Path, task_graphs: Any, name: str, budget: Any, model: tf_keras.Model | None = None) -> None:
    """Exports a model, and the training path of the model of the same task that answers as it should."""
    task = TASKS[name]
    schema = task_graphs.LINK_SCHEMA if name == "links" else task_graphs.NODE_SCHEMA
    spec, objective = task_graphs.raw_spec(schema), task.objective()
    trained = task_graphs.model_of(task, schema)
    with libraries_traced_as_written():
        task_graphs.export(str(folder / "model"), task, schema, model or trained)
        preprocess = functools.partial(
            evaluation_batch, labelled=LabelledGraphs(graph_spec=spec, objective=objective), budget=budget
        )
        TrainingReference(
            graph_spec=spec, preprocess=preprocess, model=trained, objective=objective, batch_size=2
        ).save(str(folder / "run" / TRAINING_REFERENCE_DIR))


@pytest.fixture(scope="module")
def validate(tmp_path_factory: pytest.TempPathFactory, task_graphs: Any, write_examples: Any, made_budget: Any) -> Any:
    def run(name: str, model: tf_keras.Model | None = None) -> SkewReport:
        folder = tmp_path_factory.mktemp("skew")
        is_link = name == "links"
        examples = task_graphs.LINK_EXAMPLES if is_link else task_graphs.NODE_EXAMPLES
        examples_dir = write_examples(str(folder / "examples"), {"test": [examples]}, None)
        _train(folder, task_graphs, name, made_budget(is_link), model)
        return validate_skew(
            examples_dir=examples_dir,
            transformed_examples_dir=examples_dir,
            model_dir=str(folder / "model"),
            model_run_dir=str(folder / "run"),
            skew_dir=str(folder / "skew"),
            infra_blessing_dir=os.path.join(folder, "blessing"),
            options=GraphSkewValidatorOptions(),
        )

    return run


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


@pytest.mark.parametrize("name", list(TASKS))
def test_equal_ways_are_blessed(validate: Any, name: str) -> None:
    report = validate(name)

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


def test_other_scores_are_caught(validate: Any, task_graphs: Any) -> None:
    other = task_graphs.model_of(TASKS["links"], task_graphs.LINK_SCHEMA)
    (kernel,) = [variable for variable in other.variables if variable.name.startswith("states/")]
    kernel.assign([[1.0, -1.1]])

    report = validate("links", other)

    assert not report.blessed
    reason, *warnings = report.reasons
    assert all(warning.startswith("warning: answers are NaN or infinite") for warning in warnings)
    assert reason.startswith("training and serving give other scores: scores: 6 of 8 values differ")
