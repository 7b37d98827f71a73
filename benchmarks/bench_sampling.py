"""Subgraphs of the full Debian graph: in memory, on Beam's local runner, and the memory that it takes.

Every run is a process of its own. The graph is that of `debian_graph.debian_tables`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from comparison import Absent, Bound, Report, Row, find_peer, run_process
from debian_graph import copy_tables, debian_tables

#: Subgraphs a second, on one core, as tf.Examples.
IN_MEMORY_BOUND = Bound(at_least=5000)
#: Time of tensorflow-gnn's sampler on Beam over ours, CPU time of all processes.
BEAM_BOUND = Bound(at_least=20)
#: Peak memory of a Beam worker on ten copies of the graph over that on one.
MEMORY_BOUND = Bound(at_most=1.2)

_PEER_SEEDS = 5000
_GIB = 2**30


def _run_peer(module: str, run: str, tables: str, num_seeds: int) -> dict[str, Any] | Absent:
    peer = find_peer(module)
    if isinstance(peer, Absent):
        return peer
    try:
        return run_process("sampling_peers.py", run, tables, num_seeds)
    except RuntimeError as error:
        # What it says itself, such as which of its own dependencies it lacks.
        return Absent(str(error).strip().splitlines()[-1])


def _without_graph(report: Report, what: str, bound: Bound | None) -> str | None:
    """Gives the graph's folder, or adds a row that says how to get it."""
    tables = debian_tables()
    if isinstance(tables, Absent):
        report.repeat(lambda: None, rounds=1)
        report.add(Row(what=what, ours="", bound=bound, note=tables.reason))
        return None
    return tables


def bench_in_memory(report: Report) -> None:
    """Samples around every package on one core; then the smaller plan, beside others."""
    what = "subgraphs in memory, one core"
    tables = _without_graph(report, what, IN_MEMORY_BOUND)
    if tables is None:
        return
    results: dict[str, dict[str, Any]] = {}

    def measure() -> None:
        for plan in ("heterogeneous", "four_edge_sets"):
            results[plan] = run_process("sampling_runs.py", "in_memory", tables, plan)

    report.repeat(measure, rounds=1)
    large, small = results["heterogeneous"], results["four_edge_sets"]
    size = f"{large['seeds']:,} seeds, 8/4, {large['nodes']:.0f} nodes and {large['edges']:.0f} edges"
    for kind, figure, bound in (
        ("as arrays", large["sampled_per_second"], None),
        (f"as tf.Examples of {large['bytes']:,.0f} bytes", large["examples_per_second"], IN_MEMORY_BOUND),
    ):
        report.add(
            Row(
                what=f"{what}, {size}, {kind}",
                ours=f"{figure:,.0f} subgraphs/s",
                figure=figure,
                unit="subgraphs/s",
                bound=bound,
            )
        )
    for module, run, peer, num_seeds in (
        ("tensorflow_gnn", "tensorflow_gnn_in_memory", "tensorflow-gnn 1.0.3, GraphTensors", 20_000),
        ("torch_geometric", "pyg_merged", "PyG NeighborLoader, 256 seeds in one graph", 20_000),
        ("torch_geometric", "pyg_disjoint", "PyG NeighborLoader, a graph a seed", 20_000),
        ("torch_geometric", "pyg_one_by_one", "PyG NeighborLoader, seed by seed", 2000),
    ):
        result = _run_peer(module, run, tables, num_seeds)
        row = Row(
            what=f"{what}, 4 edge sets, {small['nodes']:.0f} nodes, as tf.Examples",
            ours=f"{small['examples_per_second']:,.0f} subgraphs/s",
            peer=peer,
            note=result.reason if isinstance(result, Absent) else "",
        )
        report.add(row if isinstance(result, Absent) else _compared(row, small["examples_per_second"], result))


def _compared(row: Row, ours: float, theirs: dict[str, Any]) -> Row:
    speed = theirs["seeds"] / theirs["cpu_seconds"]
    return Row(what=row.what, ours=row.ours, peer=row.peer, theirs=f"{speed:,.0f} subgraphs/s", figure=ours / speed)


def _run_on_beam(
    folder: Path, tables: str | Path, what: str, num_workers: int, num_partitions: int = 0
) -> dict[str, Any]:
    """Partitions a graph and samples from it; what the former took is under names that begin with "partition_"."""
    partitions_dir, examples_dir = folder / "partitions", folder / "examples"
    made = run_process("sampling_runs.py", "partition", tables, partitions_dir, what, num_workers, num_partitions)
    sampled = run_process("sampling_runs.py", "beam", partitions_dir, examples_dir, what, num_workers)
    return sampled | {f"partition_{name}": value for name, value in made.items()}


