"""From tables to a judged model, by the stages of this library, once for each seed."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfx_gnn.components import (
    GraphEvaluatorOptions,
    GraphSchemaGenOptions,
    GraphTrainerOptions,
    GraphTransformOptions,
    SizeConstraintLearnerOptions,
    SubgraphExampleGenOptions,
    TrainingSummary,
    evaluate_graph_model,
    generate_graph_schema,
    generate_subgraph_examples,
    learn_size_constraints,
    train_graph_model,
    transform_graphs,
)
from tfx_gnn.components.graph_evaluator.measures import SINGLE_TASK
from tfx_gnn.models import Task
from tfx_gnn.records import examples_folder


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
        others: folders of stages' outputs that lie elsewhere, by name.
    """

    folder: Path
    others: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def path(self, name: str) -> str:
        """Names a folder of one stage's output."""
        return self.others.get(name) or str(self.folder / name)


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


def divide_again(
    data: Prepared, folder: Path, splits: Mapping[str, Sequence[bytes]], sizes: SizeConstraintLearnerOptions
) -> Prepared:
    """Divides transformed examples into other splits, as cross-validation does, and learns their budgets.

    Args:
        data: where the examples are from. Its transform is kept.
        folder: where to write, absent or empty.
        splits: transformed examples by split.
        sizes: which budgets.

    Returns:
        The data for training; its raw examples are divided as before.
    """
    kept = ("examples", "graph_schema", "transform_graph", "transformed_graph_schema")
    divided = Prepared(folder=folder, others={name: data.path(name) for name in kept})
    for split, records in splits.items():
        examples_folder.write_split_shard(divided.path("transformed_examples"), split, 0, 1, records)
    learn_size_constraints(
        examples_dir=divided.path("transformed_examples"),
        graph_schema_dir=divided.path("transformed_graph_schema"),
        size_constraints_dir=divided.path("size_constraints"),
        options=sizes,
    )
    return divided


def train(data: Prepared, trainer: GraphTrainerOptions, *, seed: int) -> TrainingSummary:
    """Trains and exports a model.

    Args:
        data: what to train on.
        trainer: how; the seed is replaced.
        seed: seed of weights, dropout and order.

    Returns:
        What the trainer says; the model is in folder `seed_<seed>/model` of the data.
    """
    run = data.folder / f"seed_{seed}"
    return train_graph_model(
        transformed_examples_dir=data.path("transformed_examples"),
        transform_graph_dir=data.path("transform_graph"),
        graph_schema_dir=data.path("graph_schema"),
        transformed_graph_schema_dir=data.path("transformed_graph_schema"),
        size_constraints_dir=data.path("size_constraints"),
        model_dir=str(run / "model"),
        model_run_dir=str(run / "model_run"),
        options=dataclasses.replace(trainer, training_seed=seed),
    )


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
        train(data, trainer, seed=seed)
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
