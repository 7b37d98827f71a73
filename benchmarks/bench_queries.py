"""From graph tables in memory to the ids of a query's batches, by strategy."""

from __future__ import annotations

import collections
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from comparison import OURS, Report
from tensorflow.core.framework import types_pb2

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graphlearn import GraphStore
from tfx_gnn.tables.graph_tables import EdgeTable, GraphTables, NodeTable

_NUM_NODES = 50_000
_NUM_EDGES = 1_000_000
_BATCH = 1_024


def bench_two_hops(report: Report) -> None:
    """An epoch over 50,000 nodes, 8 and 4 neighbors, as ids; the bar is 100,000 seeds a second on one core."""
    store = _store()
    strategies = {
        OURS: "random",
        "tfx_gnn, random_without_replacement": "random_without_replacement",
        "tfx_gnn, edge_weight": "edge_weight",
        "tfx_gnn, in_degree": "in_degree",
    }
    report.compare(
        "V.outV(8).outV(4)",
        {name: _epoch(store, strategy) for name, strategy in strategies.items()},
        {},
        items=_NUM_NODES,
        unit="seeds",
        rounds=3,
    )


def bench_attributes(report: Report) -> None:
    """The same two hops with 64 floats of every node, as one array for each hop."""
    store = _store(num_floats=64)
    first = store.V("n").batch(_BATCH).shuffle(traverse=True).alias("seed").outV("e").sample(8).by("random")
    query = (
        first.alias("near")
        .outV("e")
        .sample(4)
        .by("random")
        .alias("far")
        .values(lambda values: [nodes.float_attrs for nodes in values.values()])
    )
    report.compare(
        "V.outV(8).outV(4), 64 floats of every node",
        {OURS: lambda: collections.deque(query.batches(), maxlen=0).clear(), "tfx_gnn, ids": _epoch(store, "random")},
        {},
        items=_NUM_NODES,
        unit="seeds",
        rounds=3,
    )


def bench_negatives(report: Report) -> None:
    """An epoch over 50,000 nodes with 10 negatives each, as ids."""
    store = _store()
    report.compare(
        "V.outNeg(10)",
        {
            OURS: _negatives(store, "random"),
            "tfx_gnn, in_degree": _negatives(store, "in_degree"),
        },
        {},
        items=_NUM_NODES,
        unit="seeds",
        rounds=3,
    )


def _store(num_floats: int = 0) -> GraphStore:
    rng = np.random.default_rng(0)
    features: dict[str, pa.Array] = {}
    schema = GraphSchema()
    schema.node_sets["n"].SetInParent()
    if num_floats:
        described = schema.node_sets["n"].features["x"]
        described.dtype = types_pb2.DT_FLOAT
        described.shape.dim.add(size=num_floats)
        values = pa.array(rng.random(_NUM_NODES * num_floats, np.float32))
        features["x"] = pa.FixedSizeListArray.from_arrays(values, num_floats)
    schema.edge_sets["e"].source = schema.edge_sets["e"].target = "n"
    # Every node has an edge; a few have very many, as in most graphs.
    sources = np.concatenate([np.arange(_NUM_NODES), (rng.random(_NUM_EDGES - _NUM_NODES) ** 2 * _NUM_NODES)])
    return GraphStore(
        GraphTables(
            schema=schema,
            node_tables={"n": NodeTable(path="n", ids=pa.array(np.arange(_NUM_NODES)), features=features)},
            edge_tables={
                "e": EdgeTable(
                    path="e",
                    source_set="n",
                    target_set="n",
                    sources=sources.astype(np.int64),
                    targets=rng.integers(0, _NUM_NODES, _NUM_EDGES),
                    features={"weight": pa.array(rng.random(_NUM_EDGES).astype(np.float32))},
                )
            },
        )
    )


def _epoch(store: GraphStore, strategy: str) -> Callable[[], None]:
    first = store.V("n").batch(_BATCH).shuffle(traverse=True).alias("seed").outV("e").sample(8).by(strategy)
    query = (
        first.alias("near")
        .outV("e")
        .sample(4)
        .by(strategy)
        .alias("far")
        .values(lambda values: [nodes.ids for nodes in values.values()])
    )
    return lambda: collections.deque(query.batches(), maxlen=0).clear()


def _negatives(store: GraphStore, strategy: str) -> Callable[[], None]:
    query = (
        store.V("n")
        .batch(_BATCH)
        .outNeg("e")
        .sample(10)
        .by(strategy)
        .alias("negative")
        .values(lambda values: values["negative"].ids)
    )
    return lambda: collections.deque(query.batches(), maxlen=0).clear()
