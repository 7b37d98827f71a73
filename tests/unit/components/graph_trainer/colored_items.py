"""Items whose color their neighbours give away: a whole user project for the trainer's tests.

An item is red if the mean of its neighbours' x is above 0, else blue. Its own
x says nothing.
"""

from __future__ import annotations

import random
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
import tf_keras

from tfx_gnn.transform.graph_view import GraphView

SCHEMA = """
node_sets { key: "item" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "x" value { dtype: DT_FLOAT } }
    features { key: "kind" value { dtype: DT_STRING } } } }
node_sets { key: "_readout" value { features { key: "color" value { dtype: DT_STRING } } } }
edge_sets { key: "link" value { source: "item" target: "item"
    features { key: "#id" value { dtype: DT_INT64 } } } }
edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
"""


def subgraph(name: str, generator: random.Random) -> dict[str, list[Any]]:
    """A seed, one to five neighbours, and an edge from each of them to the seed."""
    num_neighbors = generator.randint(1, 5)
    side = generator.choice([-1.0, 1.0])
    xs = [generator.uniform(-2.0, 2.0), *(side * generator.uniform(0.5, 2.0) for _ in range(num_neighbors))]
    return {
        "nodes/item.#size": [len(xs)],
        "nodes/item.#id": [f"{name}-{i}" for i in range(len(xs))],
        "nodes/item.x": xs,
        "nodes/item.kind": [generator.choice(["round", "flat"]) for _ in xs],
        "nodes/_readout.#size": [1],
        "nodes/_readout.color": ["red" if side > 0 else "blue"],
        "edges/link.#size": [num_neighbors],
        "edges/link.#id": list(range(num_neighbors)),
        "edges/link.#source": list(range(1, len(xs))),
        "edges/link.#target": [0] * num_neighbors,
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }


def splits() -> dict[str, list[list[dict[str, list[Any]]]]]:
    """40 training examples in two files, 11 to watch, 10 to test."""
    generator = random.Random(7)
    sizes = {"train": [21, 19], "val": [11], "test": [10]}
    return {
        split: [[subgraph(f"{split}{shard}.{i}", generator) for i in range(size)] for shard, size in enumerate(shards)]
        for split, shards in sizes.items()
    }


def preprocessing_fn(graph: GraphView) -> GraphView:
    item = graph.node_sets["item"]
    color = graph.node_sets["_readout"]["color"]
    return graph.replace_features(
        node_sets={
            "item": {
                "#id": item["#id"],
                "x": tft.scale_to_z_score(item["x"]),
                "kind": tft.compute_and_apply_vocabulary(item["kind"], vocab_filename="kind", num_oov_buckets=1),
            },
            "_readout": {"color": tft.compute_and_apply_vocabulary(color, vocab_filename="color")},
        }
    )


def preprocessing_with_year_fn(graph: GraphView) -> GraphView:
    """Adds a constant column as it is in many tables, and leaves it as it is."""
    prepared = preprocessing_fn(graph)
    item = prepared.node_sets["item"]
    return prepared.replace_features(node_sets={"item": {**item, "year": 0.0 * item["x"] + 2013.0}})


class NeighborMean(tf_keras.Model):
    """A linear classifier of the mean x of the seed's neighbours."""

    def __init__(self, num_classes: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self._dropout = tf_keras.layers.Dropout(dropout)
        self._dense = tf_keras.layers.Dense(num_classes)

    def call(self, graph: Any, training: Any = None) -> tf.Tensor:
        link, seed = graph.edge_sets["link"].adjacency, graph.edge_sets["_readout/seed"].adjacency.source
        x = graph.node_sets["item"]["x"]
        mean = tf.math.unsorted_segment_mean(tf.gather(x, link.source), link.target, tf.size(x))
        mean = tf.gather(mean, seed)[:, None]
        return self._dense(self._dropout(mean, training=training))


def _compiled(model: tf_keras.Model, learning_rate: float = 0.2) -> tf_keras.Model:
    model.compile(
        optimizer=tf_keras.optimizers.Adam(learning_rate),
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
    )
    return model


def model_fn(graph_spec: Any, tft_output: tft.TFTransformOutput) -> tf_keras.Model:
    assert sorted(graph_spec.node_sets_spec["item"].features_spec) == ["kind", "x"]
    assert not graph_spec.node_sets_spec["_readout"].features_spec
    return _compiled(NeighborMean(tft_output.vocabulary_size_by_name("color"), dropout=0.2))


class _MeanAndYear(tf_keras.Model):
    """Two layers on the mean x of the seed's neighbours, and on the year of the seed if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self._hidden = tf_keras.layers.Dense(8, "tanh")
        self._dense = tf_keras.layers.Dense(2)

    def call(self, graph: Any, training: Any = None) -> tf.Tensor:
        link, seed = graph.edge_sets["link"].adjacency, graph.edge_sets["_readout/seed"].adjacency.source
        item = graph.node_sets["item"]
        mean = tf.math.unsorted_segment_mean(tf.gather(item["x"], link.source), link.target, tf.size(item["x"]))
        columns = [mean, *([item["year"]] if "year" in item.features else [])]
        return self._dense(self._hidden(tf.gather(tf.stack(columns, axis=1), seed)))


def two_layer_model_fn(graph_spec: Any) -> tf_keras.Model:
    return _compiled(_MeanAndYear(), learning_rate=0.01)


def diverging_model_fn(graph_spec: Any, tft_output: tft.TFTransformOutput) -> tf_keras.Model:
    return _compiled(NeighborMean(2), learning_rate=float("inf"))


def unchanged_model_fn(graph_spec: Any, tft_output: tft.TFTransformOutput) -> tf_keras.Model:
    return _compiled(NeighborMean(2), learning_rate=0.0)


def uncompiled_model_fn(graph_spec: Any, tft_output: tft.TFTransformOutput) -> tf_keras.Model:
    return NeighborMean(2)


def three_class_model_fn(graph_spec: Any, tft_output: tft.TFTransformOutput) -> tf_keras.Model:
    return _compiled(NeighborMean(3))


def no_model_fn(graph_spec: Any, tft_output: tft.TFTransformOutput) -> str:
    return "no model"


class _WithTable(NeighborMean):
    def __init__(self) -> None:
        super().__init__(2)
        keys_and_values = tf.lookup.KeyValueTensorInitializer([0, 1], [0.0, 1.0], tf.int64, tf.float32)
        self._table = tf.lookup.StaticHashTable(keys_and_values, 0.0)

    def call(self, graph: Any, training: Any = None) -> tf.Tensor:
        kind = self._table.lookup(tf.gather(graph.node_sets["item"]["kind"], [0]))
        return super().call(graph, training=training) + kind


def table_model_fn(graph_spec: Any, tft_output: tft.TFTransformOutput) -> tf_keras.Model:
    return _compiled(_WithTable())
