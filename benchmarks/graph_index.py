"""A graph index of a random graph: building it, sampling from it or from tables in memory, and adding to it.

    python benchmarks/graph_index.py                                      # 200,000 nodes, 1,000,000 edges
    python benchmarks/graph_index.py --nodes 2000000 --edges 10000000
    python benchmarks/graph_index.py --nodes 20000000 --edges 100000000 --without-tables
    python benchmarks/graph_index.py --only-builds --workers 2            # in memory, and on Beam

Every measurement is a process of its own. Sampling is ten and five edges around each seed, as tf.Examples.
"""

from __future__ import annotations

import argparse
import filecmp
import hashlib
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from comparison import run_process

if TYPE_CHECKING:
    from tfx_gnn.sampling import SamplingPlan

#: Edges that are drawn and written at once.
_CHUNK = 1 << 20
_BLOCK = 256
_NUM_SINGLE = 300
_NUM_PASSES = 7
_NUM_ADDED = (0, 1_000, 10_000, 100_000)
_SCHEMA = """
node_sets { key: "n" value {
  features { key: "#id" value { dtype: DT_INT64 } } features { key: "x" value { dtype: DT_FLOAT } }
  metadata { filename: "n.parquet" } } }
edge_sets { key: "e" value { source: "n" target: "n" metadata { filename: "e.parquet" } } }
"""


def make(folder: str, num_nodes: int, num_edges: int) -> dict[str, Any]:
    """Writes the tables; half of the edges start at a quarter of the nodes."""
    os.mkdir(folder)
    draw = np.random.default_rng(0)
    _write(
        f"{folder}/n.parquet",
        ({"id": ids, "x": draw.random(len(ids), np.float32)} for ids in _pieces(draw.permutation(num_nodes))),
    )
    _write(
        f"{folder}/e.parquet",
        (
            {
                "source": (num_nodes * draw.random(count) ** 2).astype(np.int64),
                "target": draw.integers(0, num_nodes, count),
            }
            for count in (min(_CHUNK, num_edges - first) for first in range(0, num_edges, _CHUNK))
        ),
    )
    Path(folder, "graph_schema.pbtxt").write_text(_SCHEMA)
    return {}


