"""From graphs in memory to merged batches, against PyG's DataLoader."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from comparison import OURS, Absent, Bound, Report, find_peer
from heavy_tailed_graphs import consumer, graph_spec, records, serialized_graphs

import tfx_gnn

PYG = "PyG DataLoader"
BOUNDS = {PYG: Bound(at_least=6.0)}
_NUM_GRAPHS = 2048
_BATCH_SIZE = 32


def bench_collate(report: Report) -> None:
    """Merges graphs into batches; ours are parsed on the way, PyG's are objects already."""
    spec = graph_spec()
    merged = (
        records(_NUM_GRAPHS)
        .batch(_BATCH_SIZE, drop_remainder=True)
        .map(lambda serialized: tfx_gnn.parse_and_merge(spec, serialized), num_parallel_calls=2)
        .prefetch(2)
    )
    num_batches = _NUM_GRAPHS // _BATCH_SIZE
    report.compare(
        "merged batches of 32, from memory",
        {OURS: consumer(merged, num_batches), PYG: _pyg_consumer(num_batches)},
        BOUNDS,
        items=_NUM_GRAPHS,
        unit="graphs",
        rounds=5,
    )


def _pyg_consumer(num_batches: int) -> Callable[[], None] | Absent:
    geometric, torch = find_peer("torch_geometric"), find_peer("torch")
    for peer in (geometric, torch):
        if isinstance(peer, Absent):
            return peer
    data_module, loader_module = find_peer("torch_geometric.data"), find_peer("torch_geometric.loader")
    spec = graph_spec()
    graphs = []
    for record in serialized_graphs(_NUM_GRAPHS):
        graph = tfx_gnn.parse_single_example(spec, tf.constant(record))
        data = data_module.HeteroData()
        for name, node_set in graph.node_sets.items():
            data[name].num_nodes = int(node_set.total_size)
            for feature, value in node_set.features.items():
                data[name][feature] = torch.from_numpy(value.numpy())
        for name, edge_set in graph.edge_sets.items():
            adjacency = edge_set.adjacency
            ends = np.stack([adjacency.source.numpy(), adjacency.target.numpy()]).astype(np.int64)
            data[adjacency.source_name, name, adjacency.target_name].edge_index = torch.from_numpy(ends)
        graphs.append(data)
    loader = loader_module.DataLoader(graphs, batch_size=_BATCH_SIZE, drop_last=True)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))

    def consume() -> None:
        for _ in range(num_batches):
            next(batches)

    return consume
