"""A tiny project whose trainings are killed: colors of items that their neighbours give away.

Each training step writes its number into the file that `STEP_FILE` names, on whatever machine it runs, so that who
kills knows how far a training is.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
import tf_keras

from tfx_gnn.components import (
    GraphTransformOptions,
    SizeConstraintLearnerOptions,
    learn_size_constraints,
    transform_graphs,
)
from tfx_gnn.records import write_split_shard
from tfx_gnn.transform import GraphView

STEP_FILE = "TFX_GNN_FAULT_STEP_FILE"
NUM_TRAIN_EXAMPLES = 192
NUM_FILES = 4
BATCH_SIZES = (4, 8)

_SCHEMA = """
node_sets { key: "item" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "x" value { dtype: DT_FLOAT } } } }
node_sets { key: "_readout" value { features { key: "color" value { dtype: DT_STRING } } } }
edge_sets { key: "link" value { source: "item" target: "item" } }
edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
"""


def prepare(folder: Path) -> None:
    """Makes what a trainer reads: examples, transformed and measured.

    Args:
        folder: existing folder; gets `examples`, `transform_graph`, `transformed`, `schema` and `sizes`.
    """
    generator = random.Random(7)
    for split, num_examples in (("train", NUM_TRAIN_EXAMPLES), ("val", 12)):
        for shard in range(NUM_FILES):
            names = [f"{split}{shard}.{index}" for index in range(num_examples // NUM_FILES)]
            records = [_example(name, generator) for name in names]
            write_split_shard(str(folder / "examples"), split, shard, NUM_FILES, records)
    (folder / "examples" / "graph_schema.pbtxt").write_text(_SCHEMA)
    transform_graphs(
        examples_dir=str(folder / "examples"),
        graph_schema_dir=str(folder / "examples"),
        transform_graph_dir=str(folder / "transform_graph"),
        transformed_examples_dir=str(folder / "transformed"),
        transformed_graph_schema_dir=str(folder / "schema"),
        options=GraphTransformOptions(preprocessing_fn=f"{__name__}:preprocessing_fn"),
    )
    learn_size_constraints(
        examples_dir=str(folder / "transformed"),
        graph_schema_dir=str(folder / "schema"),
        size_constraints_dir=str(folder / "sizes"),
        options=SizeConstraintLearnerOptions(batch_size=BATCH_SIZES[0], extra_batch_sizes=BATCH_SIZES[1:]),
    )


def preprocessing_fn(graph: GraphView) -> GraphView:
    """Scales x, and numbers the colors."""
    item, color = graph.node_sets["item"], graph.node_sets["_readout"]["color"]
    return graph.replace_features(
        node_sets={
            "item": {"#id": item["#id"], "x": tft.scale_to_z_score(item["x"])},
            "_readout": {"color": tft.compute_and_apply_vocabulary(color, vocab_filename="color")},
        }
    )


class SlowColors(tf_keras.Model):
    """Two dense layers and dropout on the mean x of the seed's neighbours; says which step it is in."""

    def __init__(self) -> None:
        super().__init__()
        self._hidden = tf_keras.layers.Dense(16, "relu")
        self._dropout = tf_keras.layers.Dropout(0.3)
        self._logits = tf_keras.layers.Dense(2)

    def call(self, graph: Any, training: Any = None) -> tf.Tensor:
        """Computes logits, float [num_readouts, 2]."""
        link, seed = graph.edge_sets["link"].adjacency, graph.edge_sets["_readout/seed"].adjacency.source
        x = graph.node_sets["item"]["x"]
        mean = tf.math.unsorted_segment_mean(tf.gather(x, link.source), link.target, tf.size(x))
        hidden = self._hidden(tf.gather(mean, seed)[:, None])
        return self._logits(self._dropout(hidden, training=training))

    def train_step(self, data: Any) -> Any:
        """Does what Keras does, and writes the number of the step."""
        outputs = super().train_step(data)
        path = os.environ.get(STEP_FILE)
        if path is not None:
            with tf.control_dependencies(tf.nest.flatten(outputs)):
                tf.io.write_file(path, tf.strings.as_string(self.optimizer.iterations))
        return outputs


def model_fn(graph_spec: Any) -> tf_keras.Model:
    """Builds and compiles the model."""
    assert "x" in graph_spec.node_sets_spec["item"].features_spec
    model = SlowColors()
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf_keras.optimizers.Adam(0.01), loss, weighted_metrics=["accuracy"])
    return model


def _example(name: str, generator: random.Random) -> bytes:
    num_neighbors, side = generator.randint(1, 5), generator.choice([-1.0, 1.0])
    xs = [generator.uniform(-2.0, 2.0), *(side * generator.uniform(-0.5, 2.0) for _ in range(num_neighbors))]
    content: dict[str, list[Any]] = {
        "nodes/item.#size": [len(xs)],
        "nodes/item.#id": [f"{name}-{index}".encode() for index in range(len(xs))],
        "nodes/item.x": xs,
        "nodes/_readout.#size": [1],
        "nodes/_readout.color": [b"red" if side > 0 else b"blue"],
        "edges/link.#size": [num_neighbors],
        "edges/link.#source": list(range(1, len(xs))),
        "edges/link.#target": [0] * num_neighbors,
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }
    features = {}
    for key, values in content.items():
        if isinstance(values[0], bytes):
            features[key] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif isinstance(values[0], float):
            features[key] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            features[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(deterministic=True))
