"""Training end to end, from files of tf.Examples to weights, beside tensorflow-gnn and PyG; two workers beside one."""

from __future__ import annotations

import dataclasses
import functools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from accuracy_runs import Prepared, prepare
from comparison import OURS, Absent, Bound, Report, Row, find_peer, run_process
from debian_graph import copy_tables, debian_tables, four_edge_sets_plan
from training_runs import BATCH_SIZE

from tfx_gnn.components import GraphTransformOptions, SizeConstraintLearnerOptions, SubgraphExampleGenOptions
from tfx_gnn_pipelines.tasks.debian_sections import TASK

NUM_SEEDS = 32_000
_ROUNDS = 3
_SCRIPT = Path(__file__).with_name("training_runs.py")
_CLUSTERS = Path(__file__).parents[1] / "tests"
_PARTS: dict[str, Callable[[_Speeds], float]] = {
    "after the first epoch": lambda speeds: speeds.steady,
    "all epochs": lambda speeds: speeds.all_epochs,
}


@dataclasses.dataclass(frozen=True)
class _Speeds:
    """Graphs per second of a training.

    Attributes:
        steady: median of the epochs after the first.
        all_epochs: of all of them together, the first one with its tracing included.
    """

    steady: float
    all_epochs: float


def bench_end_to_end(report: Report) -> None:
    """In processes of their own: shuffled, parsed, batched by 128, padded, trained on."""
    what = f"training from files, batches of {BATCH_SIZE}"
    data = _data()
    if isinstance(data, Absent):
        report.add(Row(what=what, ours="", note=data.reason))
        return
    ours: dict[str, Callable[[], _Speeds]] = {
        batching: functools.partial(_speeds, _SCRIPT.name, "ours", data.folder, batching)
        for batching in ("packed", "fit_or_skip")
    }
    pyg = functools.partial(_speeds, "training_pyg.py", data.folder)
    peers: dict[str, Callable[[], _Speeds] | Absent] = {
        "tensorflow-gnn 1.0.3, fit or skip, Keras fit": _found(
            "tensorflow_gnn", functools.partial(_speeds, _SCRIPT.name, "tensorflow_gnn", data.folder)
        ),
        "PyG, graphs in memory": _found("torch_geometric", functools.partial(pyg, 0)),
        "PyG, graphs in memory, one worker": _found("torch_geometric", functools.partial(pyg, 1)),
    }
    runs = ours | {name: run for name, run in peers.items() if not isinstance(run, Absent)}
    speeds: dict[str, list[_Speeds]] = {name: [] for name in runs}

    def one_round() -> None:
        for name, run in runs.items():
            speeds[name].append(run())

    report.repeat(one_round, rounds=_ROUNDS)
    for batching in ours:
        for name, run in peers.items():
            if isinstance(run, Absent):
                report.add(Row(what=f"{what}, {batching}", ours="", peer=name, note=run.reason))
                continue
            for part, speed_of in _PARTS.items():
                mine, their = ([speed_of(speed) for speed in speeds[who]] for who in (batching, name))
                is_bounded = (batching, part, name[:10]) == ("packed", "after the first epoch", "tensorflow")
                report.add(
                    Row(
                        what=f"{what}, {batching}, {part}",
                        ours=f"{statistics.median(mine):,.0f} graphs/s",
                        peer=name,
                        theirs=f"{statistics.median(their):,.0f} graphs/s",
                        figure=statistics.median(one / other for one, other in zip(mine, their, strict=True)),
                        bound=Bound(at_least=2.0) if is_bounded else None,
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
        alone.append(_speeds(_SCRIPT.name, "on_own_core", data.folder, "packed").steady)
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


def _found(module: str, run: Callable[[], _Speeds]) -> Callable[[], _Speeds] | Absent:
    found = find_peer(module)
    return found if isinstance(found, Absent) else run


def _speeds(script: str, *settings: object) -> _Speeds:
    return _speeds_of(run_process(script, *settings)["speeds"])


def _speeds_of(epochs: Sequence[float]) -> _Speeds:
    # Each epoch trains on as many graphs, so all together is the harmonic mean.
    return _Speeds(steady=statistics.median(epochs[1:]), all_epochs=statistics.harmonic_mean(epochs))


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
    return _speeds_of(json.loads(outputs["worker0"].splitlines()[-1])["speeds"]).steady
