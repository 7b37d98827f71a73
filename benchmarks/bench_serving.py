"""What a pushed model takes: time of requests of one and of four threads, memory after many of them, and after swaps.

The model is the ready MPNN; see `served_networks.py`. `TFX_GNN_SERVING_REQUESTS` sets another number of requests
than 50,000 for the memory.
"""

from __future__ import annotations

import os

import pytest
import served_networks
import tensorflow as tf
from comparison import Bound, Report, Row, run_process

from tfx_gnn.serving import without_labels, write_warmup_requests

#: Memory after all requests over that after a tenth of them.
MEMORY_BOUND = Bound(at_most=1.05)
#: Memory of a server after all swaps over that after the third.
SWAPS_BOUND = Bound(at_most=1.05)
_NUM_SWAPS = 20

#: Without them, glibc raises both when a large block is freed, and then keeps such blocks in its heaps.
_FIXED_THRESHOLDS = {"MALLOC_MMAP_THRESHOLD_": str(1 << 17), "MALLOC_TRIM_THRESHOLD_": str(1 << 17)}
_NETWORK = "mpnn"
_NUM_REQUESTS = int(os.environ.get("TFX_GNN_SERVING_REQUESTS", "50000"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A SavedModel with warm-up requests, and a file of examples."""
    folder = tmp_path_factory.mktemp("served")
    saved_model_dir = served_networks.export_network(_NETWORK, str(folder / "model"))
    records = without_labels(served_networks.requests(256), saved_model_dir)
    write_warmup_requests(saved_model_dir, records)
    with tf.io.TFRecordWriter(str(folder / "requests.tfrecord")) as writer:
        for record in records:
            writer.write(record)
    return saved_model_dir, str(folder / "requests.tfrecord")


def bench_latency(report: Report, served: tuple[str, str]) -> None:
    """Asks right after the model was loaded, and after its warm-up requests."""
    results: dict[str, dict[str, list[float]]] = {}

    def measure() -> None:
        for warm in ("true", "false"):
            results[warm] = run_process("serving_runs.py", "latency", *served, warm)

    report.repeat(measure, rounds=1)
    for cell, warm in results["true"].items():
        batch_size, threads = cell.split()
        cold = results["false"][cell]
        of_threads = "one thread" if threads == "1" else f"{threads} threads"
        report.add(
            Row(
                what=f"{_NETWORK}, {batch_size} examples a request, {of_threads}: first, p50, p99",
                ours=_times(warm),
                peer="without warm-up requests",
                theirs=_times(cold),
                # Of the first request, which is what they are for.
                figure=cold[0] / warm[0],
            )
        )


@pytest.mark.parametrize("allocator", ["glibc", "glibc, fixed thresholds"])
def bench_memory(report: Report, served: tuple[str, str], allocator: str) -> None:
    """Asks with four threads, and looks at the memory after a tenth of the requests and after all."""
    results: dict[str, dict[str, int]] = {}
    environment = {} if allocator == "glibc" else _FIXED_THRESHOLDS

    def measure() -> None:
        few, many = _NUM_REQUESTS // 10, _NUM_REQUESTS
        results.update(run_process("serving_runs.py", "memory", *served, few, many, environment=environment))

    report.repeat(measure, rounds=1)
    few, many = results.values()
    for kind, name in (("resident", "resident memory"), ("in use", "memory in use")):
        report.add(
            Row(
                what=f"{_NETWORK}, {name} after {_NUM_REQUESTS:,} requests of four threads, {allocator}",
                ours=f"{many[kind] / 2**20:,.0f} MiB",
                peer=f"after {_NUM_REQUESTS // 10:,}",
                theirs=f"{few[kind] / 2**20:,.0f} MiB",
                figure=many[kind] / few[kind],
                bound=MEMORY_BOUND,
            )
        )


def bench_swaps(report: Report, served: tuple[str, str]) -> None:
    """Pushes versions to a server that is asked meanwhile; it serves two, so all are there after the third swap."""
    results: dict[str, list[float]] = {}
    report.repeat(lambda: results.update(run_process("serve_swaps.py", *served, _NUM_SWAPS)), rounds=1)
    third, last = results["resident"][2], results["resident"][-1]
    report.add(
        Row(
            what=f"{_NETWORK}, resident memory of a server after {_NUM_SWAPS} swaps",
            ours=f"{last / 2**20:,.0f} MiB",
            peer="after 3",
            theirs=f"{third / 2**20:,.0f} MiB",
            figure=last / third,
            bound=SWAPS_BOUND,
        )
    )


def _times(milliseconds: list[float]) -> str:
    return ", ".join(f"{value:.3g}" for value in milliseconds) + " ms"
