"""What whole processes take: the time of an import, and the memory of a pipeline on more data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from comparison import Bound, Report, Row

#: Seconds.
IMPORT_BOUND = Bound(at_most=0.5)
#: Peak memory over that of a tenth of the data.
MEMORY_BOUND = Bound(at_most=1.1)

_IMPORT_ROUNDS = 6
_IMPORT = """
import resource, time
start = time.perf_counter()
import {module} as module
# Names are imported when they are asked for.
[getattr(module, name) for name in (module.__all__ if "{module}" != "tensorflow" else ())]
used = resource.getrusage(resource.RUSAGE_SELF)
print([time.perf_counter() - start, used.ru_utime + used.ru_stime])
"""

_STREAM = """
import json, os, sys
sys.path.insert(0, {folder!r})
import tensorflow as tf
import tfx_gnn
from bench_packing import mean_budget
from heavy_tailed_graphs import graph_spec, serialized_graphs

spec, budget = graph_spec(), mean_budget()
# Graphs come from a file, so that the data itself takes no memory.
path = {path!r}
if not os.path.exists(path):
    with tf.io.TFRecordWriter(path) as writer:
        for record in serialized_graphs(1024):
            writer.write(record)
records = tf.data.TFRecordDataset(path).repeat({times})
packed = tfx_gnn.pack_batches(records, budget, spec=spec)
padded = packed.map(lambda batch: tfx_gnn.parse_merge_and_pad(spec, batch, budget), num_parallel_calls=2).prefetch(2)
num_graphs = 0
for graph, is_real in padded:
    num_graphs += int(tf.math.count_nonzero(is_real))
# Not ru_maxrss: it starts at the size of the process that started this one.
with open("/proc/self/status") as status:
    (peak,) = [int(line.split()[1]) for line in status if line.startswith("VmHWM:")]
print(json.dumps([num_graphs, 1024 * peak]))
"""


def _run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"a process that is measured must succeed; got {result.stderr[-2000:]}")
    return result.stdout.strip().splitlines()[-1]


def bench_import(report: Report) -> None:
    """Imports the graph core, and TensorFlow alone, in processes of their own, by turns."""
    times: dict[str, list[list[float]]] = {"tensorflow": [], "tfx_gnn.graph": []}

    def one_round() -> None:
        for module, results in times.items():
            results.append(json.loads(_run(_IMPORT.format(module=module))))

    report.repeat(one_round, rounds=_IMPORT_ROUNDS, warmup_rounds=1)
    # The least that it took: what else the machine does can only add.
    wall, cpu = (
        {module: min(result[kind] for result in results[1:]) for module, results in times.items()} for kind in (0, 1)
    )
    report.add(
        Row(
            what="import tfx_gnn.graph with all names",
            ours=f"{wall['tfx_gnn.graph']:.2f} s",
            peer="import tensorflow",
            theirs=f"{wall['tensorflow']:.2f} s",
            figure=wall["tfx_gnn.graph"] - wall["tensorflow"],
            unit="s",
            cpu=cpu["tfx_gnn.graph"] - cpu["tensorflow"],
            bound=IMPORT_BOUND,
        )
    )


def bench_memory(report: Report, tmp_path: Path) -> None:
    """Packs, parses and pads graphs from a file, and the same ten times over."""
    results: dict[int, list[int]] = {}
    path = str(tmp_path / "graphs.tfrecord")

    def measure() -> None:
        for times in (1, 10):
            results[times] = json.loads(_run(_STREAM.format(folder=str(Path(__file__).parent), path=path, times=times)))

    report.repeat(measure, rounds=1)
    report.add(
        Row(
            what=f"peak memory, {results[10][0]:,} graphs over {results[1][0]:,}",
            ours=f"{results[10][1] / 2**20:,.0f} MiB",
            peer="tfx_gnn, a tenth of the data",
            theirs=f"{results[1][1] / 2**20:,.0f} MiB",
            figure=results[10][1] / results[1][1],
            bound=MEMORY_BOUND,
        )
    )
