"""The same network on trees of fixed size and on the subgraphs that they were copied from.

GraphSAGE of two layers, on dense batches of trees and on packed batches of subgraphs, with fan-outs of 8 and 4. In a
graph of 20 neighbors for each node, nearly all places of the trees are taken, so both have the same number of nodes. In
the small Debian graph, whose packages depend on few others, five of six places are empty.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from accuracy_runs import Prepared, Spread, prepare, train
from comparison import OURS, Bound, Report, Row

from tfx_gnn.components import (
    GraphTrainerOptions,
    GraphTransformOptions,
    SizeConstraintLearnerOptions,
    SubgraphExampleGenOptions,
)
from tfx_gnn.models import NodeClassification
from tfx_gnn.sampling import Hop, SamplingPlan, SplitPlan
from tfx_gnn.training.data.input_pipeline import weighted_training_batches
from tfx_gnn.training.loop.trainer_inputs import TrainerFolders
from tfx_gnn.training.loop.training_setup import TrainingSetup
from tfx_gnn.training.options import BatchingOptions
from tfx_gnn.transform import GraphView
from tfx_gnn_pipelines.tasks.debian_sections import TASK

SEEDS = (0, 1, 2)
_NUM_NODES, _NUM_NEIGHBORS, _NUM_CLASSES = 3_000, 20, 5
BATCH_SIZE = 128
NUM_EPOCHS = 8
UNITS = 64
OF_SUBGRAPHS = "graph_sage, packed"
PLAN = SamplingPlan(
    seed_node_set="package",
    label_features=("section",),
    splits=SplitPlan(column="split"),
    hops=(
        Hop(edge_set="depends", fan_out=8, padding="replicate"),
        Hop(edge_set="depends", fan_out=4, inputs=("depends",), name="depends_again", padding="replicate"),
    ),
    expands_seed_again=True,
    is_ego=True,
)
_OF_NUMBERS = NodeClassification(label_feature="section", num_classes=_NUM_CLASSES)
_KINDS = {OURS: ("ego_sage", "ego"), OF_SUBGRAPHS: ("graph_sage", "packed")}


FULL, DEBIAN = "20 neighbors per node", "Debian small"
_SCHEMA = """
node_sets { key: "package" value { metadata { filename: "packages.csv" }
  features { key: "package_id" value { dtype: DT_INT64 } } features { key: "x" value { dtype: DT_FLOAT } }
  features { key: "section" value { dtype: DT_INT64 } } features { key: "split" value { dtype: DT_STRING } } } }
edge_sets { key: "depends" value { source: "package" target: "package" metadata { filename: "depends.csv" } } }
"""


def unchanged(graph: GraphView) -> GraphView:
    """The transform of the graph of random numbers."""
    return graph


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Prepared]:
    """Samples and transforms both graphs, and learns budgets."""
    folder = tmp_path_factory.mktemp("ego")
    sources = {DEBIAN: (TASK.tables_dir, TASK.preprocessing_fn), FULL: (_tables(folder), f"{__name__}:unchanged")}
    return {
        name: prepare(
            folder / name.partition(" ")[0],
            tables_dir=tables,
            sampling=SubgraphExampleGenOptions(plan=PLAN),
            transform=GraphTransformOptions(
                preprocessing_fn=preprocessing_fn, analyze_splits=("train", "val"), analyze="unique_items"
            ),
            sizes=SizeConstraintLearnerOptions(batch_size=BATCH_SIZE),
        )
        for name, (tables, preprocessing_fn) in sources.items()
    }


def _tables(folder: Path) -> str:
    random = np.random.default_rng(0)
    (folder / "graph_schema.pbtxt").write_text(_SCHEMA)
    splits = ("train", "train", "val")
    rows = [f"p{i},{i},{random.normal()},{i % _NUM_CLASSES},{splits[i % 3]}" for i in range(_NUM_NODES)]
    (folder / "packages.csv").write_text("\n".join(["id,package_id,x,section,split", *rows]))
    neighbors = [random.choice(_NUM_NODES, _NUM_NEIGHBORS, replace=False) for _ in range(_NUM_NODES)]
    pairs = [f"p{i},p{j}" for i, found in enumerate(neighbors) for j in found]
    (folder / "depends.csv").write_text("\n".join(["source,target", *pairs]))
    return str(folder)


def options(name: str, graph: str = DEBIAN) -> GraphTrainerOptions:
    """What to train under a rival's name."""
    model, batching = _KINDS[name]
    # Messages go from a dependency to what depends on it, as in trees.
    along_hops = {"receiver_tags": [0]} if model == "graph_sage" else {}
    return GraphTrainerOptions(
        model_fn=f"tfx_gnn.models.model_fns:{model}",
        task=TASK.prediction if graph == DEBIAN else _OF_NUMBERS,
        num_epochs=NUM_EPOCHS,
        hyperparameters={
            "units": UNITS,
            "learning_rate": 0.003,
            "features": {"ignored": ["package.package_id"]},
            **along_hops,
        },
        batching=BatchingOptions(kind=batching, batch_size=BATCH_SIZE),
    )


