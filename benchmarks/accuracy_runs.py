"""From tables to a judged model, by the stages of this library, once for each seed."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path

from tfx_gnn.models.tasks import Task
from tfx_gnn.stages.evaluation.evaluation_report import SINGLE_TASK
from tfx_gnn.stages.graph_evaluator import GraphEvaluatorOptions, evaluate_graph_model
from tfx_gnn.stages.graph_schema_gen import GraphSchemaGenOptions, generate_graph_schema
from tfx_gnn.stages.graph_trainer import GraphTrainerOptions, train_graph_model
from tfx_gnn.stages.graph_transform import GraphTransformOptions, transform_graphs
from tfx_gnn.stages.size_constraint_learner import SizeConstraintLearnerOptions, learn_size_constraints
from tfx_gnn.stages.subgraph_example_gen import SubgraphExampleGenOptions, generate_subgraph_examples


@dataclasses.dataclass(frozen=True)
class Spread:
    """A figure of several runs.

    Attributes:
        values: one for each run.
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the runs."""
        return statistics.fmean(self.values)

    def __str__(self) -> str:
        deviation = statistics.stdev(self.values) if len(self.values) > 1 else 0.0
        return f"{self.mean:.3f} +- {deviation:.3f}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """Data that models are trained on, with any seed.

    Attributes:
        folder: where everything lies.
    """

    folder: Path

    def path(self, name: str) -> str:
        """Names a folder of one stage's output."""
        return str(self.folder / name)


def prepare(
    folder: Path,
    *,
    tables_dir: str,
    sampling: SubgraphExampleGenOptions,
    transform: GraphTransformOptions,
    sizes: SizeConstraintLearnerOptions,
) -> Prepared:
    """Makes examples, transforms them and learns budgets.

    Args:
        folder: where to write, absent or empty.
        tables_dir: tables of nodes and edges.
        sampling: what to sample.
        transform: how to transform.
        sizes: which budgets.

    Returns:
        The data.
    """
    data = Prepared(folder=folder)
    generate_subgraph_examples(tables_dir=tables_dir, examples_dir=data.path("examples"), options=sampling)
    generate_graph_schema(
        examples_dir=data.path("examples"),
        graph_schema_dir=data.path("graph_schema"),
        schema_dir=data.path("schema"),
        options=GraphSchemaGenOptions(),
    )
    transform_graphs(
        examples_dir=data.path("examples"),
        graph_schema_dir=data.path("graph_schema"),
        transform_graph_dir=data.path("transform_graph"),
        transformed_examples_dir=data.path("transformed_examples"),
        transformed_graph_schema_dir=data.path("transformed_graph_schema"),
        options=transform,
    )
    learn_size_constraints(
        examples_dir=data.path("transformed_examples"),
        graph_schema_dir=data.path("transformed_graph_schema"),
        size_constraints_dir=data.path("size_constraints"),
        options=sizes,
    )
    return data


def train_and_judge(
    data: Prepared, trainer: GraphTrainerOptions, *, seeds: Sequence[int], metrics: Sequence[str], split: str = "test"
) -> dict[str, Spread]:
    """Trains and exports a model for each seed, and asks the exports about the raw examples of a split.

    Args:
        data: what to train on.
        trainer: how; the seed is replaced.
        seeds: seeds of weights, dropout and order.
        metrics: names of what GraphEvaluator measures.
        split: what to judge on; training never sees it.

    Returns:
        By metric, its values.
    """
    values: dict[str, list[float]] = {name: [] for name in metrics}
    for seed in seeds:
        run = data.folder / f"seed_{seed}"
        train_graph_model(
            transformed_examples_dir=data.path("transformed_examples"),
            transform_graph_dir=data.path("transform_graph"),
            graph_schema_dir=data.path("graph_schema"),
            transformed_graph_schema_dir=data.path("transformed_graph_schema"),
            size_constraints_dir=data.path("size_constraints"),
            model_dir=str(run / "model"),
            model_run_dir=str(run / "model_run"),
            options=dataclasses.replace(trainer, training_seed=seed),
        )
        judged = evaluate_graph_model(
            examples_dir=data.path("examples"),
            model_dir=str(run / "model"),
            evaluation_dir=str(run / "evaluation"),
            blessing_dir=str(run / "blessing"),
            options=_evaluator_options(trainer.task, split),
        )
        for name in metrics:
            values[name].append(judged.tasks[SINGLE_TASK].quality.metrics[name])
    return {name: Spread(tuple(found)) for name, found in values.items()}


def _evaluator_options(task: Task, split: str) -> GraphEvaluatorOptions:
    return GraphEvaluatorOptions(task=task, split=split)
