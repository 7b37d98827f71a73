"""Heterogeneous graphs of heavy-tailed sizes, as serialized tf.Examples in memory.

A graph has about 150 nodes of three kinds and 230 edges of four, and takes about 20 kB, most of
it for the papers' 128 floats. The size of each set is drawn on its own from a log-normal
distribution: one in a hundred is over four times the mean.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tfx_gnn

SCHEMA = """
context { features { key: "year" value { dtype: DT_INT64 shape { dim { size: 1 } } } } }
node_sets {
  key: "paper"
  value {
    features { key: "embedding" value { dtype: DT_FLOAT shape { dim { size: 128 } } } }
    features { key: "citations" value { dtype: DT_INT64 } }
  }
}
node_sets {
  key: "author"
  value { features { key: "affiliation" value { dtype: DT_INT64 } } }
}
node_sets {
  key: "topic"
  value { features { key: "weight" value { dtype: DT_FLOAT } } }
}
edge_sets { key: "cites" value { source: "paper" target: "paper" } }
edge_sets { key: "writes" value { source: "author" target: "paper" } }
edge_sets { key: "about" value { source: "paper" target: "topic" } }
edge_sets {
  key: "knows"
  value { source: "author" target: "author" features { key: "since" value { dtype: DT_INT64 } } }
}
"""

#: Mean number of items by set, before sizes are clipped.
MEAN_SIZES = {
    "nodes/paper": 36,
    "nodes/author": 84,
    "nodes/topic": 30,
    "edges/cites": 50,
    "edges/writes": 90,
    "edges/about": 40,
    "edges/knows": 50,
}
_ENDS = {
    "edges/cites": ("paper", "paper"),
    "edges/writes": ("author", "paper"),
    "edges/about": ("paper", "topic"),
    "edges/knows": ("author", "author"),
}
#: Of the logarithm of a size.
_DEVIATION = 0.8
#: Largest size, as a multiple of the mean: the largest graph takes a third of a batch of 32.
_LARGEST = 10


def draw_sizes(num_graphs: int, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Draws the number of items of each set, at least 1.

    Args:
        num_graphs: how many graphs to draw.
        seed: the same seed gives the same sizes.

    Returns:
        Set keys, such as "nodes/paper", to int64 arrays of shape [num_graphs].
    """
    random = np.random.default_rng(seed)
    sizes = {}
    for key, mean in MEAN_SIZES.items():
        drawn = mean * random.lognormal(-(_DEVIATION**2) / 2, _DEVIATION, num_graphs)
        sizes[key] = np.clip(np.rint(drawn), 1, _LARGEST * mean).astype(np.int64)
    return sizes


@functools.cache
def serialized_graphs(num_graphs: int, seed: int = 0) -> tuple[bytes, ...]:
    """Makes graphs; the same arguments give the same bytes.

    Args:
        num_graphs: how many.
        seed: of sizes and values.

    Returns:
        Serialized tf.Examples.
    """
    random = np.random.default_rng([seed, 1])
    sizes = draw_sizes(num_graphs, seed)
    return tuple(
        _serialize({key: int(values[position]) for key, values in sizes.items()}, random)
        for position in range(num_graphs)
    )


def _serialize(sizes: dict[str, int], random: np.random.Generator) -> bytes:
    features = {f"{key}.#size": _ints([size]) for key, size in sizes.items()}
    features["context/year"] = _ints(random.integers(1990, 2030, 1))
    features["nodes/paper.embedding"] = _floats(random.random(128 * sizes["nodes/paper"], np.float32))
    features["nodes/paper.citations"] = _ints(random.integers(0, 1000, sizes["nodes/paper"]))
    features["nodes/author.affiliation"] = _ints(random.integers(0, 10_000, sizes["nodes/author"]))
    features["nodes/topic.weight"] = _floats(random.random(sizes["nodes/topic"], np.float32))
    features["edges/knows.since"] = _ints(random.integers(1990, 2030, sizes["edges/knows"]))
    for key, (source, target) in _ENDS.items():
        features[f"{key}.#source"] = _ints(random.integers(0, sizes[f"nodes/{source}"], sizes[key]))
        features[f"{key}.#target"] = _ints(random.integers(0, sizes[f"nodes/{target}"], sizes[key]))
    example = tf.train.Example(features=tf.train.Features(feature=features))
    record: bytes = example.SerializeToString(deterministic=True)
    return record


def _ints(values: Sequence[int] | np.ndarray[Any, Any]) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _floats(values: np.ndarray[Any, Any]) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def graph_spec() -> Any:
    """Returns the spec of one graph."""
    return tfx_gnn.create_graph_spec_from_schema_pb(tfx_gnn.parse_schema(SCHEMA))


def records(num_graphs: int) -> tf.data.Dataset:
    """Makes an endless data set of serialized graphs that are in memory already."""
    return tf.data.Dataset.from_tensor_slices(tf.constant(serialized_graphs(num_graphs))).repeat()


def consumer(dataset: tf.data.Dataset, num_elements: int) -> Callable[[], None]:
    """Returns a function that takes a number of elements from an endless data set.

    Each call goes on where the one before has stopped, so that only steady work is timed: to start
    a data set takes TensorFlow a tenth of a second. Elements stay outside Python.
    """
    options = tf.data.Options()
    # Nothing may run ahead while somebody else is timed, beyond what a data set asks for itself.
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    options.experimental_optimization.map_and_batch_fusion = False
    iterator = iter(dataset.map(lambda *_: np.int64(1)).batch(num_elements).with_options(options))

    def consume() -> None:
        next(iterator)

    return consume


def python_consumer(dataset: tf.data.Dataset, num_elements: int) -> Callable[[], None]:
    """Returns a function that takes elements into Python, as a loop over an endless data set does."""
    iterator = iter(dataset)

    def consume() -> None:
        for _ in range(num_elements):
            next(iterator)

    return consume
