"""Training end to end, from files of tf.Examples to weights, beside tensorflow-gnn and PyG; two workers beside one."""

from __future__ import annotations

import functools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from accuracy_runs import Prepared, prepare
from comparison import OURS, Absent, Bound, Report, Row, find_peer, run_process
from debian_graph import copy_tables, debian_tables, four_edge_sets_plan
from training_runs import BATCH_SIZE

from tfx_gnn.stages.graph_transform import GraphTransformOptions
from tfx_gnn.stages.size_constraint_learner import SizeConstraintLearnerOptions
from tfx_gnn.stages.subgraph_example_gen import SubgraphExampleGenOptions
from tfx_gnn_pipelines.tasks.debian_sections import TASK

NUM_SEEDS = 32_000
_ROUNDS = 3
_SCRIPT = Path(__file__).with_name("training_runs.py")
_CLUSTERS = Path(__file__).parents[1] / "tests"


def bench_end_to_end(report: Report) -> None:
    """Epochs after the first, in processes of their own: shuffled, parsed, batched by 128, padded, trained on."""
    what = f"training from files, batches of {BATCH_SIZE}"
    data = _data()
    if isinstance(data, Absent):
        report.add(Row(what=what, ours="", note=data.reason))
        return
    ours: dict[str, Callable[[], float]] = {
        batching: functools.partial(_speed, "ours", data, batching) for batching in ("packed", "fit_or_skip")
    }
    peers: dict[str, Callable[[], float] | Absent] = {
        "tensorflow-gnn 1.0.3, fit or skip, Keras fit": _found(
            "tensorflow_gnn", functools.partial(_speed, "tensorflow_gnn", data)
        ),
        "PyG, graphs in memory": _found("torch_geometric", functools.partial(_speed_of_pyg, data, num_workers=0)),
        "PyG, graphs in memory, one worker": _found(
            "torch_geometric", functools.partial(_speed_of_pyg, data, num_workers=1)
        ),
    }
    runs = ours | {name: run for name, run in peers.items() if not isinstance(run, Absent)}
    speeds: dict[str, list[float]] = {name: [] for name in runs}

    def one_round() -> None:
        for name, run in runs.items():
            speeds[name].append(run())

    report.repeat(one_round, rounds=_ROUNDS)
    for batching in ours:
        mine = f"{statistics.median(speeds[batching]):,.0f} graphs/s"
        for name, run in peers.items():
            if isinstance(run, Absent):
                report.add(Row(what=f"{what}, {batching}", ours=mine, peer=name, note=run.reason))
                continue
            report.add(
                Row(
                    what=f"{what}, {batching}",
                    ours=mine,
                    peer=name,
                    theirs=f"{statistics.median(speeds[name]):,.0f} graphs/s",
                    figure=statistics.median(
                        our / their for our, their in zip(speeds[batching], speeds[name], strict=True)
                    ),
                    bound=Bound(at_least=2.0) if (batching, name[:10]) == ("packed", "tensorflow") else None,
                )
            )


def bench_two_workers(report: Report) -> None:
    """One process on one core, and two with a core each, by MultiWorkerMirrored."""
    what = "training from files on two workers, a core each"
    data = _data()
    if isinstance(data, Absent):
        report.add(Row(what=what, ours="", note=data.reason))
        return
    alone, together = [], []

    def one_round() -> None:
        alone.append(_speed("on_own_core", data, "packed"))
        together.append(_speed_of_workers(data))

    report.repeat(one_round, rounds=_ROUNDS)
    report.add(
        Row(
            what=what,
            ours=f"{statistics.median(together):,.0f} graphs/s",
            peer=f"{OURS}, one process on one core",
            theirs=f"{statistics.median(alone):,.0f} graphs/s",
            figure=statistics.median(two / one for two, one in zip(together, alone, strict=True)),
        )
    )


@functools.cache
def _data() -> Prepared | Absent:
    tables = debian_tables()
    return tables if isinstance(tables, Absent) else prepared_data(Path(tempfile.mkdtemp(prefix="bench_training_")))


def prepared_data(folder: Path) -> Prepared | Absent:
    """Samples, transforms and learns budgets.

    Args:
        folder: empty folder to write into.

    Returns:
        The data.
    """
    tables = debian_tables()
    if isinstance(tables, Absent):
        return tables
    copy_tables(tables, str(folder / "tables"), num_seeds=NUM_SEEDS)
    return prepare(
        folder / "data",
        tables_dir=str(folder / "tables"),
        sampling=SubgraphExampleGenOptions(plan=four_edge_sets_plan(has_seed_table=True), num_shards=4),
        transform=GraphTransformOptions(
            preprocessing_fn=TASK.preprocessing_fn, analyze_splits=("train", "val", "test")
        ),
        sizes=SizeConstraintLearnerOptions(batch_size=BATCH_SIZE),
    )


def _found(module: str, run: Callable[[], float]) -> Callable[[], float] | Absent:
    found = find_peer(module)
    return found if isinstance(found, Absent) else run


def _speed_of_pyg(data: Prepared, *, num_workers: int) -> float:
    return float(run_process("training_pyg.py", data.folder, num_workers)["speed"])


def _speed(run: str, data: Prepared, *settings: str) -> float:
    return float(run_process(_SCRIPT.name, run, data.folder, *settings)["speed"])


def _speed_of_workers(data: Prepared) -> float:
    """Graphs per second of both workers, as the chief counts them."""
    program = (
        "import json, sys; from clusters import run_cluster; "
        "print(json.dumps({name: output.stdout for name, output in "
        'run_cluster(sys.argv[1:], {"worker": 2}, timeout=900).items()}))'
    )
    command = [sys.executable, "-c", program, str(_SCRIPT), "on_own_core", str(data.folder), "packed"]
    done = subprocess.run(command, cwd=_CLUSTERS, capture_output=True, text=True, check=True)
    outputs = json.loads(done.stdout.splitlines()[-1])
    return float(json.loads(outputs["worker0"].splitlines()[-1])["speed"])
