"""Trains one small model on the same global batches under one strategy or several; prints the weights as JSON.

Arguments: folder of the examples, and what to run: "alone" for all strategies of one process, or a strategy of several
processes.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from unittest import mock

import numpy as np
import tensorflow as tf
import tf_keras

from tfx_gnn.distribution.cluster import cluster_role, serve
from tfx_gnn.distribution.options import StrategyOptions
from tfx_gnn.distribution.sharding import choose_sharding, num_input_pipelines
from tfx_gnn.distribution.strategies import make_strategy
from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.records.examples_folder import record_files
from tfx_gnn.records.size_constraints_file import Budget
from tfx_gnn.training.data.input_pipeline import LabelledGraphs, evaluation_dataset, expected_steps
from tfx_gnn.training.data.replica_input import (
    DistributedTrainingInput,
    TrainingInput,
    distributed_evaluation_input,
)
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn.training.loop.steps import (
    CoordinatedSteps,
    ReplicaSteps,
    SynchronousSteps,
    make_test_step,
    make_train_step,
)
from tfx_gnn.training.loop.training_loop import TrainingPosition, TrainingState, train

SCHEMA = """
node_sets { key: "item" value {
    features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 2 } } } } } }
node_sets { key: "_readout" value { features { key: "y" value { dtype: DT_INT64 } } } }
edge_sets { key: "link" value { source: "item" target: "item" } }
edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
"""
SPEC = create_graph_spec_from_schema_pb(parse_schema(SCHEMA))
#: 5 steps an epoch; the last one has 6 graphs, which leave one of four replicas without any.
NUM_TRAIN, NUM_EVAL, GLOBAL_BATCH, NUM_EPOCHS = 38, 11, 8, 4
LABELLED = LabelledGraphs(
    graph_spec=SPEC,
    objective=NodeClassification(label_feature="y", num_classes=3, class_weights={"0": 2.0}).objective(),
)


def example(number):
    """Graph of 1 to 3 items, of which all but the first point to the first."""
    size = 1 + number % 3
    values = np.random.default_rng(number).normal(size=2 * size)
    return {
        "nodes/item.#size": [size],
        "nodes/item.x": values.tolist(),
        "nodes/_readout.#size": [1],
        "nodes/_readout.y": [int(values[0] > 0) + int(values[1] > 0)],
        "edges/link.#size": [size - 1],
        "edges/link.#source": list(range(1, size)),
        "edges/link.#target": [0] * (size - 1),
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }


class Model(tf_keras.Model):
    """One convolution, and one layer behind it."""

    def __init__(self):
        super().__init__()
        initial = tf_keras.initializers.GlorotUniform(seed=1)
        self._hidden = tf_keras.layers.Dense(8, "relu", kernel_initializer=initial)
        self._logits = tf_keras.layers.Dense(3, kernel_initializer=initial)

    def call(self, graph, training=None):
        hidden = self._hidden(graph.node_sets["item"]["x"])
        link = graph.edge_sets["link"].adjacency
        hidden += tf.math.unsorted_segment_sum(tf.gather(hidden, link.source), link.target, hidden.shape[0])
        return self._logits(tf.gather(hidden, graph.edge_sets["_readout/seed"].adjacency.source))


def budget(batch_size):
    components = batch_size + 1
    return Budget(
        kind="tight",
        batch_size=batch_size,
        total_num_components=components,
        total_num_nodes={"item": 3 * batch_size + 1, "_readout": components},
        total_num_edges={"link": 2 * batch_size, "_readout/seed": components},
        min_nodes_per_component={"_readout": 1},
        graphs_per_batch=float(batch_size),
        fill=0.5,
        fill_by_set={},
        bytes_per_batch=0,
    )


@functools.cache
def sample(folder):
    """A graph by which models are built; they take graphs of any size."""
    files, size = record_files(folder, ("val",)), budget(1)
    return next(iter(evaluation_dataset(files, LABELLED, budget=size, num_batches=1, num_counted={"": 1}))).graph


def run(
    folder,
    strategy,
    *,
    global_batch=GLOBAL_BATCH,
    num_epochs=NUM_EPOCHS,
    start=None,
    is_watched=True,
    **steps_options,
):
    """Weights, last evaluation and figures of one training."""
    train_files, eval_files = (record_files(folder, (split,)) for split in ("train", "val"))
    num_replicas, num_pipelines = strategy.num_replicas_in_sync, num_input_pipelines(strategy)
    is_served = isinstance(strategy, tf.distribute.ParameterServerStrategy)
    of_replica = budget(global_batch // num_replicas)
    data = TrainingInput(
        files=train_files,
        labelled=LABELLED,
        budget=of_replica,
        batching="tight",
        shuffle_buffer_size=1,
        seed=3,
        sharding=choose_sharding(num_files=len(train_files), num_pipelines=num_pipelines, asked="data"),
    )
    with strategy.scope():
        model = Model()
        model(sample(folder))
        model.compile(
            # With averages, which take the place of the weights in the end.
            tf_keras.optimizers.Adam(0.01, use_ema=True, ema_momentum=0.5),
            **LABELLED.objective.compile_arguments(),
        )
        model.optimizer.build(model.trainable_variables)
    evaluate = None
    if is_watched:
        evaluator = tf.distribute.get_strategy() if is_served else strategy
        num_eval_steps = expected_steps(of_replica, NUM_EVAL, evaluator.num_replicas_in_sync)
        eval_data = distributed_evaluation_input(
            evaluator,
            eval_files,
            LABELLED,
            budget=of_replica,
            num_steps=num_eval_steps,
            num_counted={"": NUM_EVAL},
            num_pipelines=num_pipelines,
        )
        eval_batches = iter(eval_data)
        measure = ReplicaSteps(evaluator, model, make_test_step(model))

        def evaluate():
            return measure(eval_batches, num_eval_steps).logs

    step = make_train_step(model, strategy)
    if is_served:
        # One after another: in whatever order workers finished otherwise, no two trainings would be the same.
        steps = CoordinatedSteps(strategy, model, step, data, steps_per_epoch=1, steps_per_join=1)
    else:
        steps = SynchronousSteps(
            ReplicaSteps(strategy, model, step, leave_out_uncounted=True, jit_compile=steps_options.pop("jit", False)),
            DistributedTrainingInput(strategy, data, num_epochs=num_epochs),
            steps_per_execution=steps_options.pop("at_once", 1),
        )
    state = TrainingState(position=start or TrainingPosition())
    train(
        model,
        steps,
        evaluate=evaluate or dict,
        num_epochs=num_epochs,
        state=state,
    )
    return {
        "weights": [weight.tolist() for weight in model.get_weights()],
        "history": state.history,
        "num_steps": state.position.global_step,
        "num_graphs": [figures.num_graphs for figures in state.inputs],
        "num_batches": [figures.num_batches for figures in state.inputs],
        "waited": [figures.input_bound_share for figures in state.inputs],
        "iterations": int(model.optimizer.iterations.numpy()),
    }


def mirrored(count):
    """A strategy of logical CPUs; a process cannot have several of several devices."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    return make_strategy(StrategyOptions(kind="mirrored", devices=tuple(f"CPU:{i}" for i in range(count))))


