"""Trainings that are timed, each in a process of its own, on subgraphs of the Debian graph.

`python training_runs.py RUN DATA SETTINGS` prints a JSON in the last line: graphs per second of each epoch.
The model is the same in all of them: hashed identities and numbers, two rounds of messages toward the seed, a
linear classifier of its state.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Before anything imports TensorFlow: tensorflow-gnn needs Keras 2 under the name tf.keras.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
import tensorflow_transform as tft
import tf_keras

BATCH_SIZE = 128
NUM_EPOCHS = 4
STEPS_PER_EXECUTION = 10
SHUFFLE_BUFFER_SIZE = 10_000
UNITS, NUM_LAYERS, NUM_BUCKETS = 64, 2, 2048
SEED_SET, LABEL = "package", "section"
READOUT = "_readout"


def model_fn(graph_spec: Any, tft_output: tft.TFTransformOutput) -> tf_keras.Model:
    """Our model, for `GraphTrainerOptions.model_fn`.

    Args:
        graph_spec: spec of a merged graph without labels.
        tft_output: knows the number of classes.

    Returns:
        The compiled model.
    """
    import tfx_gnn
    from tfx_gnn.keras import layers
    from tfx_gnn.models import mpnn

    graph = inputs = tf_keras.layers.Input(type_spec=graph_spec)
    graph = layers.MapFeatures(node_sets_fn=_first_state)(graph)
    graph = mpnn(
        graph.spec,
        units=UNITS,
        num_layers=NUM_LAYERS,
        normalization="none",
        receiver_tags=[tfx_gnn.SOURCE],
        readout_node_sets=[SEED_SET],
        read_nodes_only=True,
    )(graph)
    logits = tf_keras.layers.Dense(tft_output.vocabulary_size_by_name(LABEL))(layers.StructuredReadout("seed")(graph))
    return _compiled(tf_keras.Model(inputs, logits))


def ours(data_dir: str, batching: str, strategy: str = "default") -> list[float]:
    """Trains by GraphTrainer.

    Args:
        data_dir: folder of prepared data.
        batching: of its options.
        strategy: of its options.

    Returns:
        Graphs per second of each epoch, by its summary.
    """
    from accuracy_runs import Prepared, train

    from tfx_gnn.components import BatchingOptions, ExecutionOptions, GraphTrainerOptions, StrategyOptions
    from tfx_gnn.models import NodeClassification

    source = Prepared(folder=Path(data_dir))
    names = ("transformed_examples", "transform_graph", "graph_schema", "transformed_graph_schema", "size_constraints")
    with tempfile.TemporaryDirectory() as folder:
        data = Prepared(folder=Path(folder), others={name: source.path(name) for name in names})
        summary = train(
            data,
            GraphTrainerOptions(
                model_fn="training_runs:model_fn",
                task=NodeClassification(label_feature=LABEL, class_vocabulary=LABEL),
                num_epochs=NUM_EPOCHS,
                batching=BatchingOptions(kind=batching, shuffle_buffer_size=SHUFFLE_BUFFER_SIZE),
                strategy=StrategyOptions(kind=strategy),
                execution=ExecutionOptions(steps_per_execution=STEPS_PER_EXECUTION),
            ),
            seed=0,
        )
    return [epoch.graphs_per_second for epoch in summary.epoch_inputs]


def tensorflow_gnn(data_dir: str) -> list[float]:
    """Trains by Keras' `fit` on batches that its guides describe: parsed, merged, filtered and padded.

    Args:
        data_dir: as for `ours`.

    Returns:
        Graphs per second of each epoch, those that were skipped left out.
    """
    tfgnn: Any = importlib.import_module("tensorflow_gnn")
    vanilla_mpnn: Any = importlib.import_module("tensorflow_gnn.models.vanilla_mpnn")
    schema = tfgnn.read_schema(f"{data_dir}/transformed_graph_schema/graph_schema.pbtxt")
    spec = tfgnn.create_graph_spec_from_schema_pb(schema)
    paths = sorted(str(path) for path in Path(data_dir, "transformed_examples", "Split-train").iterdir())
    records = tf.data.TFRecordDataset(paths, compression_type="GZIP")
    parsed = records.map(lambda record: tfgnn.parse_single_example(spec, record))
    budget = tfgnn.learn_fit_or_skip_size_constraints(
        parsed,
        BATCH_SIZE,
        min_nodes_per_component={SEED_SET: 1, READOUT: 1},
        success_ratio=0.99,
        sample_size=4000,
    )

    def prepare(graph: Any) -> tuple[Any, tf.Tensor, tf.Tensor]:
        padded, is_real = tfgnn.pad_to_total_sizes(graph, budget)
        label = padded.node_sets[READOUT][LABEL]
        return padded, tf.maximum(label, 0), tf.cast(is_real, tf.float32)

    batches = (
        records.shuffle(SHUFFLE_BUFFER_SIZE)
        .batch(BATCH_SIZE, drop_remainder=True)
        .map(lambda batch: tfgnn.parse_example(spec, batch), num_parallel_calls=tf.data.AUTOTUNE)
        .map(lambda graph: graph.merge_batch_to_components(), num_parallel_calls=tf.data.AUTOTUNE)
        .filter(functools.partial(tfgnn.satisfies_size_constraints, total_sizes=budget))
        .map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    graph = inputs = tf_keras.layers.Input(type_spec=batches.element_spec[0])
    graph = tfgnn.keras.layers.MapFeatures(node_sets_fn=_first_state)(graph)
    for _ in range(NUM_LAYERS):
        graph = vanilla_mpnn.VanillaMPNNGraphUpdate(units=UNITS, message_dim=UNITS, receiver_tag=tfgnn.SOURCE)(graph)
    seeds = tfgnn.keras.layers.ReadoutFirstNode(node_set_name=SEED_SET)(graph)
    num_classes = tft.TFTransformOutput(f"{data_dir}/transform_graph").vocabulary_size_by_name(LABEL)
    model = _compiled(tf_keras.Model(inputs, tf_keras.layers.Dense(num_classes)(seeds)))
    clock = _Clock()
    # As its runner does: one iterator for all epochs, of as many steps as there would be if nothing were skipped.
    num_steps = sum(1 for _ in records) // BATCH_SIZE
    model.fit(batches.repeat(), steps_per_epoch=num_steps, epochs=NUM_EPOCHS, callbacks=[clock], verbose=0)
    return [BATCH_SIZE * num_steps / seconds for seconds in clock.seconds]


class _Clock(tf_keras.callbacks.Callback):
    """Measures epochs."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Starts the clock."""
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Stops the clock."""
        self.seconds.append(time.perf_counter() - self._start)


def _first_state(node_set: Any, *, node_set_name: str) -> Any:
    """Of either library: an embedded hash of the identity, and numbers."""
    if node_set_name.startswith("_"):
        return {}
    identity = tf_keras.layers.Lambda(lambda index: tf.math.floormod(index, NUM_BUCKETS))(
        node_set[f"{node_set_name}_id"]
    )
    parts = [tf_keras.layers.Embedding(NUM_BUCKETS, 32)(identity)]
    if "numbers" in node_set.features:
        parts.append(node_set["numbers"])
        parts = [tf_keras.layers.Concatenate()(parts)]
    return tf_keras.layers.Dense(UNITS, activation="relu")(parts[0])


def _compiled(model: tf_keras.Model) -> tf_keras.Model:
    model.compile(
        optimizer=tf_keras.optimizers.Adam(1e-3),
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
        steps_per_execution=STEPS_PER_EXECUTION,
    )
    return model


def on_own_core(data_dir: str, batching: str) -> list[float]:
    """Trains by GraphTrainer on one core, alone or as a worker, each of which has another core."""
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"index": 0})
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[task["index"]]})
    return ours(data_dir, batching, "multi_worker_mirrored" if "TF_CONFIG" in os.environ else "default")


RUNS: Mapping[str, Callable[..., list[float]]] = {
    "ours": ours,
    "tensorflow_gnn": tensorflow_gnn,
    "on_own_core": on_own_core,
}

if __name__ == "__main__":
    run, *arguments = sys.argv[1:]
    speeds = RUNS[run](*arguments)
    sys.stdout.write(f"\n{json.dumps({'speeds': speeds})}\n")
