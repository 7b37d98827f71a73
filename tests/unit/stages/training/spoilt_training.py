"""Trains on data of which one example is too large for float32; prints what the error tells as JSON.

Arguments: folder of `write_spoilt_data`, folder for outputs, and a strategy: "mirrored" on two logical CPUs, or
"multi_worker_mirrored".
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys

import tensorflow as tf
import tf_keras

from tfx_gnn.models.tasks import NodeRegression
from tfx_gnn.stages.graph_trainer import GraphTrainerOptions, train_graph_model
from tfx_gnn.stages.training.nonfinite_guard import NonfiniteError

SCHEMA = """
node_sets { key: "item" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "x" value { dtype: DT_FLOAT } } } }
node_sets { key: "_readout" value { features { key: "y" value { dtype: DT_FLOAT } } } }
edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
"""
SPOILT = 7


def example(number):
    """One item, whose x is its label; that of one example gives an infinite squared error."""
    return {
        "nodes/item.#size": [1],
        "nodes/item.#id": [f"item {number}"],
        "nodes/item.x": [1e30 if number == SPOILT else 1.0],
        "nodes/_readout.#size": [1],
        "nodes/_readout.y": [1.0],
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }


class Slope(tf_keras.Model):
    """A single weight, 0.5 at first."""

    def __init__(self):
        super().__init__()
        half = tf_keras.initializers.Constant(0.5)
        self._dense = tf_keras.layers.Dense(1, use_bias=False, kernel_initializer=half)

    def call(self, graph, training=None):
        seed = graph.edge_sets["_readout/seed"].adjacency.source
        return self._dense(tf.gather(graph.node_sets["item"]["x"], seed)[:, tf.newaxis])


def model_fn(graph_spec):
    """The user's function."""
    return Slope()


def train(folder, outputs, strategy):
    """What the error tells."""
    devices = ("CPU:0", "CPU:1") if strategy == "mirrored" else ()
    if devices:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * len(devices))
    options = GraphTrainerOptions(
        model_fn="spoilt_training:model_fn",
        task=NodeRegression(label_feature="y"),
        batching="tight",
        batch_size=4,
        shuffle_buffer_size=1,
        num_epochs=1,
        strategy=strategy,
        devices=devices,
        steps_per_execution=3,
    )
    examples = os.path.join(folder, "examples")
    try:
        train_graph_model(
            transformed_examples_dir=examples,
            transform_graph_dir=os.path.join(folder, "transform"),
            graph_schema_dir=examples,
            transformed_graph_schema_dir=examples,
            size_constraints_dir=os.path.join(folder, "sizes"),
            model_dir=os.path.join(outputs, "model"),
            model_run_dir=os.path.join(outputs, "run"),
            options=options,
        )
    except NonfiniteError as error:
        return {"message": str(error), "cause": dataclasses.asdict(error.cause), "folder": error.folder}
    return {}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(train(*sys.argv[1:])) + "\n")
