"""From serialized graphs to one padded graph a batch, against tensorflow-gnn and the bare parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from comparison import OURS, Absent, Bound, Report, find_peer
from heavy_tailed_graphs import SCHEMA, dataset_of_bytes, drain, graph_spec, serialized_graphs

import tfx_gnn

TF_GNN = "tensorflow-gnn 1.0.3"
BARE_PARSER = "tf.io.parse_example"

#: By batch size.
BOUNDS: dict[int, dict[str, Bound]] = {
    32: {TF_GNN: Bound(at_least=10.0), BARE_PARSER: Bound(at_least=0.9)},
    128: {},
    256: {},
}
_NUM_GRAPHS = 4096
#: Rivals may use the machine alike.
_NUM_PARALLEL_CALLS = 2


@pytest.mark.parametrize("batch_size", BOUNDS)
def bench_parse_merge_pad(report: Report, batch_size: int) -> None:
    """Parses, merges and pads batches of serialized graphs in memory."""
    spec = graph_spec()
    constraints = _largest_batch(batch_size)

    def ours(serialized: tf.Tensor) -> Any:
        return tfx_gnn.pad_to_total_sizes(tfx_gnn.graph.parse_and_merge(spec, serialized), constraints)

    def ours_unchecked(serialized: tf.Tensor) -> Any:
        graph = tfx_gnn.graph.parse_and_merge(spec, serialized, validate=False)
        return tfx_gnn.pad_to_total_sizes(graph, constraints, validate=False)

    features = _ragged_features()

    report.compare(
        f"parse + merge + pad, batch {batch_size}",
        {
            OURS: _pass(ours, batch_size),
            TF_GNN: _tf_gnn_pass(constraints, batch_size),
            BARE_PARSER: _pass(lambda serialized: tf.io.parse_example(serialized, features), batch_size),
            f"{OURS}, validate=False": _pass(ours_unchecked, batch_size),
        },
        BOUNDS[batch_size],
        items=_NUM_GRAPHS,
        unit="graphs",
    )


def _pass(function: Callable[[tf.Tensor], Any], batch_size: int) -> Callable[[], None]:
    dataset = dataset_of_bytes(_NUM_GRAPHS, batch_size)
    parsed = dataset.map(function, num_parallel_calls=_NUM_PARALLEL_CALLS).prefetch(2)
    return lambda: drain(parsed)


def _tf_gnn_pass(constraints: tfx_gnn.SizeConstraints, batch_size: int) -> Callable[[], None] | Absent:
    tfgnn = find_peer("tensorflow_gnn")
    if isinstance(tfgnn, Absent):
        return tfgnn
    spec = tfgnn.create_graph_spec_from_schema_pb(tfgnn.parse_schema(SCHEMA))
    theirs = tfgnn.SizeConstraints(**constraints._asdict())

    def parse(serialized: tf.Tensor) -> Any:
        graph = tfgnn.parse_example(spec, serialized).merge_batch_to_components()
        return tfgnn.pad_to_total_sizes(graph, theirs)

    return _pass(parse, batch_size)


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
    graphs = dataset_of_bytes(_NUM_GRAPHS, batch_size).map(lambda records: tfx_gnn.graph.parse_and_merge(spec, records))
    for graph in graphs:
        for kind, pieces in (("nodes", graph.node_sets), ("edges", graph.edge_sets)):
            for name, piece in pieces.items():
                key = f"{kind}/{name}"
                totals[key] = max(totals.get(key, 0), int(piece.total_size) + 1)
    return tfx_gnn.SizeConstraints(
        totals["components"],
        {key.removeprefix("nodes/"): total for key, total in totals.items() if key.startswith("nodes/")},
        {key.removeprefix("edges/"): total for key, total in totals.items() if key.startswith("edges/")},
    )
