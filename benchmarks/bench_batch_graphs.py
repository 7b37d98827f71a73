"""From sampled subgraphs to merged batches, against PyG's Batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from comparison import OURS, Absent, Bound, Report, find_peer

from tfx_gnn.graphlearn import BatchGraph, Data, SubGraph

PYG = "PyG Batch.from_data_list"


@pytest.mark.parametrize("num_graphs", [32, 256])
def bench_from_graphs(report: Report, num_graphs: int) -> None:
    """Merges subgraphs of 20 nodes that are objects for either library."""
    arrays = _arrays(num_graphs)
    graphs = [
        SubGraph(one["edge_index"], Data(ids=one["ids"], floats=one["x"]), struct_label=one["struct_label"])
        for one in arrays
    ]
    report.compare(
        f"{num_graphs} subgraphs of 20 nodes",
        {OURS: functools.partial(BatchGraph.from_graphs, graphs, ["struct_label"]), PYG: _pyg_batch(arrays)},
        {PYG: Bound(at_least=8.0)},
        items=num_graphs,
        unit="graphs",
    )


def _arrays(num_graphs: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(0)
    return [
        {
            "x": random.normal(size=[20, 16]).astype(np.float32),
            "ids": random.integers(0, 10**6, [20]),
            "edge_index": random.integers(0, 20, [2, 60]),
            "struct_label": random.integers(0, 3, [20]),
        }
        for _ in range(num_graphs)
    ]


def _pyg_batch(arrays: list[dict[str, Any]]) -> Callable[[], Any] | Absent:
    geometric, torch = find_peer("torch_geometric"), find_peer("torch")
    for peer in (geometric, torch):
        if isinstance(peer, Absent):
            return peer
    data_module = find_peer("torch_geometric.data")
    data = [data_module.Data(**{key: torch.from_numpy(value) for key, value in one.items()}) for one in arrays]
    batch: Callable[[], Any] = functools.partial(data_module.Batch.from_data_list, data)
    return batch