def up_to_two(folder):
    """One device, and two; and a TPU of two cores, which is the same here."""
    two = mirrored(2)
    with contextlib.ExitStack() as patches:
        for owner, name, value in [
            (tf.distribute.cluster_resolver, "TPUClusterResolver", lambda **_: None),
            (tf.config, "experimental_connect_to_cluster", lambda _: None),
            (tf.tpu.experimental, "initialize_tpu_system", lambda _: None),
            (tf.distribute, "TPUStrategy", lambda _: two),
        ]:
            patches.enter_context(mock.patch.object(owner, name, value))
        tpu = make_strategy(StrategyOptions(kind="tpu", tpu="local"))
    default, one_device = make_strategy(StrategyOptions()), make_strategy(StrategyOptions(kind="one_device"))
    third_step_of_last_epoch = TrainingPosition(epoch=3, step_in_epoch=2, global_step=17)
    return {
        "default": run(folder, default),
        "one device, several steps at once, compiled": run(folder, one_device, at_once=3, jit=True),
        "all in one batch": run(folder, default, global_batch=NUM_TRAIN, num_epochs=20),
        "from the third step": run(folder, default, start=third_step_of_last_epoch, is_watched=False),
        "mirrored, 2": run(folder, two),
        "patched tpu": run(folder, tpu, at_once=4),
    }


def four(folder):
    """Four devices."""
    return {"mirrored, 4": run(folder, mirrored(4))}


def traced_as_in_training(part, folder):
    """What one part gives."""
    with libraries_traced_as_written():
        return part(folder)


def alone(folder):
    """All strategies of one process, in two processes that import once together."""
    # As in tests/conftest.py: tracing makes many objects that live on, and imports made many more.
    gc.set_threshold(500_000, 20, 20)
    gc.freeze()
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as processes:
        parts = [processes.submit(traced_as_in_training, part, folder) for part in (up_to_two, four)]
        return {name: found for part in parts for name, found in part.result().items()}


if __name__ == "__main__":
    kind = sys.argv[2]
    if kind == "alone":
        result = alone(sys.argv[1])
    elif kind == "parameter_server":
        if cluster_role().serves:
            serve(cluster_role())
        with libraries_traced_as_written():
            strategy = make_strategy(StrategyOptions(kind=kind))
            result = run(sys.argv[1], strategy, global_batch=NUM_TRAIN, num_epochs=20)
    else:
        with libraries_traced_as_written():
            result = run(sys.argv[1], make_strategy(StrategyOptions(kind=kind)))
    sys.stdout.write(json.dumps(result) + "\n")
