"""Input of a training on the quickstart's subgraphs: ready-made, packed, fit-or-skip and tight batches.

The examples are those that GraphTransform makes of the quickstart's tables, the budgets are learned from them, and the
network is the quickstart's.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tf_keras
from comparison import OURS, Bound, Report, Row, run_process
from heavy_tailed_graphs import consumer
from precomputed_batches_runs import learn
from transform_runs import make_examples, run_ours

import tfx_gnn
from tfx_gnn.graph import create_graph_spec_from_schema_pb, read_schema
from tfx_gnn.models import NodeClassification
from tfx_gnn.records import SizeConstraintsFile, read_size_constraints
from tfx_gnn.records.examples_folder import record_files, shuffled_records
from tfx_gnn.training import (
    PrecomputedBatchesManifest,
    PrecomputedBatchesOptions,
    padded_batches,
    precomputed_batches_dataset,
    write_precomputed_batches,
)
from tfx_gnn.training.data.input_pipeline import LabelledGraphs, weighted_training_batches
from tfx_gnn.training.data.padded_batches import BUDGET_KINDS
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn_pipelines.tasks.debian_sections.model import LABEL_VOCABULARY, model_fn
from tfx_gnn_pipelines.tasks.debian_sections.preprocessing import LABEL

PARSED = "parse_and_merge, from memory"
READY_BOUND = Bound(at_least=3.0)
#: Peak memory with ten times the examples over that with one.
MEMORY_BOUND = Bound(at_most=1.1)

_BATCH_SIZE = 32
_NUM_PASSES = 5
_MIB = 2**20


def _first_epoch() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(tf.zeros([], tf.int64))


@dataclasses.dataclass(frozen=True)
class Data:
    """What a training gets, but for its model.

    Attributes:
        spec: of a transformed graph.
        examples_dir: the transformed examples.
        schema_dir: their schema.
        transform_graph_dir: the transform.
        budgets: learned from them.
        precomputed_batches_dir: an epoch of packed batches.
        manifest: what is in there.
    """

    spec: Any
    examples_dir: str
    schema_dir: str
    transform_graph_dir: str
    budgets: SizeConstraintsFile
    precomputed_batches_dir: str
    manifest: PrecomputedBatchesManifest

    def batches(self, batching: str, batch_size: int = _BATCH_SIZE) -> tf.data.Dataset:
        """Makes padded batches of what is in the files, one pass."""
        budget = self.budgets.find(BUDGET_KINDS[batching], batch_size)
        files = record_files(self.examples_dir, ("train",))
        records = shuffled_records(files, epochs=_first_epoch(), shuffle_buffer_size=10_000, seed=0)
        return padded_batches(records, self.spec, budget, batching)

    def precomputed_batches(self) -> tf.data.Dataset:
        """Reads an epoch of packed batches."""
        return precomputed_batches_dataset(
            self.precomputed_batches_dir,
            transformed_examples_dir=self.examples_dir,
            transformed_graph_schema_dir=self.schema_dir,
            budget=self.manifest.budget,
            epochs=_first_epoch(),
        )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """The quickstart's examples, transformed; their budgets; and precomputed batches of all, for one epoch."""
    raw, transformed, sizes, ready = (
        str(tmp_path_factory.mktemp("precomputed_batches") / name) for name in ("raw", "transformed", "sizes", "ready")
    )
    make_examples(raw, 1)
    run_ours(raw, transformed)
    examples_dir, schema_dir = os.path.join(transformed, "examples"), os.path.join(transformed, "schema")
    learn(examples_dir, sizes, schema_dir)
    manifest = write_precomputed_batches(
        transformed_examples_dir=examples_dir,
        transformed_graph_schema_dir=schema_dir,
        size_constraints_dir=sizes,
        precomputed_batches_dir=ready,
        options=PrecomputedBatchesOptions(num_epochs=_NUM_PASSES),
    )
    return Data(
        spec=create_graph_spec_from_schema_pb(read_schema(os.path.join(schema_dir, "graph_schema.pbtxt"))),
        examples_dir=examples_dir,
        schema_dir=schema_dir,
        transform_graph_dir=os.path.join(transformed, "transform_graph"),
        budgets=read_size_constraints(sizes),
        precomputed_batches_dir=ready,
        manifest=manifest,
    )


