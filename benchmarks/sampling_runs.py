"""This library's samplers on the Debian graph, each in a process of its own.

`python sampling_runs.py RUN ARGUMENTS` prints what it measured as JSON, in the last line.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions
from debian_graph import four_edge_sets_plan, heterogeneous_plan

from tfx_gnn.sampling import SamplingPlan

_BATCH = 1024
_POLL_SECONDS = 0.2


def run_in_memory(tables_dir: str, what: str) -> dict[str, float]:
    """Samples around all packages on one core, with and without writing tf.Examples."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from tfx_gnn.sampling import InMemorySampler, reached_node_sets
    from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
    from tfx_gnn.tables import read_tables, read_tables_schema

    plan = _plan(what)
    schema = read_tables_schema(tables_dir)
    tables = read_tables(tables_dir, node_sets=reached_node_sets(plan, schema), edge_sets=plan.edge_set_names)
    sampler = InMemorySampler(tables, plan, sampling_seed=0)
    encoder = SubgraphExampleEncoder(tables, plan)
    num_seeds = tables.node_tables[plan.seed_node_set].num_nodes
    # In another order than that of the table, so that neighbours are not sampled together.
    rows = np.random.default_rng(0).permutation(num_seeds)
    batches = [rows[start : start + _BATCH] for start in range(0, num_seeds, _BATCH)]
    list(encoder.encode(sampler.sample_nodes(batches[0])))
    started = time.process_time()
    num_nodes = num_edges = 0
    for batch in batches:
        subgraphs = sampler.sample_nodes(batch)
        num_nodes += sum(len(nodes.rows) for nodes in subgraphs.node_sets.values())
        num_edges += sum(len(edges.rows) for edges in subgraphs.edge_sets.values())
    sampled = time.process_time()
    num_bytes = sum(len(record) for batch in batches for record in encoder.encode(sampler.sample_nodes(batch)))
    encoded = time.process_time()
    return {
        "seeds": num_seeds,
        "sampled_per_second": num_seeds / (sampled - started),
        "examples_per_second": num_seeds / (encoded - sampled),
        "nodes": num_nodes / num_seeds,
        "edges": num_edges / num_seeds,
        "bytes": num_bytes / num_seeds,
        "peak": _peak("self"),
    }


def run_partition(
    tables_dir: str, partitions_dir: str, what: str, num_workers: int, num_partitions: int
) -> dict[str, float]:
    """Partitions tables on Beam's local runner.

    Args:
        tables_dir: where the tables are.
        partitions_dir: folder to make.
        what: as for `run_on_beam`.
        num_workers: likewise.
        num_partitions: of the partitioned graph; 0 has it chosen by the size of the tables.
    """
    from tfx_gnn.sampling import PartitionOptions, partition_graph

    with _WorkerPeaks() as workers:
        started, cpu = time.perf_counter(), _cpu_seconds()
        report = partition_graph(
            make_pipeline=lambda: _pipeline(num_workers),
            tables_dir=tables_dir,
            partitions_dir=partitions_dir,
            plan=_plan(what),
            options=PartitionOptions(num_partitions=num_partitions),
        )
        return {
            "seconds": time.perf_counter() - started,
            "cpu_seconds": _cpu_seconds() - cpu,
            "partitions": report.info.num_partitions,
            "worker_peak": workers.peak,
            "peak": _peak("self"),
        }


def run_on_beam(partitions_dir: str, examples_dir: str, what: str, num_workers: int) -> dict[str, float]:
    """Samples from a partitioned graph on Beam's local runner.

    Args:
        partitions_dir: the partitioned graph, made for the same plan.
        examples_dir: folder to make.
        what: "heterogeneous" around all packages, or "seeds" for `four_edge_sets_plan` of a seed table.
        num_workers: 1: in this process; more: each in its own.
    """
    from tfx_gnn.sampling import sample_with_beam

    with _WorkerPeaks() as workers:
        started, cpu = time.perf_counter(), _cpu_seconds()
        statistics = sample_with_beam(
            make_pipeline=lambda: _pipeline(num_workers),
            partitions_dir=partitions_dir,
            examples_dir=examples_dir,
            plan=_plan(what),
            sampling_seed=0,
            num_shards=8,
        )
        num_seeds = sum(statistics.num_subgraphs.values())
        return {
            "seeds": num_seeds,
            "seconds": time.perf_counter() - started,
            "cpu_seconds": _cpu_seconds() - cpu,
            "bytes": sum(path.stat().st_size for path in Path(examples_dir).glob("Split-*/*")) / num_seeds,
            "worker_peak": workers.peak,
            "peak": _peak("self"),
        }


def _plan(what: str) -> SamplingPlan:
    return heterogeneous_plan() if what == "heterogeneous" else four_edge_sets_plan(has_seed_table=what == "seeds")


def _pipeline(num_workers: int) -> beam.Pipeline:
    mode = "in_memory" if num_workers == 1 else "multi_processing"
    return beam.Pipeline(
        options=PipelineOptions(
            ["--runner=DirectRunner", f"--direct_running_mode={mode}", f"--direct_num_workers={num_workers}"]
        )
    )


class _WorkerPeaks:
    """Watches the processes that this one starts: `peak` is the most memory, in bytes, that one of them had."""

    def __init__(self) -> None:
        self.peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _WorkerPeaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            self.peak = max([self.peak, *(_peak(child) for child in _descendants(str(os.getpid())))])


def _descendants(process: str) -> Iterator[str]:
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:  # ended meanwhile
            continue
        for child in children:
            yield child
            yield from _descendants(child)


def _peak(process: str) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # ended meanwhile
        return 0
    # Not ru_maxrss: it starts at the size of the process that started this one.
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


RUNS: Mapping[str, Callable[..., dict[str, float]]] = {
    "in_memory": run_in_memory,
    "partition": run_partition,
    "beam": run_on_beam,
}

if __name__ == "__main__":
    run, *arguments = sys.argv[1:]
    result = RUNS[run](*(int(argument) if argument.isdecimal() else argument for argument in arguments))
    sys.stdout.write(f"{json.dumps(result)}\n")
