"""Train steps of whole networks: two layers of 64 units, forward, backward and Adam, on the same graph.

Messages go to the targets of edges, as in tensorflow-gnn's updates. Ours runs along edges that the input
pipeline sorted, and for comparison along edges as they came.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from comparison import OURS, Absent, Bound, Report, find_peer
from heavy_tailed_graphs import MEAN_SIZES

import tfx_gnn
from tfx_gnn.models import gat_v2, gcn, graph_sage, hgt, mpnn

TF_GNN = "tensorflow-gnn 1.0.3"
PYG = "PyG, eager"
UNITS, NUM_LAYERS = 64, 2
NUM_NODES, NUM_EDGES = 10_000, 100_000
#: Graphs in the padded batch, and what of it is padding.
BATCH_SIZE, PADDED_SHARE = 128, 0.05

_ENDS = {
    "cites": ("paper", "paper"),
    "writes": ("author", "paper"),
    "about": ("paper", "topic"),
    "knows": ("author", "author"),
}
_OURS: dict[str, Callable[..., tf_keras.Sequential]] = {
    "gcn": gcn,
    "graph_sage": graph_sage,
    "gat_v2": functools.partial(gat_v2, normalization="none"),
    "mpnn": functools.partial(mpnn, normalization="none"),
    "hgt": hgt,
}
_ROUNDS = 5
_STEPS_PER_ROUND = 2
_BOUNDS = {TF_GNN: Bound(at_least=1.0)}


@pytest.mark.parametrize("in_xla", [False, True], ids=["plain", "xla"])
@pytest.mark.parametrize("name", ["gcn", "graph_sage", "gat_v2", "mpnn"])
def bench_one_large_graph(report: Report, name: str, *, in_xla: bool) -> None:
    """10,000 nodes and 100,000 edges."""
    suffix = ", in XLA" if in_xla else ""
    report.compare(
        f"train step of {name}, 100,000 edges{suffix}",
        {
            OURS: _our_step(name, tfx_gnn.sort_edges(_large_graph(tfx_gnn)), in_xla=in_xla),
            f"{OURS}, not sorted": _our_step(name, _large_graph(tfx_gnn), in_xla=in_xla),
            TF_GNN: _their_step(name, _large_graph, in_xla=in_xla),
            PYG: _pyg_step(name),
        },
        _BOUNDS,
        items=_STEPS_PER_ROUND,
        unit="steps",
        rounds=_ROUNDS,
    )


@pytest.mark.parametrize(("name", "in_xla"), [("mpnn", False), ("mpnn", True), ("hgt", False)])
def bench_padded_batch(report: Report, name: str, *, in_xla: bool) -> None:
    """128 heterogeneous subgraphs of about 150 nodes, merged and padded."""
    report.compare(
        f"train step of {name}, padded batch{', in XLA' if in_xla else ''}",
        {
            OURS: _our_step(name, tfx_gnn.sort_edges(_padded_batch(tfx_gnn)), in_xla=in_xla),
            f"{OURS}, not sorted": _our_step(name, _padded_batch(tfx_gnn), in_xla=in_xla),
            TF_GNN: _their_step(name, _padded_batch, in_xla=in_xla),
        },
        _BOUNDS,
        items=_STEPS_PER_ROUND,
        unit="steps",
        rounds=_ROUNDS,
    )


def _our_step(name: str, graph: Any, *, in_xla: bool) -> Callable[[], None]:
    network = _OURS[name](graph.spec, units=UNITS, num_layers=NUM_LAYERS, receiver_tags=[tfx_gnn.TARGET])
    return _steps(network, graph, in_xla=in_xla)


def _their_step(name: str, make_graph: Callable[[Any], Any], *, in_xla: bool) -> Callable[[], None] | Absent:
    library = find_peer("tensorflow_gnn")
    if isinstance(library, Absent):
        return library
    names = ("gat_v2", "gcn", "graph_sage", "hgt", "vanilla_mpnn")
    models: Any = types.SimpleNamespace(**{name: find_peer(f"tensorflow_gnn.models.{name}") for name in names})
    target: Any = {"receiver_tag": library.TARGET}
    updates: dict[str, Callable[[], Any]] = {
        "gcn": lambda: models.gcn.GCNHomGraphUpdate(units=UNITS, add_self_loops=True, **target),
        "graph_sage": lambda: models.graph_sage.GraphSAGEGraphUpdate(units=UNITS, use_pooling=False, **target),
        "gat_v2": lambda: models.gat_v2.GATv2MPNNGraphUpdate(units=UNITS, message_dim=UNITS, num_heads=4, **target),
        "mpnn": lambda: models.vanilla_mpnn.VanillaMPNNGraphUpdate(units=UNITS, message_dim=UNITS, **target),
        "hgt": lambda: models.hgt.HGTGraphUpdate(num_heads=4, per_head_channels=UNITS // 4, dropout_rate=0.0, **target),
    }
    layers = [updates[name]() for _ in range(NUM_LAYERS)]

    def network(graph: Any) -> Any:
        return functools.reduce(lambda states, layer: layer(states), layers, graph)

    graph = make_graph(library)
    network(graph)
    return _steps(network, graph, in_xla=in_xla, weights=[w for layer in layers for w in layer.trainable_weights])


def _steps(
    network: Callable[[Any], Any], graph: Any, *, in_xla: bool, weights: list[tf.Variable] | None = None
) -> Callable[[], None]:
    """Returns a function that takes some train steps."""
    network(graph)
    trained = network.trainable_weights if weights is None else weights  # type: ignore[attr-defined]
    optimizer = tf_keras.optimizers.Adam(1e-4)
    optimizer.build(trained)

    @tf.function(jit_compile=in_xla, autograph=False)
    def step(graph: Any) -> tf.Tensor:
        with tf.GradientTape() as tape:
            updated = network(graph)
            loss = tf.add_n(
                [tf.reduce_mean(updated.node_sets[name]["hidden_state"] ** 2) for name in sorted(updated.node_sets)]
            )
        optimizer.apply_gradients(zip(tape.gradient(loss, trained), trained, strict=True))
        return loss

    def steps() -> None:
        for _ in range(_STEPS_PER_ROUND):
            step(graph).numpy()

    return steps


def _pyg_step(name: str) -> Callable[[], None] | Absent:
    torch, geometric = find_peer("torch"), find_peer("torch_geometric.nn")
    for peer in (torch, geometric):
        if isinstance(peer, Absent):
            return peer
    makers: dict[str, Callable[[], Any]] = {
        "gcn": lambda: geometric.GCNConv(UNITS, UNITS),  # type: ignore[union-attr]
        "graph_sage": lambda: geometric.SAGEConv(UNITS, UNITS, normalize=True),  # type: ignore[union-attr]
        "gat_v2": lambda: geometric.GATv2Conv(UNITS, UNITS // 4, heads=4),  # type: ignore[union-attr]
    }
    if name not in makers:
        return Absent("PyG has no ready layer of this form")
    states, source, target = _large_arrays()
    convolutions = torch.nn.ModuleList([makers[name]() for _ in range(NUM_LAYERS)])  # type: ignore[union-attr]
    optimizer = torch.optim.Adam(convolutions.parameters(), lr=1e-4)  # type: ignore[union-attr]
    x, edge_index = torch.from_numpy(states), torch.from_numpy(np.stack([source, target]))  # type: ignore[union-attr]

    def steps() -> None:
        for _ in range(_STEPS_PER_ROUND):
            optimizer.zero_grad()
            h = x
            for convolution in convolutions:
                h = convolution(h, edge_index).relu()
            (h**2).mean().backward()
            optimizer.step()

    return steps


@functools.cache
def _large_arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    source, target = (random.integers(0, NUM_NODES, NUM_EDGES) for _ in range(2))
    return random.standard_normal([NUM_NODES, UNITS]).astype(np.float32), source, target


def _large_graph(library: Any) -> Any:
    """Returns a graph whose edges connect random nodes."""
    states, source, target = _large_arrays()
    ends = [("nodes", tf.constant(index, tf.int32)) for index in (source, target)]
    return library.GraphTensor.from_pieces(
        node_sets={"nodes": library.NodeSet.from_fields(sizes=[NUM_NODES], features={"hidden_state": states})},
        edge_sets={
            "edges": library.EdgeSet.from_fields(
                sizes=[NUM_EDGES], features={}, adjacency=library.Adjacency.from_indices(*ends)
            )
        },
    )


def _padded_batch(library: Any) -> Any:
    """Returns a merged batch in whose last component, of padding, all edges connect the first nodes."""
    random = np.random.default_rng(0)
    sizes = {}
    for name, mean in MEAN_SIZES.items():
        drawn = np.maximum(1, random.lognormal(np.log(mean) - 0.125, 0.5, BATCH_SIZE).astype(int))
        sizes[name] = np.append(drawn, int(drawn.sum() * PADDED_SHARE))
    node_sets = {}
    for name in ("paper", "author", "topic"):
        per_graph = sizes[f"nodes/{name}"]
        states = random.standard_normal([per_graph.sum(), UNITS]).astype(np.float32)
        node_sets[name] = library.NodeSet.from_fields(sizes=per_graph, features={"hidden_state": states})
    edge_sets = {}
    for name, ends in _ENDS.items():
        per_graph = sizes[f"edges/{name}"]
        indices = []
        for end in ends:
            num_nodes = np.repeat(sizes[f"nodes/{end}"], per_graph)
            starts = np.repeat(np.cumsum(sizes[f"nodes/{end}"]) - sizes[f"nodes/{end}"], per_graph)
            index = starts + (random.random(len(starts)) * num_nodes).astype(int)
            index[-per_graph[-1] :] = starts[-1]
            indices.append((end, tf.constant(index, tf.int32)))
        edge_sets[name] = library.EdgeSet.from_fields(
            sizes=per_graph, features={}, adjacency=library.Adjacency.from_indices(*indices)
        )
    return library.GraphTensor.from_pieces(node_sets=node_sets, edge_sets=edge_sets)
