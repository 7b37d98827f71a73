"""Papers with features of many kinds: a user project whose transform uses most of what tf.Transform has."""

from __future__ import annotations

import random
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
import tf_keras

from tfx_gnn.transform.graph_view import GraphView

SCHEMA = """
context { features { key: "year" value { dtype: DT_INT64 } } }
node_sets { key: "paper" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "x" value { dtype: DT_FLOAT } }
    features { key: "bytes" value { dtype: DT_FLOAT } }
    features { key: "pages" value { dtype: DT_INT64 } }
    features { key: "venue" value { dtype: DT_STRING } }
    features { key: "point" value { dtype: DT_FLOAT shape { dim { size: 3 } } } }
    features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } }
    features { key: "scores" value { dtype: DT_FLOAT shape { dim { size: -1 } } } } } }
node_sets { key: "author.of" value {
    features { key: "#id" value { dtype: DT_INT64 } }
    features { key: "age" value { dtype: DT_INT64 } } } }
node_sets { key: "_readout" value {
  features { key: "topic" value { dtype: DT_STRING } }
  features { key: "rank" value { dtype: DT_INT64 } } } }
edge_sets { key: "cites" value { source: "paper" target: "paper"
    features { key: "#id" value { dtype: DT_INT64 } }
    features { key: "weight" value { dtype: DT_FLOAT } } } }
edge_sets { key: "writes" value { source: "author.of" target: "paper" } }
edge_sets { key: "_readout/seed" value { source: "paper" target: "_readout" } }
"""

_VENUES = ["journal", "workshop", "arxiv", "thesis", "talk"]
_WORDS = ["graph", "node", "edge", "deep", "slow", "naïve"]


def subgraph(name: str, generator: random.Random) -> dict[str, list[Any]]:
    """A paper, what it cites, and one to three authors."""
    num_papers, num_authors = generator.randint(1, 6), generator.randint(1, 3)
    words = [generator.choices(_WORDS, k=generator.randint(0, 3)) for _ in range(num_papers)]
    scores = [[generator.gauss(0.0, 1.0) for _ in range(generator.randint(0, 2))] for _ in range(num_papers)]
    # Venues of validation and test that training never saw go to a bucket of their own.
    unseen = [] if name.startswith("train") else ["colloquium", "letter"]
    x = [generator.gauss(3.0, 2.0) for _ in range(num_papers)]
    return {
        "context/year": [generator.randint(1990, 2030)],
        "nodes/paper.#size": [num_papers],
        "nodes/paper.#id": [f"{name}-{i}" for i in range(num_papers)],
        "nodes/paper.x": x,
        "nodes/paper.bytes": [generator.uniform(0.5e8, 3e8) for _ in range(num_papers)],
        "nodes/paper.pages": [generator.randint(1, 500) for _ in range(num_papers)],
        "nodes/paper.venue": [generator.choice(_VENUES + unseen) for _ in range(num_papers)],
        "nodes/paper.point": [generator.uniform(-1.0, 1.0) for _ in range(3 * num_papers)],
        "nodes/paper.words": [word for row in words for word in row],
        "nodes/paper.words.d1": [len(row) for row in words],
        "nodes/paper.scores": [score for row in scores for score in row],
        "nodes/paper.scores.d1": [len(row) for row in scores],
        "nodes/author.of.#size": [num_authors],
        "nodes/author.of.#id": [generator.randrange(30) * 2**40 for _ in range(num_authors)],
        "nodes/author.of.age": [generator.randint(20, 80) for _ in range(num_authors)],
        "nodes/_readout.#size": [1],
        "nodes/_readout.topic": ["networks" if x[0] > 3.0 else "biology"],
        "nodes/_readout.rank": [1 + len(x)],
        "edges/cites.#size": [num_papers - 1],
        "edges/cites.#id": list(range(num_papers - 1)),
        "edges/cites.weight": [generator.uniform(0.0, 5.0) for _ in range(num_papers - 1)],
        "edges/cites.#source": list(range(1, num_papers)),
        "edges/cites.#target": [0] * (num_papers - 1),
        "edges/writes.#size": [num_authors],
        "edges/writes.#source": list(range(num_authors)),
        "edges/writes.#target": [0] * num_authors,
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }


def splits() -> dict[str, list[list[dict[str, list[Any]]]]]:
    """40 training examples in two files, 12 to watch in two, 10 to test."""
    generator = random.Random(3)
    sizes = {"train": [21, 19], "val": [7, 5], "test": [10]}
    return {
        split: [[subgraph(f"{split}{shard}.{i}", generator) for i in range(size)] for shard, size in enumerate(shards)]
        for split, shards in sizes.items()
    }


def _ids(values: Any, name: str) -> Any:
    return tft.compute_and_apply_vocabulary(values, vocab_filename=name, num_oov_buckets=2, top_k=4)


def preprocessing_fn(graph: GraphView) -> GraphView:
    paper, author = graph.node_sets["paper"], graph.node_sets["author.of"]
    cites, writes = graph.edge_sets["cites"], graph.edge_sets["writes"]
    cited_x = tf.gather(paper["x"], cites.adjacency.source)
    ages = tf.cast(tf.gather(author["age"], writes.adjacency.source), tf.float32)
    num_papers = tf.size(paper["x"], tf.int64)
    return graph.replace_features(
        context={"year": tft.bucketize(graph.context["year"], 4), "age": 2030 - graph.context["year"]},
        node_sets={
            "paper": {
                "#id": paper["#id"],
                "x": tft.scale_to_z_score(paper["x"]),
                "bytes": paper["bytes"] * 1.1 + tft.mean(paper["bytes"]),
                "pages": paper["pages"],
                "pages_bucket": tft.bucketize(paper["pages"], 5),
                "venue": _ids(paper["venue"], "venue"),
                "venue_hash": tft.hash_strings(paper["venue"], 100),
                "point": tft.scale_to_z_score(paper["point"], elementwise=True),
                "words": _ids(paper["words"], "words"),
                "scores": tft.scale_to_0_1(paper["scores"]),
                "log_pages": tf.math.log(tf.cast(paper["pages"] - 1, tf.float32)),
                "cited_x": tf.math.unsorted_segment_sum(cited_x, cites.adjacency.target, num_papers),
                "author_age": tf.math.unsorted_segment_mean(ages, writes.adjacency.target, num_papers),
            },
            "author.of": {"#id": author["#id"], "age": tft.scale_to_z_score(tf.cast(author["age"], tf.float32))},
            "_readout": {
                "topic": tft.compute_and_apply_vocabulary(graph.node_sets["_readout"]["topic"], vocab_filename="topic"),
                # The label of another task.
                "rank": graph.node_sets["_readout"]["rank"],
            },
        },
        edge_sets={"cites": {"#id": cites["#id"], "weight": tft.scale_to_0_1(cites["weight"])}},
    )


class SeedAndCited(tf_keras.Model):
    """A linear classifier of a paper's features and the mean of those that it cites."""

    def __init__(self) -> None:
        super().__init__()
        self._dense = tf_keras.layers.Dense(2)

    def call(self, graph: Any) -> tf.Tensor:
        paper, cites = graph.node_sets["paper"], graph.edge_sets["cites"].adjacency
        words = tf.reduce_sum(tf.cast(paper["words"], tf.float32), axis=1)
        columns = [paper["x"], paper["bytes"] / 1e8, tf.cast(paper["venue"], tf.float32), words, paper["cited_x"]]
        x = tf.concat([tf.stack(columns, axis=1), paper["point"]], axis=1)
        cited = tf.math.unsorted_segment_mean(tf.gather(x, cites.source), cites.target, tf.shape(x)[0])
        return self._dense(tf.gather(tf.concat([x, cited], axis=1), graph.edge_sets["_readout/seed"].adjacency.source))


def model_fn(graph_spec: Any, tft_output: tft.TFTransformOutput) -> tf_keras.Model:
    model = SeedAndCited()
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=tf_keras.optimizers.Adam(0.05), loss=loss)
    return model