def bench_beam(report: Report, tmp_path: Path) -> None:
    """Samples around every package with one worker and with two."""
    what = "subgraphs on Beam's local runner"
    tables = _without_graph(report, what, None)
    if tables is None:
        return
    results: dict[int, dict[str, Any]] = {}

    def measure() -> None:
        for num_workers in (1, 2):
            results[num_workers] = _run_on_beam(tmp_path / str(num_workers), tables, "heterogeneous", num_workers)

    report.repeat(measure, rounds=1)
    for num_workers, result in results.items():
        report.add(
            Row(
                what=f"{what}, {result['seeds']:,} seeds, 8/4, workers: {num_workers}",
                ours=f"{result['seconds']:.0f} s, {result['bytes']:,.0f} bytes each in gzipped files; partitioning "
                f"{result['partition_seconds']:.0f} s",
                figure=result["seeds"] / result["seconds"],
                unit="subgraphs/s",
                cpu=result["seeds"] / result["cpu_seconds"],
            )
        )


def bench_beam_beside_tensorflow_gnn(report: Report, tmp_path: Path) -> None:
    """Samples around 5,000 packages along four edge sets, from tables to tf.Examples."""
    what = f"{_PEER_SEEDS:,} seeds, 4 edge sets, two steps, tables to tf.Examples on Beam's local runner"
    tables = _without_graph(report, what, BEAM_BOUND)
    if tables is None:
        return
    copy_tables(tables, str(tmp_path / "tables"), num_seeds=_PEER_SEEDS)
    results: dict[str, Any] = {}

    def measure() -> None:
        results["ours"] = _run_on_beam(tmp_path, tmp_path / "tables", "seeds", 1)
        results["theirs"] = _run_peer("tensorflow_gnn", "tensorflow_gnn_on_beam", tables, _PEER_SEEDS)

    report.repeat(measure, rounds=1)
    ours, theirs = results["ours"], results["theirs"]
    seconds = ours["partition_seconds"] + ours["seconds"]
    row = Row(what=what, ours=f"{seconds:.1f} s", peer="tensorflow-gnn 1.0.3", bound=BEAM_BOUND)
    if isinstance(theirs, Absent):
        report.add(Row(what=what, ours=row.ours, peer=row.peer, bound=row.bound, note=theirs.reason))
        return
    report.add(
        Row(
            what=what,
            ours=row.ours,
            peer=row.peer,
            theirs=f"{theirs['seconds']:.0f} s",
            figure=theirs["seconds"] / seconds,
            cpu=theirs["cpu_seconds"] / (ours["cpu_seconds"] + ours["partition_cpu_seconds"]),
            bound=row.bound,
        )
    )


def bench_memory(report: Report, tmp_path: Path) -> None:
    """Samples around the same 5,000 packages of one graph, and of ten copies of it."""
    what = "peak memory of a Beam worker, ten times the graph"
    tables = _without_graph(report, what, MEMORY_BOUND)
    if tables is None:
        return
    results: dict[int, dict[str, Any]] = {}

    def measure() -> None:
        for times in (1, 10):
            folder = tmp_path / f"tables_{times}"
            copy_tables(tables, str(folder), times=times, num_seeds=_PEER_SEEDS)
            # Partitions of about the same size: what a worker holds of a graph is a few of them.
            results[times] = _run_on_beam(tmp_path / str(times), folder, "seeds", 2, 8 if times == 1 else 64)
            results[times]["in_memory_peak"] = run_process("sampling_runs.py", "in_memory", folder, "four_edge_sets")[
                "peak"
            ]

    report.repeat(measure, rounds=1)
    one, ten = results[1], results[10]
    for kind, key, bound in (
        ("sampling", "worker_peak", MEMORY_BOUND),
        ("partitioning the graph", "partition_worker_peak", MEMORY_BOUND),
        ("the runner's process while partitioning the graph, which is no worker", "partition_peak", None),
        ("for comparison, sampling in memory", "in_memory_peak", None),
    ):
        report.add(
            Row(
                what=f"{what}: {kind}",
                ours=f"{ten[key] / _GIB:.2f} GiB",
                peer="the graph once",
                theirs=f"{one[key] / _GIB:.2f} GiB",
                figure=ten[key] / one[key],
                bound=bound,
            )
        )
