"""Trainings whose processes are killed at random steps, and started again as a supervisor would.

    .venv/bin/python benchmarks/fault_runs.py                      # all, about twenty minutes on two cores
    .venv/bin/python benchmarks/fault_runs.py --kind "chief" --num-seeds 1

Each run must complete, and be what a training without faults is: the same losses in each epoch and the same weights,
bit for bit on one device, within a tolerance where the order of sums is not fixed; and each example once an epoch.
Under parameter servers workers are not in step, so there only the number of steps and examples is held.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import fault_project
import numpy as np
import tensorflow as tf
import typer
from fault_processes import ForkedProcess, run_forked
from rich.console import Console
from rich.table import Table

from tfx_gnn.components import (
    BatchingOptions,
    CheckpointOptions,
    GraphTrainerOptions,
    StrategyOptions,
    train_graph_model,
)
from tfx_gnn.models import NodeClassification
from tfx_gnn.training import TrainingPreemptedError

_NUM_EPOCHS = 3
_EVERY_STEPS = 7
#: Steps of a training: of the two batch sizes, the global batch has the larger one.
_NUM_STEPS = _NUM_EPOCHS * fault_project.NUM_TRAIN_EXAMPLES // fault_project.BATCH_SIZES[1]
_MAX_STARTS = 8
_DEADLINE_SECONDS = 300.0
_POLL_SECONDS = 0.005
_EXPORTING = ".model.partial-*/Format-Serving"


@dataclasses.dataclass(frozen=True)
class Kind:
    """What is done to a training.

    Attributes:
        name: for the table.
        strategy: what it runs under.
        roles: task types to numbers of tasks; empty for a process alone.
        victims: processes that get the signal, all at once.
        signal: the signal.
        num_faults: how often, at different steps.
        in_export: whether to wait until the model is being exported.
        comes_late: processes that are started once more after all have ended well.
    """

    name: str
    strategy: str
    roles: Mapping[str, int]
    victims: tuple[str, ...]
    signal: signal.Signals = signal.SIGKILL
    num_faults: int = 1
    in_export: bool = False
    comes_late: tuple[str, ...] = ()

    @property
    def must_complete(self) -> tuple[str, ...]:
        """The processes that end by themselves."""
        if self.strategy == "parameter_server":
            return ("chief0",)
        return tuple(f"{role}{index}" for role, number in self.roles.items() for index in range(number)) or ("alone",)

    @property
    def is_exact(self) -> bool:
        """Whether the same weights come out, bit for bit."""
        return self.strategy == "default"


_WORKERS = {"worker": 2}
_SERVERS = {"chief": 1, "worker": 2, "ps": 1}
KINDS = (
    Kind("alone", "default", {}, ("alone",)),
    Kind("alone, three times", "default", {}, ("alone",), num_faults=3),
    Kind("alone, while exporting", "default", {}, ("alone",), in_export=True),
    Kind("alone, preempted", "default", {}, ("alone",), signal=signal.SIGTERM),
    Kind("mirrored on 2 devices", "mirrored", {}, ("alone",)),
    Kind("worker of two", "multi_worker_mirrored", _WORKERS, ("worker1",)),
    Kind("chief of two", "multi_worker_mirrored", _WORKERS, ("worker0",)),
    Kind("both workers", "multi_worker_mirrored", _WORKERS, ("worker0", "worker1")),
    Kind("worker of two, preempted", "multi_worker_mirrored", _WORKERS, ("worker1",), signal=signal.SIGTERM),
    Kind("worker of two, after the end", "multi_worker_mirrored", _WORKERS, ("worker1",), comes_late=("worker1",)),
    Kind("worker of a parameter server", "parameter_server", _SERVERS, ("worker0",)),
    Kind("parameter server", "parameter_server", _SERVERS, ("ps0",)),
    Kind("chief of a parameter server", "parameter_server", _SERVERS, ("chief0",)),
    Kind("parameter server and all", "parameter_server", _SERVERS, ("chief0", "worker0", "worker1", "ps0")),
)


@dataclasses.dataclass(frozen=True)
class Trained:
    """What a training left.

    Attributes:
        losses: of each epoch.
        num_graphs: trained on in each epoch.
        num_steps: in all.
        weights: exported.
    """

    losses: list[float]
    num_graphs: list[int]
    num_steps: int
    weights: dict[str, Any]


@dataclasses.dataclass
class Outcome:
    """What became of one run."""

    kind: str
    seed: int
    steps: list[int]
    starts: dict[str, int] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    difference: float | None = None
    problem: str = ""


def main(
    kind: Annotated[str, typer.Option(help="Only kinds whose name contains this; several parted by '|'.")] = "",
    num_seeds: Annotated[int, typer.Option(help="Runs of each kind.")] = 3,
    first_seed: Annotated[int, typer.Option(help="Seed of the first one.")] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Prints the outcomes as JSON in the last line.")] = False,
    keep: Annotated[str, typer.Option(help="Keeps what failed runs left in this new folder.")] = "",
) -> None:
    """Kills trainings, and tells what became of them."""
    # Whoever ends this process ends all that it has started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console(stderr=True, highlight=False, width=150)
    kinds = [one for one in KINDS if not kind or any(part in one.name for part in kind.split("|"))]
    outcomes: list[Outcome] = []
    with _folder(keep) as folder:
        run_forked(functools.partial(fault_project.prepare, folder), folder / "prepare.log")
        references = {
            strategy: _reference(folder, strategy)
            for strategy in sorted({one.strategy for one in kinds} - {"parameter_server"})
        }
        for seed in range(first_seed, first_seed + num_seeds):
            for one in kinds:
                outcomes.append(_run(folder, one, seed, references.get(one.strategy)))
                last = outcomes[-1]
                console.print(f"{len(outcomes):3} {last.kind}, seed {seed}: {last.problem or 'ok'}", markup=False)
    console.print(_table(outcomes))
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(outcome) for outcome in outcomes]))
    raise typer.Exit(int(any(outcome.problem for outcome in outcomes)))


@contextlib.contextmanager
def _folder(keep: str) -> Iterator[Path]:
    if keep:
        Path(keep).mkdir(parents=True)
        yield Path(keep)
        return
    with tempfile.TemporaryDirectory(prefix="tfx-gnn-faults-") as folder:
        yield Path(folder)


def _reference(folder: Path, strategy: str) -> Trained:
    """Trains without faults."""
    roles = _WORKERS if strategy == "multi_worker_mirrored" else {}
    outcome = Outcome(strategy, 0, [])
    run_dir = folder / f"reference-{strategy}"
    run_dir.mkdir()
    _supervise(folder, run_dir, Kind("no fault", strategy, roles, ()), [], outcome)
    if outcome.problem:
        raise RuntimeError(f"{strategy} without faults: {outcome.problem}")
    return _read(run_dir)


def _run(folder: Path, kind: Kind, seed: int, reference: Trained | None) -> Outcome:
    generator = random.Random(f"{kind.name} {seed}")
    steps = sorted(generator.sample(range(1, _NUM_STEPS - 6), kind.num_faults))
    outcome = Outcome(kind.name, seed, steps)
    run_dir = folder / f"{kind.name.replace(' ', '-').replace(',', '')}-{seed}"
    run_dir.mkdir()
    start = time.monotonic()
    try:
        _supervise(folder, run_dir, kind, steps, outcome)
        if not outcome.problem:
            _compare(kind, _read(run_dir), reference, outcome)
    except (AssertionError, OSError, RuntimeError, ValueError) as error:
        outcome.problem = f"{type(error).__name__}: {error}"[-400:]
    outcome.seconds = time.monotonic() - start
    if not outcome.problem:
        shutil.rmtree(run_dir)
    return outcome


def _supervise(folder: Path, run_dir: Path, kind: Kind, steps: Sequence[int], outcome: Outcome) -> None:
    """Starts all processes, kills some, and starts again what ended before the model was there."""
    processes = _processes(folder, run_dir, kind)
    faults = list(steps)
    deadline = time.monotonic() + _DEADLINE_SECONDS
    try:
        for process in processes.values():
            process.start()
        waited_for, late = set(kind.must_complete), kind.comes_late
        while waited_for and not outcome.problem:
            time.sleep(_POLL_SECONDS)
            if faults and _is_time(run_dir, kind, faults[0]):
                faults.pop(0)
                for victim in kind.victims:
                    processes[victim].send(kind.signal)
            _check_outputs(run_dir)
            waited_for -= _restart(processes, run_dir, outcome)
            if not waited_for and late:
                waited_for = set(late)
                for name in late:
                    processes[name].start()
                late = ()
            if time.monotonic() > deadline:
                outcome.problem = f"did not complete: {_tails(run_dir)}"
        if faults and not outcome.problem:
            outcome.problem = "was through before it could be killed"
    finally:
        for process in processes.values():
            process.end()
        outcome.starts = {name: process.num_starts for name, process in processes.items()}


def _restart(processes: Mapping[str, ForkedProcess], run_dir: Path, outcome: Outcome) -> set[str]:
    """Starts again what has ended too early, and tells what has ended well."""
    done = set()
    for name, process in processes.items():
        if process.is_running:
            continue
        if process.exit_code == 0 and (run_dir / "run").exists():
            done.add(name)
        elif process.num_starts == _MAX_STARTS:
            outcome.problem = f"{name} ended {_MAX_STARTS} times: {_tails(run_dir)}"
        else:
            process.start()
    return done


def _processes(folder: Path, run_dir: Path, kind: Kind) -> dict[str, ForkedProcess]:
    cluster = {role: [f"localhost:{port}" for port in _free_ports(number)] for role, number in kind.roles.items()}
    tasks = [(role, index) for role, number in kind.roles.items() for index in range(number)]
    processes = {}
    for role, index in tasks or [("alone", None)]:
        name = role if index is None else f"{role}{index}"
        env = {fault_project.STEP_FILE: str(run_dir / "step")}
        if index is not None:
            env["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
        train = functools.partial(_train, folder, run_dir, kind.strategy)
        processes[name] = ForkedProcess(name, train, env, run_dir / f"{name}.log")
    return processes


def _train(folder: Path, run_dir: Path, strategy: str) -> None:
    """What each process does."""
    devices: tuple[str, ...] = ()
    if strategy == "mirrored":
        cpus = tf.config.list_physical_devices("CPU")[:1]
        tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
        devices = ("CPU:0", "CPU:1")
    small, large = fault_project.BATCH_SIZES
    with contextlib.suppress(TrainingPreemptedError):
        train_graph_model(
            transformed_examples_dir=str(folder / "transformed"),
            transform_graph_dir=str(folder / "transform_graph"),
            graph_schema_dir=str(folder / "examples"),
            transformed_graph_schema_dir=str(folder / "schema"),
            size_constraints_dir=str(folder / "sizes"),
            model_dir=str(run_dir / "model"),
            model_run_dir=str(run_dir / "run"),
            options=GraphTrainerOptions(
                model_fn=f"{fault_project.__name__}:model_fn",
                task=NodeClassification(label_feature="color", class_vocabulary="color"),
                num_epochs=_NUM_EPOCHS,
                batching=BatchingOptions(kind="tight", batch_size=small if strategy == "parameter_server" else large),
                strategy=StrategyOptions(kind=strategy, devices=devices),
                checkpoints=CheckpointOptions(every_steps=_EVERY_STEPS, directory=str(run_dir / "checkpoints")),
            ),
        )


def _is_time(run_dir: Path, kind: Kind, step: int) -> bool:
    if kind.in_export:
        return next(run_dir.glob(_EXPORTING), None) is not None
    with contextlib.suppress(FileNotFoundError, ValueError):
        return int((run_dir / "step").read_text()) >= step
    return False


def _check_outputs(run_dir: Path) -> None:
    """What is there must be whole."""
    if (run_dir / "model").exists() and not (run_dir / "model" / "Format-Serving" / "saved_model.pb").exists():
        raise AssertionError("a model appeared that is not whole")
    if (run_dir / "run").exists() and not (run_dir / "run" / "training_summary.json").exists():
        raise AssertionError("a model run appeared that is not whole")


def _read(run_dir: Path) -> Trained:
    """Reads a training; in a process of its own, for the one that forks must not run TensorFlow."""

    def read() -> None:
        checkpoint = tf.train.load_checkpoint(str(run_dir / "run" / "checkpoints" / "exported"))
        names = [name for name in checkpoint.get_variable_to_shape_map() if name.endswith("VARIABLE_VALUE")]
        np.savez(run_dir / "weights.npz", **{name: checkpoint.get_tensor(name) for name in names})
        model = tf.saved_model.load(str(run_dir / "model" / "Format-Serving"))
        files = tf.io.gfile.glob(str(run_dir.parent / "examples" / "Split-val" / "*"))
        records = tf.data.TFRecordDataset(files, compression_type="GZIP")
        (examples,) = records.batch(1000)
        assert model.signatures["serving_default"](examples)["logits"].shape[0] == examples.shape[0]

    run_forked(read, run_dir / "read.log")
    summary = json.loads((run_dir / "run" / "training_summary.json").read_text())
    with np.load(run_dir / "weights.npz") as weights:
        return Trained(
            losses=[epoch["loss"] for epoch in summary["epochs"]],
            num_graphs=[epoch["num_graphs"] for epoch in summary["epoch_inputs"]],
            num_steps=summary["num_steps"],
            weights=dict(weights),
        )


def _compare(kind: Kind, trained: Trained, reference: Trained | None, outcome: Outcome) -> None:
    """Notes what differs from a training without faults."""
    if len(trained.losses) != _NUM_EPOCHS or not np.all(np.isfinite(trained.losses)):
        outcome.problem = f"losses {trained.losses}"
    elif reference is not None:
        differences = [np.max(np.abs(trained.weights[name] - value)) for name, value in reference.weights.items()]
        differences.append(np.max(np.abs(np.subtract(trained.losses, reference.losses))))
        outcome.difference = float(max(differences))
        if trained.num_graphs != [fault_project.NUM_TRAIN_EXAMPLES] * _NUM_EPOCHS:
            outcome.problem = f"examples of epochs {trained.num_graphs}"
        elif trained.num_steps != reference.num_steps:
            outcome.problem = f"{trained.num_steps} steps, not {reference.num_steps}"
        elif outcome.difference > (0.0 if kind.is_exact else 1e-5):
            outcome.problem = f"weights or losses differ by {outcome.difference:.2g}"


def _tails(run_dir: Path) -> str:
    return " | ".join(
        f"{log.stem}: {log.read_text(errors='replace')[-300:]!r}" for log in sorted(run_dir.glob("*.log"))
    )


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(number)]
        for listener in listeners:
            listener.bind(("localhost", 0))
        return [listener.getsockname()[1] for listener in listeners]


def _table(outcomes: Sequence[Outcome]) -> Table:
    table = Table(
        title=f"{len(outcomes)} trainings that were killed; {_NUM_STEPS} steps, a checkpoint every {_EVERY_STEPS}"
    )
    for name in ("killed", "seed", "after steps", "starts", "seconds", "largest difference", "verdict"):
        table.add_column(name)
    for outcome in outcomes:
        table.add_row(
            outcome.kind,
            str(outcome.seed),
            ", ".join(map(str, outcome.steps)),
            " ".join(f"{name} {number}" for name, number in outcome.starts.items()),
            f"{outcome.seconds:.0f}",
            "" if outcome.difference is None else f"{outcome.difference:.2g}",
            outcome.problem or "completed",
        )
    return table


if __name__ == "__main__":
    typer.run(main)
