"""From sizes or labels to the indices of an epoch, against PyG's samplers."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from comparison import OURS, Absent, Bound, Report, find_peer

from tfx_gnn.graph import DynamicBatchSampler, ImbalancedSampler

_NUM_EXAMPLES = 20_000
_NUM_LABELS = 1_000_000
_MAX_NUM = 1_000
PYG_DYNAMIC, PYG_IMBALANCED = "PyG DynamicBatchSampler", "PyG ImbalancedSampler"
BOUND = Bound(at_least=5.0)


def bench_dynamic_batches(report: Report) -> None:
    """An epoch of batches of about 25 examples, from examples in a list."""
    _compare_dynamic_batches(report, shuffle=False)


def bench_shuffled_dynamic_batches(report: Report) -> None:
    """The same in random order."""
    _compare_dynamic_batches(report, shuffle=True)


def bench_imbalanced_draws(report: Report) -> None:
    """An epoch of draws from a million examples of ten classes: as an array, and one by one as a loader asks."""
    labels = np.random.default_rng(0).choice(10, _NUM_LABELS, p=np.arange(1, 11) / 55)
    ours = ImbalancedSampler(labels)
    report.compare(
        "draws of equally frequent classes",
        {OURS: lambda: ours.indices(0), PYG_IMBALANCED: _pyg_draws(labels), "tfx_gnn, one by one": _epoch(ours)},
        {PYG_IMBALANCED: BOUND},
        items=_NUM_LABELS,
        unit="indices",
    )


def _compare_dynamic_batches(report: Report, *, shuffle: bool) -> None:
    sizes = np.random.default_rng(0).integers(10, 70, _NUM_EXAMPLES)
    report.compare(
        f"batches of up to {_MAX_NUM} nodes, {'shuffled' if shuffle else 'in order'}",
        {
            OURS: _epoch(DynamicBatchSampler(sizes, _MAX_NUM, shuffle=shuffle)),
            PYG_DYNAMIC: _pyg_dynamic_batches(sizes, shuffle=shuffle),
        },
        {PYG_DYNAMIC: BOUND},
        items=_NUM_EXAMPLES,
        unit="indices",
    )


def _pyg_dynamic_batches(sizes: Any, *, shuffle: bool) -> Callable[[], None] | Absent:
    data, loader = find_peer("torch_geometric.data"), find_peer("torch_geometric.loader")
    for peer in (data, loader):
        if isinstance(peer, Absent):
            return peer
    examples = [data.Data(num_nodes=int(size)) for size in sizes]
    return _epoch(loader.DynamicBatchSampler(examples, _MAX_NUM, shuffle=shuffle))


def _epoch(sampler: Iterable[Any]) -> Callable[[], None]:
    return lambda: collections.deque(sampler, maxlen=0).clear()


def _pyg_draws(labels: Any) -> Callable[[], None] | Absent:
    torch, loader = find_peer("torch"), find_peer("torch_geometric.loader")
    for peer in (torch, loader):
        if isinstance(peer, Absent):
            return peer
    return _epoch(loader.ImbalancedSampler(torch.from_numpy(labels)))