def setup_of(data: Prepared, name: str, graph: str) -> TrainingSetup:
    """Reads everything that a rival's training needs."""
    folders = TrainerFolders(
        transformed_examples_dir=data.path("transformed_examples"),
        transform_graph_dir=data.path("transform_graph"),
        graph_schema_dir=data.path("graph_schema"),
        transformed_graph_schema_dir=data.path("transformed_graph_schema"),
        size_constraints_dir=data.path("size_constraints"),
    )
    return TrainingSetup(folders, tf.distribute.get_strategy(), options(name, graph))


def _batches(setup: TrainingSetup) -> tf.data.Dataset:
    context = tf.distribute.InputContext()
    batches = setup.data.of_pipeline(context, epochs=tf.data.Dataset.range(1), keep=None)
    return weighted_training_batches(batches, setup.labelled)


@pytest.mark.parametrize("graph", [FULL, DEBIAN])
@pytest.mark.parametrize("in_xla", [False, True], ids=["plain", "xla"])
def bench_train_step(report: Report, graphs: dict[str, Prepared], graph: str, *, in_xla: bool) -> None:
    """Forward, backward and Adam on one batch in memory; packed batches hold 128 graphs on average."""
    runs: dict[str, Callable[[], Any]] = {}
    for name in _KINDS:
        setup = setup_of(graphs[graph], name, graph)
        (batch,) = _batches(setup).take(1)
        model = setup.builder.build(setup.sample.graph)
        runs[name] = functools.partial(_steps, _train_step(model, in_xla=in_xla), batch)
    report.compare(
        f"train step of GraphSAGE, {graph}{', in XLA' if in_xla else ''}",
        runs,
        {OF_SUBGRAPHS: Bound(at_least=4.0)} if graph == FULL else {},
        items=_STEPS * BATCH_SIZE,
        unit="seeds",
    )


_STEPS = 5


def _train_step(model: Any, *, in_xla: bool) -> Callable[[Any], Any]:
    @functools.partial(tf.function, jit_compile=in_xla, autograph=False)
    def step(batch: Any) -> tf.Tensor:
        return model.train_step((batch.graph, batch.labels, batch.weights))["loss"]

    return step


def _steps(step: Callable[[Any], Any], batch: Any) -> None:
    for _ in range(_STEPS):
        loss = step(batch)
    assert loss.numpy() > 0.0


@pytest.mark.parametrize("graph", [FULL, DEBIAN])
def bench_input(report: Report, graphs: dict[str, Prepared], graph: str) -> None:
    """Reads, parses and batches the training split once."""
    setups = {name: setup_of(graphs[graph], name, graph) for name in _KINDS}

    def read(name: str) -> None:
        for _ in _batches(setups[name]):
            pass

    report.compare(
        f"one pass over the training split, {graph}",
        {name: functools.partial(read, name) for name in _KINDS},
        {},
        items=setups[OURS].inputs.num_train_examples,
        unit="examples",
        rounds=3,
    )


def bench_training(report: Report, graphs: dict[str, Prepared]) -> None:
    """Trains with three seeds: accuracy on the validation split, and graphs per second without the first epoch."""
    found = {}
    data = graphs[DEBIAN]
    for name, (_, batching) in _KINDS.items():
        of_kind = Prepared(folder=data.folder / batching, others={key: data.path(key) for key in _FOLDERS})
        summaries = [train(of_kind, options(name), seed=seed) for seed in SEEDS]
        accuracy = Spread(tuple(summary.epochs[-1]["val_accuracy"] for summary in summaries))
        speed = statistics.median(
            epoch.graphs_per_second for summary in summaries for epoch in summary.epoch_inputs[1:]
        )
        found[name] = accuracy, speed
    (ours, our_speed), (theirs, their_speed) = found[OURS], found[OF_SUBGRAPHS]
    report.add(Row(what="training on Debian small: accuracy", ours=str(ours), peer=OF_SUBGRAPHS, theirs=str(theirs)))
    report.add(
        Row(
            what="training on Debian small, whole epochs",
            ours=f"{our_speed:,.0f} graphs/s",
            peer=OF_SUBGRAPHS,
            theirs=f"{their_speed:,.0f} graphs/s",
            figure=our_speed / their_speed,
        )
    )
    report.repeat(lambda: None, rounds=1)


_FOLDERS = (
    "examples",
    "graph_schema",
    "transform_graph",
    "transformed_examples",
    "transformed_graph_schema",
    "size_constraints",
)
