"""Packing graphs of heavy-tailed sizes into padding budgets, and batching them in order."""

from __future__ import annotations

import functools
import statistics
import time
from typing import Any

import numpy as np
import pytest
from comparison import OURS, Absent, Bound, Report, Row, find_peer
from heavy_tailed_graphs import SCHEMA, consumer, draw_sizes, graph_spec, records

import tfx_gnn

#: By window. The default window must be fast and fill batches well at the same time.
SPEED_BOUNDS = {64: Bound(), 128: Bound(at_least=20_000), 256: Bound()}
FILL_BOUNDS = {64: Bound(), 128: Bound(at_least=0.96), 256: Bound(at_least=0.96)}
#: Time of a batch after ten times as many, with room for noise.
DYNAMIC_BATCH_BOUND = Bound(at_most=1.5)

_NUM_GRAPHS = 4096
_MEAN_BATCH = 32


def mean_budget() -> tfx_gnn.SizeConstraints:
    """Returns 32 times the mean size of each set, and a component more."""
    totals = {key: int(_MEAN_BATCH * sizes.mean()) for key, sizes in draw_sizes(_NUM_GRAPHS, seed=0).items()}
    return tfx_gnn.SizeConstraints(
        _MEAN_BATCH + 1,
        {key.removeprefix("nodes/"): total for key, total in totals.items() if key.startswith("nodes/")},
        {key.removeprefix("edges/"): total for key, total in totals.items() if key.startswith("edges/")},
    )


@pytest.mark.parametrize("window", SPEED_BOUNDS)
def bench_pack_serialized_graphs(report: Report, window: int) -> None:
    """Packs graphs before they are parsed."""
    packed = tfx_gnn.pack_batches(records(_NUM_GRAPHS), mean_budget(), window=window, spec=graph_spec())
    # A batch is packed with about 31 graphs.
    num_batches = _NUM_GRAPHS // 31
    speeds = report.compare(
        f"pack serialized graphs, window {window}",
        {
            OURS: consumer(packed, num_batches),
            "batch(31) of strings": consumer(records(_NUM_GRAPHS).batch(31), num_batches),
        },
        {},
        items=num_batches * 31,
        unit="graphs",
    )
    fill, num_packed = _fill(window)
    for what, ours, figure, unit, bound in (
        ("speed", f"{speeds[OURS]:,.0f} graphs/s", speeds[OURS], "graphs/s", SPEED_BOUNDS[window]),
        ("fill", f"{_NUM_GRAPHS - num_packed} of {_NUM_GRAPHS} skipped", fill, "real", FILL_BOUNDS[window]),
    ):
        row = Row(what=f"packing {what}, window {window}", ours=ours, figure=figure, unit=unit, bound=bound)
        report.add(row)


def _fill(window: int) -> tuple[float, int]:
    """Returns the real share of padded batches, mean of all sets, and how many graphs there are.

    The last batch, which is what is left over, counts like any other. None counts if a graph is missing.
    """
    spec, budget = graph_spec(), mean_budget()
    packed = tfx_gnn.pack_batches(records(_NUM_GRAPHS).take(_NUM_GRAPHS), budget, window=window, spec=spec)
    shares, num_packed = [], 0
    for batch in packed:
        graph = tfx_gnn.parse_and_merge(spec, batch)
        num_packed += batch.shape[0]
        shares.append(
            [int(graph.node_sets[name].total_size) / total for name, total in budget.total_num_nodes.items()]
            + [int(graph.edge_sets[name].total_size) / total for name, total in budget.total_num_edges.items()]
        )
    return float(np.mean(shares)) if num_packed == _NUM_GRAPHS else 0.0, num_packed


def bench_pack_parse_and_pad(report: Report) -> None:
    """Feeds a training: packed, parsed, merged and padded; TF-GNN skips what does not fit."""
    spec, budget = graph_spec(), mean_budget()
    packed = tfx_gnn.pack_batches(records(_NUM_GRAPHS), budget, spec=spec)
    padded = packed.map(lambda batch: tfx_gnn.parse_merge_and_pad(spec, batch, budget), num_parallel_calls=2)
    num_batches = _NUM_GRAPHS // _MEAN_BATCH
    report.compare(
        "batches for a training, packed",
        {OURS: consumer(padded, num_batches), "tensorflow-gnn 1.0.3, fit or skip": _fit_or_skip(num_batches)},
        {},
        items=num_batches,
        unit="batches",
        rounds=5,
    )


def _fit_or_skip(num_batches: int) -> Any:
    tfgnn = find_peer("tensorflow_gnn")
    if isinstance(tfgnn, Absent):
        return tfgnn
    spec = tfgnn.create_graph_spec_from_schema_pb(tfgnn.parse_schema(SCHEMA))
    graphs = records(_NUM_GRAPHS).take(_NUM_GRAPHS).map(lambda record: tfgnn.parse_single_example(spec, record))
    constraints = tfgnn.learn_fit_or_skip_size_constraints(graphs, _MEAN_BATCH, success_ratio=0.99, sample_size=2000)
    batches = (
        records(_NUM_GRAPHS)
        .batch(_MEAN_BATCH, drop_remainder=True)
        .map(lambda serialized: tfgnn.parse_example(spec, serialized).merge_batch_to_components(), num_parallel_calls=2)
        .filter(functools.partial(tfgnn.satisfies_size_constraints, total_sizes=constraints))
        .map(lambda graph: tfgnn.pad_to_total_sizes(graph, constraints), num_parallel_calls=2)
    )
    return consumer(batches, num_batches)


def bench_dynamic_batch(report: Report) -> None:
    """Batches graphs in order, at the start of a data set and after ten times as many."""
    spec, budget = graph_spec(), mean_budget()
    graphs = records(512).take(512).map(lambda record: tfx_gnn.parse_single_example(spec, record)).cache().repeat()
    consume = consumer(tfx_gnn.dynamic_batch(graphs, budget), 32)
    seconds: list[float] = []

    def one_round() -> None:
        start = time.perf_counter()
        consume()
        seconds.append(time.perf_counter() - start)

    report.repeat(one_round, rounds=30, warmup_rounds=1)
    early, late = statistics.median(seconds[1:4]), statistics.median(seconds[-3:])
    report.add(
        Row(
            what="dynamic_batch, 32 batches after 10x the data",
            ours=f"{1e3 * late:,.0f} ms",
            peer=f"{OURS}, after 1x",
            theirs=f"{1e3 * early:,.0f} ms",
            figure=late / early,
            bound=DYNAMIC_BATCH_BOUND,
        )
    )
