"""From graphs in memory to merged batches and back, against PyG's DataLoader."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from comparison import OURS, Absent, Bound, Report, find_peer
from heavy_tailed_graphs import consumer, graph_spec, records, serialized_graphs

import tfx_gnn

PYG = "PyG DataLoader"
BOUNDS = {PYG: Bound(at_least=6.0)}
_SPLIT_PYG = "PyG to_data_list"
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


_PAIRS = tfx_gnn.GraphLayout(
    node_sets={"s": {"x": "x_s"}, "t": {"x": "x_t"}},
    edge_sets={
        "s_bonds": tfx_gnn.EdgeLayout(source="s", target="s", index="edge_index_s"),
        "t_bonds": tfx_gnn.EdgeLayout(source="t", target="t", index="edge_index_t"),
    },
)


@pytest.mark.parametrize(("batch_size", "bound"), [(32, 8.0), (256, 3.0)])
def bench_collate_examples(report: Report, batch_size: int, bound: float) -> None:
    """Collates graphs of 20 nodes that are objects for either library."""
    examples = _examples()
    report.compare(
        f"examples of 20 nodes, batches of {batch_size}",
        {
            OURS: _passes(tfx_gnn.DataLoader([tfx_gnn.GraphData(**values) for values in examples], batch_size)),
            PYG: _pyg_passes(examples, batch_size=batch_size),
        },
        {PYG: Bound(at_least=bound)},
        items=_NUM_GRAPHS,
        unit="graphs",
    )


@pytest.mark.parametrize("how", ["layout", "__inc__"])
def bench_collate_pairs(report: Report, how: str) -> None:
    """Collates pairs of graphs; PyG's always have its override."""
    examples, follow = _pairs(), ["x_s", "x_t"]
    example_class = tfx_gnn.GraphData if how == "layout" else _pair_class(tfx_gnn.GraphData)
    loader = tfx_gnn.DataLoader(
        [example_class(**values) for values in examples],
        32,
        layout=_PAIRS if how == "layout" else None,
        follow_batch=follow,
    )
    report.compare(
        f"pairs of graphs by {how}, batches of 32, follow_batch",
        {OURS: _passes(loader), PYG: _pyg_passes(examples, batch_size=32, follow_batch=follow)},
        {PYG: Bound(at_least=8.0)},
        items=_NUM_GRAPHS,
        unit="pairs",
    )


@pytest.mark.parametrize("what", ["examples", "graphs", "a batch of graphs"])
def bench_split(report: Report, what: str) -> None:
    """Takes a batch of 256 graphs apart."""
    examples = _examples()[:256]
    batch = tfx_gnn.collate([tfx_gnn.GraphData(**values) for values in examples])
    layout = tfx_gnn.GraphLayout(
        node_sets={"nodes": {"x": "x"}},
        edge_sets={"edges": tfx_gnn.EdgeLayout(source="nodes", target="nodes")},
        context={"y": "y"},
    )
    graph = batch.to_graph_tensor(layout)
    runs: dict[str, Callable[[], Any]] = {
        "examples": batch.to_data_list,
        "graphs": functools.partial(tfx_gnn.split_components, graph),
        "a batch of graphs": functools.partial(tf.function(tfx_gnn.unmerge_components), graph),
    }
    report.compare(
        f"256 merged graphs to {what}",
        {OURS: runs[what], _SPLIT_PYG: _pyg_split(examples)},
        {_SPLIT_PYG: Bound(at_least=10.0)},
        items=256,
        unit="graphs",
    )


def _examples() -> list[dict[str, Any]]:
    random = np.random.default_rng(0)
    return [
        {
            "x": random.normal(size=[20, 16]).astype(np.float32),
            "edge_index": random.integers(0, 20, [2, 60]),
            "y": np.array([index % 2]),
        }
        for index in range(_NUM_GRAPHS)
    ]


def _pairs() -> list[dict[str, Any]]:
    random = np.random.default_rng(0)
    return [
        {
            f"{name}_{side}": value
            for side in "st"
            for name, value in (
                ("x", random.normal(size=[20, 16]).astype(np.float32)),
                ("edge_index", random.integers(0, 20, [2, 60])),
            )
        }
        for _ in range(_NUM_GRAPHS)
    ]


def _pair_class(base: Any) -> Any:
    class PairData(base):
        def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
            if key == "edge_index_s":
                return self.x_s.size(0)
            if key == "edge_index_t":
                return self.x_t.size(0)
            return super().__inc__(key, value, *args, **kwargs)

    return PairData


def _passes(loader: Any) -> Callable[[], None]:
    def consume() -> None:
        for _ in loader:
            pass

    return consume


def _pyg_passes(examples: list[dict[str, Any]], **options: Any) -> Callable[[], None] | Absent:
    geometric, torch = find_peer("torch_geometric"), find_peer("torch")
    for peer in (geometric, torch):
        if isinstance(peer, Absent):
            return peer
    data_module, loader_module = find_peer("torch_geometric.data"), find_peer("torch_geometric.loader")
    data_class = _pair_class(data_module.Data) if "x_s" in examples[0] else data_module.Data
    data = [data_class(**{key: torch.from_numpy(value) for key, value in values.items()}) for values in examples]
    return _passes(loader_module.DataLoader(data, **options))


def _pyg_split(examples: list[dict[str, Any]]) -> Callable[[], Any] | Absent:
    geometric, torch = find_peer("torch_geometric"), find_peer("torch")
    for peer in (geometric, torch):
        if isinstance(peer, Absent):
            return peer
    data_module = find_peer("torch_geometric.data")
    data = [data_module.Data(**{key: torch.from_numpy(value) for key, value in values.items()}) for values in examples]
    batch = data_module.Batch.from_data_list(data)
    split: Callable[[], Any] = batch.to_data_list
    return split