def bench_input(report: Report, data: Data) -> None:
    """Reads batches, and does nothing with them."""
    epoch = data.manifest.epochs[0]
    files = record_files(data.examples_dir, ("train",))
    in_memory = list(
        shuffled_records(files, epochs=_first_epoch(), shuffle_buffer_size=10_000, seed=0).as_numpy_iterator()
    )
    merged = (
        tf.data.Dataset.from_tensor_slices(tf.constant(in_memory))
        .repeat()
        .batch(_BATCH_SIZE, drop_remainder=True)
        .map(lambda serialized: tfx_gnn.parse_and_merge(data.spec, serialized), num_parallel_calls=tf.data.AUTOTUNE)
    )

    def whole_epochs(batches: tf.data.Dataset, num_batches: int) -> Callable[[], None]:
        return consumer(batches.repeat(), num_batches)

    def per_epoch(batching: str) -> int:
        return sum(1 for _ in data.batches(batching))

    report.compare(
        f"input of a training, {epoch.num_graphs:,} graphs",
        {
            OURS: whole_epochs(data.precomputed_batches(), epoch.num_batches),
            PARSED: consumer(merged, epoch.num_graphs // _BATCH_SIZE),
            **{
                f"{batching}, from files": whole_epochs(data.batches(batching), per_epoch(batching))
                for batching in BUDGET_KINDS
            },
        },
        {PARSED: READY_BOUND},
        items=epoch.num_graphs,
        unit="graphs",
    )
    on_disk = sum(os.path.getsize(file.path) for file in files)
    report.add(
        Row(
            what="precomputed batches on disk, an epoch",
            ours=f"{epoch.num_bytes / _MIB:.1f} MiB",
            peer="the examples, gzipped",
            theirs=f"{on_disk / _MIB:.1f} MiB",
            figure=epoch.num_bytes / on_disk,
        )
    )


@pytest.mark.parametrize("batch_size", [_BATCH_SIZE, 128])
def bench_training(report: Report, data: Data, batch_size: int) -> None:
    """Trains the quickstart's network for an epoch on batches of each kind."""
    tft_output = tft.TFTransformOutput(data.transform_graph_dir)
    num_graphs = data.manifest.epochs[0].num_graphs
    labelled = LabelledGraphs(
        graph_spec=data.spec,
        objective=NodeClassification(label_feature=LABEL, class_vocabulary=LABEL_VOCABULARY).objective(
            tft_output.vocabulary_by_name
        ),
    )
    names = {"packed": OURS, "fit_or_skip": "fit-or-skip", "tight": "tight"}
    datasets = {
        name: weighted_training_batches(data.batches(batching, batch_size), labelled)
        for batching, name in names.items()
    }
    if batch_size == _BATCH_SIZE:
        datasets["packed, ready-made"] = weighted_training_batches(data.precomputed_batches(), labelled)
    with libraries_traced_as_written():
        report.compare(
            f"training, packed, batches of {batch_size}",
            {name: _training(tft_output, dataset) for name, dataset in datasets.items()},
            {},
            # Fit-or-skip trains on one in a hundred less.
            items=_NUM_PASSES * num_graphs,
            unit="graphs",
            rounds=3,
        )
    for batching, kind in BUDGET_KINDS.items():
        budget = data.budgets.find(kind, batch_size)
        report.add(
            Row(
                what=f"fill of {batching} batches of {batch_size}, all nodes and edges",
                ours=f"{budget.graphs_per_batch:.1f} graphs in a batch",
                figure=budget.fill,
                unit="real",
            )
        )


def _training(tft_output: tft.TFTransformOutput, batches: tf.data.Dataset) -> Callable[[], None]:
    """Returns a function that trains a network for one epoch more; it is a new one, since shapes differ."""
    tf_keras.utils.set_random_seed(0)
    spec = batches.element_spec[0].relax(num_components=True, num_nodes=True, num_edges=True)
    model = model_fn(spec, tft_output, hyperparameters={}, num_steps=1000)
    # To start a data set takes a good part of the time of a pass over so few graphs.
    epoch = batches.map(lambda batch: tuple(batch)[:3]).repeat(_NUM_PASSES)
    return lambda: model.fit(epoch, epochs=1, verbose=0)


def bench_memory(report: Report, tmp_path: Path) -> None:
    """Writes and reads batches of the subgraphs of one graph, and of ten copies of it."""
    results: dict[tuple[str, int], dict[str, Any]] = {}

    def measure() -> None:
        for times in (1, 10):
            examples_dir, sizes_dir, ready_dir = (
                tmp_path / f"{name}_{times}" for name in ("examples", "sizes", "ready")
            )
            run_process("transform_runs.py", "examples", examples_dir, times)
            run_process("precomputed_batches_runs.py", "learn", examples_dir, sizes_dir)
            results["write", times] = run_process(
                "precomputed_batches_runs.py", "write", examples_dir, sizes_dir, ready_dir
            )
            results["read", times] = run_process("precomputed_batches_runs.py", "read", examples_dir, ready_dir)

    report.repeat(measure, rounds=1)
    for run in ("write", "read"):
        once, often = results[run, 1], results[run, 10]
        report.add(
            Row(
                what=f"peak memory to {run} batches, {often['graphs']:,} graphs over {once['graphs']:,}",
                ours=f"{often['peak'] / _MIB:,.0f} MiB",
                peer="a tenth of the data",
                theirs=f"{once['peak'] / _MIB:,.0f} MiB",
                figure=often["peak"] / once["peak"],
                bound=MEMORY_BOUND,
            )
        )
