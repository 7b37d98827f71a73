"""From serialized graphs to one padded graph a batch, against tensorflow-gnn and the bare parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from comparison import OURS, Absent, Bound, Report, find_peer
from heavy_tailed_graphs import SCHEMA, consumer, graph_spec, python_consumer, records, serialized_graphs

import tfx_gnn

TF_GNN = "tensorflow-gnn 1.0.3"
BARE_PARSER = "tf.io.parse_example"

#: By batch size and consumer: a function of TensorFlow, as in `fit`, or a loop in Python.
BOUNDS: dict[tuple[int, str], dict[str, Bound]] = {
    (32, "TensorFlow"): {},
    (32, "Python"): {TF_GNN: Bound(at_least=10.0), BARE_PARSER: Bound(at_least=1.3)},
    (128, "TensorFlow"): {},
    (256, "TensorFlow"): {},
}
_CONSUMERS = {"TensorFlow": consumer, "Python": python_consumer}
_NUM_GRAPHS = 4096
_Take = Callable[[Callable[[tf.Tensor], Any]], Callable[[], None]]
#: Rivals may use the machine alike.
_NUM_PARALLEL_CALLS = 2


@pytest.mark.parametrize(("batch_size", "taken_by"), BOUNDS)
def bench_parse_merge_pad(report: Report, batch_size: int, taken_by: str) -> None:
    """Parses, merges and pads batches of serialized graphs in memory, with default arguments."""
    spec = graph_spec()
    constraints = _largest_batch(batch_size)

    def ours(serialized: tf.Tensor) -> Any:
        return tfx_gnn.parse_merge_and_pad(spec, serialized, constraints)

    def in_two_steps(serialized: tf.Tensor) -> Any:
        return tfx_gnn.pad_to_total_sizes(tfx_gnn.parse_and_merge(spec, serialized), constraints)

    def unpadded(serialized: tf.Tensor) -> Any:
        return tfx_gnn.parse_and_merge(spec, serialized)

    def take(function: Callable[[tf.Tensor], Any]) -> Callable[[], None]:
        batches = records(_NUM_GRAPHS).batch(batch_size, drop_remainder=True)
        parsed = batches.map(function, num_parallel_calls=_NUM_PARALLEL_CALLS).prefetch(2)
        return _CONSUMERS[taken_by](parsed, _NUM_GRAPHS // batch_size)

    features = _ragged_features()

    report.compare(
        f"parse + merge + pad, batch {batch_size}, taken by {taken_by}",
        {
            OURS: take(ours),
            TF_GNN: _tf_gnn_pass(constraints, take),
            BARE_PARSER: take(lambda serialized: tf.io.parse_example(serialized, features)),
            f"{OURS}, parse_and_merge only": take(unpadded),
            f"{OURS}, pad_to_total_sizes afterwards": take(in_two_steps),
        },
        BOUNDS[batch_size, taken_by],
        items=_NUM_GRAPHS,
        unit="graphs",
    )


def _tf_gnn_pass(constraints: tfx_gnn.SizeConstraints, take: _Take) -> Callable[[], None] | Absent:
    tfgnn = find_peer("tensorflow_gnn")
    if isinstance(tfgnn, Absent):
        return tfgnn
    spec = tfgnn.create_graph_spec_from_schema_pb(tfgnn.parse_schema(SCHEMA))
    theirs = tfgnn.SizeConstraints(**constraints._asdict())

    def parse(serialized: tf.Tensor) -> Any:
        graph = tfgnn.parse_example(spec, serialized).merge_batch_to_components()
        return tfgnn.pad_to_total_sizes(graph, theirs)

    return take(parse)


def _ragged_features() -> dict[str, tf.io.RaggedFeature]:
    """Returns the leanest way to parse all keys of the graphs: one partition each."""
    example = tf.train.Example.FromString(serialized_graphs(_NUM_GRAPHS)[0])
    return {
        key: tf.io.RaggedFeature(
            tf.int64 if feature.HasField("int64_list") else tf.float32, row_splits_dtype=tf.int64, validate=False
        )
        for key, feature in example.features.feature.items()
    }


def _largest_batch(batch_size: int) -> tfx_gnn.SizeConstraints:
    """Returns sizes that each batch of the data set can be padded to, without any search."""
    spec = graph_spec()
    totals = {"components": batch_size + 1}
    for serialized in records(_NUM_GRAPHS).take(_NUM_GRAPHS).batch(batch_size):
        graph = tfx_gnn.parse_and_merge(spec, serialized)
        for kind, pieces in (("nodes", graph.node_sets), ("edges", graph.edge_sets)):
            for name, piece in pieces.items():
                key = f"{kind}/{name}"
                totals[key] = max(totals.get(key, 0), int(piece.total_size) + 1)
    return tfx_gnn.SizeConstraints(
        totals["components"],
        {key.removeprefix("nodes/"): total for key, total in totals.items() if key.startswith("nodes/")},
        {key.removeprefix("edges/"): total for key, total in totals.items() if key.startswith("edges/")},
    )
