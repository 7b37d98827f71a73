"""Trains on data of which one example spoils the training; prints what the errors tell as JSON.

Arguments: folder of the data, folder for outputs, and strategies, with commas between: "one_device", "mirrored" on two
logical CPUs, or one of several processes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys

import tensorflow as tf
import tf_keras

from tfx_gnn.components.graph_trainer.stage import train_graph_model
from tfx_gnn.components.graph_trainer.training_run import Exporters
from tfx_gnn.distribution.options import StrategyOptions
from tfx_gnn.models.tasks import NodeRegression
from tfx_gnn.training.checkpoints.nonfinite_guard import NonfiniteError, NonfiniteEvaluationError
from tfx_gnn.training.options import BatchingOptions, ExecutionOptions, GraphTrainerOptions

SCHEMA = """
node_sets { key: "item" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "x" value { dtype: DT_FLOAT } } } }
node_sets { key: "_readout" value { features { key: "y" value { dtype: DT_FLOAT } } } }
edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
"""
SPOILT = {
    # An infinite squared error.
    "large": {7: 1e30},
    # No error, as the model hides it, but a gradient that is none; and no step follows that could show it.
    "hidden": {11: float("nan")},
    # In the watched split alone. The model hides the first one, so the loss of its batch is finite.
    "watched": {100: float("nan"), 102: 1e30},
}
FIRST_WATCHED = 100
# What each strategy trains on. Every kind of data is met by one process and by several; the search for a batch of
# replicas that train in step is the same whether they are devices or workers.
SPOILT_FOR = {
    "one_device": ("large", "watched"),
    "mirrored": ("hidden",),
    "multi_worker_mirrored": ("large", "watched"),
    "parameter_server": ("large", "hidden", "watched"),
}


def example(number, spoilt):
    """One item, whose x is its label, unless it is spoilt."""
    return {
        "nodes/item.#size": [1],
        "nodes/item.#id": [f"item {number}"],
        "nodes/item.x": [SPOILT[spoilt].get(number, 1.0)],
        "nodes/_readout.#size": [1],
        "nodes/_readout.y": [1.0],
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }


class Slope(tf_keras.Model):
    """A single weight, 0.5 at first; hides NaN, as relu does on some processors."""

    def __init__(self):
        super().__init__()
        half = tf_keras.initializers.Constant(0.5)
        self._dense = tf_keras.layers.Dense(1, use_bias=False, kernel_initializer=half)

    def call(self, graph, training=None):
        seed = graph.edge_sets["_readout/seed"].adjacency.source
        output = self._dense(tf.gather(graph.node_sets["item"]["x"], seed)[:, tf.newaxis])
        return tf.where(tf.math.is_nan(output), 0.0, output)


def model_fn(graph_spec):
    """The user's function."""
    return Slope()


class Unwritten:
    """Instead of the trial export, which takes longer than the training: an empty folder."""

    def __init__(self, **_):
        pass

    def save(self, folder):
        os.makedirs(folder)


def train(folder, outputs, strategy, spoilt):
    """What the error tells."""
    options = GraphTrainerOptions(
        model_fn="spoilt_training:model_fn",
        task=NodeRegression(label_feature="y"),
        num_epochs=1,
        batching=BatchingOptions(kind="tight", batch_size=4 if "mirrored" in strategy else 2, shuffle_buffer_size=1),
        strategy=StrategyOptions(kind=strategy, devices=("CPU:0", "CPU:1") if strategy == "mirrored" else ()),
        execution=ExecutionOptions(steps_per_execution=3),
    )
    examples = os.path.join(folder, spoilt)
    try:
        train_graph_model(
            transformed_examples_dir=examples,
            transform_graph_dir=os.path.join(folder, "transform"),
            graph_schema_dir=examples,
            transformed_graph_schema_dir=examples,
            size_constraints_dir=os.path.join(folder, "sizes", spoilt),
            model_dir=os.path.join(outputs, strategy, spoilt, "model"),
            model_run_dir=os.path.join(outputs, strategy, spoilt, "run"),
            options=options,
            exporters=Exporters(served_model=Unwritten, training_reference=Unwritten),
        )
    except NonfiniteError as error:
        return {"message": str(error), "cause": dataclasses.asdict(error.cause), "folder": error.folder}
    except NonfiniteEvaluationError as error:
        return {"message": str(error), "tensor": error.tensor, "ids": error.example_ids}
    return {}


if __name__ == "__main__":
    folder, outputs, strategies = sys.argv[1:]
    if "mirrored" in strategies.split(","):
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    found = {
        strategy: {spoilt: train(folder, outputs, strategy, spoilt) for spoilt in SPOILT_FOR[strategy]}
        for strategy in strategies.split(",")
    }
    sys.stdout.write(json.dumps(found) + "\n")
