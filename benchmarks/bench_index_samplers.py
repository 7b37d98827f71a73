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
    """An epoch of batches of about 25 examples, from examples in a list; in their order and shuffled."""
    sizes = np.random.default_rng(0).integers(10, 70, _NUM_EXAMPLES)
    peer = _pyg_examples(sizes)
    for shuffle, order in ((False, "in order"), (True, "shuffled")):
        ours = DynamicBatchSampler(sizes, _MAX_NUM, shuffle=shuffle)
        theirs: Callable[[], Any] | Absent = peer if isinstance(peer, Absent) else _epoch(peer(shuffle))
        report.compare(
            f"batches of up to {_MAX_NUM} nodes, {order}",
            {OURS: _epoch(ours), PYG_DYNAMIC: theirs},
            {PYG_DYNAMIC: BOUND},
            items=_NUM_EXAMPLES,
            unit="indices",
        )


def bench_imbalanced_draws(report: Report) -> None:
    """An epoch of draws from a million examples of ten classes: as an array, and one by one as a loader asks."""
    labels = np.random.default_rng(0).choice(10, _NUM_LABELS, p=np.arange(1, 11) / 55)
    ours = ImbalancedSampler(labels)
    torch, loader = find_peer("torch"), find_peer("torch_geometric.loader")
    absent = next((peer for peer in (torch, loader) if isinstance(peer, Absent)), None)
    theirs: Callable[[], Any] | Absent = absent or _epoch(loader.ImbalancedSampler(torch.from_numpy(labels)))
    report.compare(
        "draws of equally frequent classes",
        {OURS: lambda: ours.indices(0), PYG_IMBALANCED: theirs, "tfx_gnn, one by one": _epoch(ours)},
        {PYG_IMBALANCED: BOUND},
        items=_NUM_LABELS,
        unit="indices",
    )


def _epoch(sampler: Iterable[Any]) -> Callable[[], None]:
    return lambda: collections.deque(sampler, maxlen=0).clear()


def _pyg_examples(sizes: Any) -> Callable[[bool], Iterable[Any]] | Absent:
    data, loader = find_peer("torch_geometric.data"), find_peer("torch_geometric.loader")
    for peer in (data, loader):
        if isinstance(peer, Absent):
            return peer
    examples = [data.Data(num_nodes=int(size)) for size in sizes]
    return lambda shuffle: loader.DynamicBatchSampler(examples, _MAX_NUM, shuffle=shuffle)