def _pieces(values: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    for first in range(0, len(values), _CHUNK):
        yield values[first : first + _CHUNK]


def _write(path: str, pieces: Iterator[Mapping[str, np.ndarray[Any, Any]]]) -> None:
    first = pa.table(dict(next(pieces)))
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for piece in pieces:
            writer.write_table(pa.table(dict(piece)))


def build(tables_dir: str, index_dir: str, *beam_args: str) -> dict[str, Any]:
    """Builds the index, on Beam if there are arguments for it."""
    from tfx_gnn.components.graph_indexer.options import GraphIndexerOptions
    from tfx_gnn.components.graph_indexer.stage import build_graph_index
    from tfx_gnn.sampling import open_graph_index

    options = GraphIndexerOptions(execution="beam" if beam_args else "in_memory")
    before, started, cpu = _peak(), time.perf_counter(), time.process_time()
    build_graph_index(tables_dir=tables_dir, graph_index_dir=index_dir, options=options, beam_args=beam_args)
    result = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    index = open_graph_index(index_dir)
    sizes = {name: record.num_bytes for name, record in index.manifest.files.items()}
    edges = sum(size for name, size in sizes.items() if name.startswith("edges.") and not name.endswith("offsets"))
    return result | {
        "bytes": sum(sizes.values()),
        "bytes_an_edge_and_direction": edges / 2 / index.edge_tables["e"].num_edges,
        "peak": _peak(),
        "imports_peak": before,
        "workers_cpu_seconds": workers.ru_utime + workers.ru_stime,
        "largest_worker": 1024 * workers.ru_maxrss,
    }


def sample(kind: str, folder: str, num_nodes: int, num_seeds: int) -> dict[str, Any]:
    """Samples around random nodes, in blocks and one by one, from an "index" or from "tables"."""
    from tfx_gnn.sampling import InMemorySampler, open_graph_index
    from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
    from tfx_gnn.tables import read_tables

    plan = _plan()
    before, started = _peak(), time.perf_counter()
    graph = open_graph_index(folder) if kind == "index" else read_tables(folder)
    opened = time.perf_counter()
    sampler = InMemorySampler(graph, plan, sampling_seed=0)
    encoder = SubgraphExampleEncoder(graph, plan)
    ready = time.perf_counter()
    rows = np.random.default_rng(1).integers(0, num_nodes, num_seeds)
    passes = []
    digest = hashlib.sha256()
    for _ in range(_NUM_PASSES):
        begun, begun_cpu = time.perf_counter(), time.process_time()
        for first in range(0, num_seeds, _BLOCK):
            for record in encoder.encode(sampler.sample_nodes(rows[first : first + _BLOCK])):
                digest.update(record)
        passes.append((time.perf_counter() - begun, time.process_time() - begun_cpu))
    peak = _peak()
    singles = []
    for row in np.random.default_rng(2).integers(0, num_nodes, _NUM_SINGLE).tolist():
        begun = time.perf_counter()
        encoder.encode(sampler.sample_ids([row]))
        singles.append(time.perf_counter() - begun)
    return {
        "open_ms": 1e3 * (opened - started),
        "ready_seconds": ready - started,
        "first_seconds": passes[0][0],
        "seconds": statistics.median(wall for wall, _ in passes),
        "cpu_seconds": statistics.median(cpu for _, cpu in passes),
        "one_seed_ms": 1e3 * statistics.median(singles),
        "records": digest.hexdigest(),
        "peak": peak,
        "imports_peak": before,
    }


def add(index_dir: str, log: str, num_nodes: int, num_added: int) -> dict[str, Any]:
    """Adds nodes with five edges each at once, then one after the other, and asks about each."""
    from tfx_gnn.sampling import InMemorySampler, open_graph_index, open_graph_overlay
    from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder

    index, plan, draw = open_graph_index(index_dir), _plan(), np.random.default_rng(3)
    adding: list[float] = []
    asking: list[float] = []
    again: list[float] = []

    def rows(first: int, count: int) -> dict[str, Any]:
        nodes = np.arange(first, first + count)
        ends = np.repeat(nodes, 5), draw.integers(0, num_nodes, 5 * count)
        return {
            "nodes": {"n": {"#id": nodes.tolist(), "x": [0.5] * count}},
            "edges": {"e": {"#source": ends[0].tolist(), "#target": ends[1].tolist()}},
        }

    with open_graph_overlay(index, log) as overlay:
        if num_added:
            overlay.add(**rows(num_nodes, num_added))
            overlay.snapshot()
        for node in range(num_nodes + num_added, num_nodes + num_added + _NUM_SINGLE):
            more, begun = rows(node, 1), time.perf_counter()
            overlay.add(**more)
            times = [begun, time.perf_counter()]
            for _ in range(2):
                graph = overlay.snapshot()
                sampler, encoder = InMemorySampler(graph, plan, sampling_seed=0), SubgraphExampleEncoder(graph, plan)
                encoder.encode(sampler.sample_ids([node]))
                times.append(time.perf_counter())
            for kind, start, end in zip((adding, asking, again), times[:-1], times[1:], strict=True):
                kind.append(1e3 * (end - start))
    return {name: statistics.median(ms) for name, ms in (("add", adding), ("ask", asking), ("again", again))}


def _plan() -> SamplingPlan:
    from tfx_gnn.sampling import Hop, SamplingPlan

    return SamplingPlan(
        seed_node_set="n",
        hops=(Hop(edge_set="e", fan_out=10), Hop(edge_set="e", name="e2", fan_out=5, inputs=("e",))),
    )


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return next(1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


RUNS: Mapping[str, Callable[..., dict[str, Any]]] = {"make": make, "build": build, "sample": sample, "add": add}


def compare_builds(num_nodes: int, num_edges: int, num_workers: int) -> None:
    """Prints the figures of a build in memory and of one on Beam."""
    with tempfile.TemporaryDirectory() as folder:
        tables_dir, index_dir, of_beam = f"{folder}/tables", f"{folder}/index", f"{folder}/of_beam"
        run_process("graph_index.py", "make", tables_dir, num_nodes, num_edges)
        local = run_process("graph_index.py", "build", tables_dir, index_dir)
        workers = ("--direct_running_mode=multi_processing", f"--direct_num_workers={num_workers}")
        beam = run_process("graph_index.py", "build", tables_dir, of_beam, *workers)
        names = sorted(os.listdir(index_dir))
        same = filecmp.cmpfiles(index_dir, of_beam, names, shallow=False)[0] == names == sorted(os.listdir(of_beam))
        sys.stdout.write(
            f"{num_nodes:,} nodes, {num_edges:,} edges: in memory {local['seconds']:.1f} s, "
            f"{local['cpu_seconds']:.1f} s of CPU, peak {local['peak'] / 1e6:,.0f} MB; on Beam, {num_workers} workers: "
            f"{beam['seconds']:.1f} s, "
            f"{beam['cpu_seconds'] + beam['workers_cpu_seconds']:.1f} s of CPU, largest worker "
            f"{beam['largest_worker'] / 1e6:,.0f} MB, main process {beam['peak'] / 1e6:,.0f} MB (all with what imports "
            f"take, {local['imports_peak'] / 1e6:,.0f} MB); {len(names)} {'equal' if same else 'OTHER'} files\n"
        )


def main(num_nodes: int, num_edges: int, num_seeds: int, *, has_tables: bool) -> None:
    """Prints the figures of a whole round."""
    with tempfile.TemporaryDirectory() as folder:
        tables_dir, index_dir = f"{folder}/tables", f"{folder}/index"
        run_process("graph_index.py", "make", tables_dir, num_nodes, num_edges)
        built = run_process("graph_index.py", "build", tables_dir, index_dir)
        sys.stdout.write(
            f"{num_nodes:,} nodes, {num_edges:,} edges; build {built['seconds']:.1f} s, {built['cpu_seconds']:.1f} s "
            f"of CPU, peak {_mb(built)} MB; {built['bytes'] / 1e6:,.0f} MB, "
            f"{built['bytes_an_edge_and_direction']:.1f} bytes an edge and direction\n"
        )
        found = {}
        for kind, place in (("index", index_dir), ("tables", tables_dir)):
            if kind == "index" or has_tables:
                found[kind] = run_process("graph_index.py", "sample", kind, place, num_nodes, num_seeds)
        for kind, one in found.items():
            sys.stdout.write(
                f"{num_seeds:,} seeds from {kind}: open {one['open_ms']:.1f} ms, ready {one['ready_seconds']:.2f} s, "
                f"sampling first {one['first_seconds']:.2f} s, then {one['seconds']:.2f} s and "
                f"{one['cpu_seconds']:.2f} s of CPU; one seed {one['one_seed_ms']:.2f} ms; peak {_mb(one)} MB\n"
            )
        if has_tables:
            index, tables = found["index"], found["tables"]
            same = "the same" if index["records"] == tables["records"] else "OTHER"
            sys.stdout.write(
                f"index over tables: sampling {index['seconds'] / tables['seconds']:.2f}x, in CPU time "
                f"{index['cpu_seconds'] / tables['cpu_seconds']:.2f}x; {same} records\n"
            )

        for num_added in _NUM_ADDED:
            one = run_process("graph_index.py", "add", index_dir, f"{folder}/{num_added}.log", num_nodes, num_added)
            sys.stdout.write(
                f"after {num_added:,} nodes and {5 * num_added:,} edges were added: adding a node with 5 edges "
                f"{one['add']:.2f} ms, asking about it {one['ask']:.2f} ms, and again {one['again']:.2f} ms\n"
            )


def _mb(result: Mapping[str, Any]) -> str:
    # Without what the imports take.
    return f"{(result['peak'] - result['imports_peak']) / 1e6:,.0f}"


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in RUNS:
        run, *arguments = sys.argv[1:]
        result = RUNS[run](*(int(argument) if argument.isdecimal() else argument for argument in arguments))
        sys.stdout.write(f"{json.dumps(result)}\n")
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("--nodes", type=int, default=200_000)
        parser.add_argument("--edges", type=int, default=1_000_000)
        parser.add_argument("--seeds", type=int, default=14_000)
        parser.add_argument("--without-tables", action="store_true")
        parser.add_argument("--only-builds", action="store_true")
        parser.add_argument("--workers", type=int, default=2)
        options = parser.parse_args()
        if options.only_builds:
            compare_builds(options.nodes, options.edges, options.workers)
            sys.exit()
        main(options.nodes, options.edges, options.seeds, has_tables=not options.without_tables)
