"""The stages from the shell on a small project, with the trainer and the pusher killed on the way.

Each verb is a process of its own. SIGKILL gives it no chance to clean up; the
same command must complete afterwards, and nothing half-written may pass for whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from tfx_gnn.serving import ServingModel, list_versions, read_records, resolve_saved_model

TINY_PROJECT = Path(__file__).parents[1] / "components" / "tiny_project"
C_PROGRAM = Path(__file__).parents[1] / "unit" / "serving" / "c_api" / "predict.c"
DEADLINE_SECONDS = 300
POLL_SECONDS = 0.01


@dataclasses.dataclass(frozen=True)
class Shell:
    """Runs `tfx-gnn` in the folder that holds the project."""

    folder: Path

    def command(self, verb: str, *args: str, **options: object) -> list[str]:
        flags = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
        return [sys.executable, "-m", "tfx_gnn.cli", verb, *args, *flags]

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
        return done

    def kill_when(self, command: list[str], happened: Callable[[], bool]) -> None:
        """Starts a command, waits for something to happen, and kills it with all its children."""
        process = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            while not happened():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
                assert process.returncode is None, "the command ended before it could be killed"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    folder = tmp_path_factory.mktemp("tiny")
    shutil.copytree(TINY_PROJECT, folder / TINY_PROJECT.name)
    return Shell(folder)


@pytest.fixture(scope="module")
def prepared(shell: Shell) -> Shell:
    """Examples, schemas, transform and budgets, each by its verb."""
    write_plan = (
        "from tiny_project.task import TASK; from tfx_gnn.io import options_json; "
        "print(options_json.to_json(TASK.plan))"
    )
    plan = shell.run([sys.executable, "-c", write_plan]).stdout
    (shell.folder / "plan.json").write_text(plan)
    sampled = {"tables_dir": "tiny_project/tables", "plan": "plan.json", "examples_dir": "examples"}
    shell.run(shell.command("sample", **sampled))
    shell.run(
        shell.command("schema", examples_dir="examples", graph_schema_dir="graph_schema", schema_dir="tfmd_schema")
    )
    shell.run(
        shell.command(
            "transform",
            examples_dir="examples",
            graph_schema_dir="graph_schema",
            preprocessing_fn="tiny_project.preprocessing:preprocessing_fn",
            transform_graph_dir="transform_graph",
            transformed_examples_dir="transformed_examples",
            transformed_graph_schema_dir="transformed_graph_schema",
        )
    )
    shell.run(
        shell.command(
            "sizes",
            "learn",
            transformed_examples_dir="transformed_examples",
            transformed_graph_schema_dir="transformed_graph_schema",
            size_constraints_dir="sizes",
            batch_size=5,
        )
    )
    return shell


def _train_command(shell: Shell, name: str, num_epochs: int) -> list[str]:
    return shell.command(
        "train",
        transformed_examples_dir="transformed_examples",
        transform_graph_dir="transform_graph",
        graph_schema_dir="graph_schema",
        transformed_graph_schema_dir="transformed_graph_schema",
        size_constraints_dir="sizes",
        model_fn="tiny_project.model:model_fn",
        label_feature="topic",
        class_vocabulary="topic",
        num_epochs=num_epochs,
        model_dir=f"{name}/model",
        model_run_dir=f"{name}/run",
    )


@pytest.fixture(scope="module")
def blessed(prepared: Shell) -> Shell:
    """A model that was trained and blessed."""
    prepared.run(_train_command(prepared, "trained", 20))
    prepared.run(
        prepared.command(
            "evaluate",
            examples_dir="examples",
            model_dir="trained/model",
            label_feature="topic",
            evaluation_dir="evaluation",
            blessing_dir="blessing",
        )
    )
    assert (prepared.folder / "blessing" / "BLESSED").exists()
    return prepared


def _some_file(folder: Path, pattern: str) -> Callable[[], bool]:
    return lambda: next(folder.glob(pattern), None) is not None


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("killed-in-an-epoch", ".checkpoints-*/step-*.json"),
        ("killed-in-the-export", ".model.partial-*/Format-Serving"),
    ],
)
def test_killed_training_leaves_nothing_and_completes_when_repeated(prepared: Shell, name: str, sign: str) -> None:
    folder = prepared.folder / name
    command = _train_command(prepared, name, 3)

    prepared.kill_when(command, _some_file(folder, sign))

    assert not (folder / "model").exists()
    assert not (folder / "run").exists()
    prepared.run(command)
    assert json.loads((folder / "run" / "training_summary.json").read_text())["exported_epoch"] == 3
    examples = list(itertools.islice(read_records(str(prepared.folder / "examples" / "Split-test")), 2))
    assert len(list(ServingModel(resolve_saved_model(str(folder / "model"))).classify(examples))) == 2


@contextlib.contextmanager
def _training_for_long(shell: Shell, name: str) -> Iterator[subprocess.Popen[str]]:
    """A training that has saved at least once."""
    process = subprocess.Popen(
        _train_command(shell, name, 100_000), cwd=shell.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
        # Who runs the tests in the background of a shell would hand on that SIGINT is ignored.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip
    try:
        while not _some_file(shell.folder / name, ".checkpoints-*/step-*-epoch-*[1-9]*.json")():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL_SECONDS)
            assert process.returncode is None, "the training ended too early"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_interrupted_training_saves_and_goes_on(prepared: Shell) -> None:
    folder = prepared.folder / "interrupted"
    with _training_for_long(prepared, "interrupted") as process:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE_SECONDS)

    assert process.returncode == 128 + signal.SIGINT
    assert "SIGINT: training stops after this step and saves. Once more ends it at once.\n" in said
    assert re.search(r"Training was stopped on request in epoch \d+, after step \d+\. Run the same again", said)
    assert [name[:13] for name in os.listdir(folder)] == [".checkpoints-"]
    done = prepared.run(_train_command(prepared, "interrupted", 1))
    assert "Going on in epoch" in done.stderr
    assert sorted(os.listdir(folder)) == ["model", "run"]


def test_second_training_with_the_same_outputs_is_told_of_the_first(prepared: Shell) -> None:
    with _training_for_long(prepared, "twice") as first:
        second = subprocess.run(
            _train_command(prepared, "twice", 5), cwd=prepared.folder, capture_output=True, text=True, check=False
        )

        assert first.poll() is None
    assert second.returncode == 2
    (line,) = second.stderr.splitlines()[-1:]
    assert line.startswith("`--model-dir` must be written by one process at a time; got 'twice/model', which process ")
    assert f"process {first.pid} on {socket.gethostname()} since" in line


def _push_command(shell: Shell, name: str) -> list[str]:
    return shell.command(
        "push",
        model_dir="trained/model",
        blessing_dir="blessing",
        examples_dir="examples",
        push_destination=f"{name}/serving",
        pushed_model_dir=f"{name}/pushed",
    )


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("killed-while-copying", ".incoming-*/*"),
        ("killed-while-verifying", ".incoming-*/saved_model.pb"),
    ],
)
def test_killed_push_shows_no_version_and_completes_when_repeated(blessed: Shell, name: str, sign: str) -> None:
    destination = blessed.folder / name / "serving"
    command = _push_command(blessed, name)

    blessed.kill_when(command, _some_file(destination, sign))

    assert list_versions(str(destination)) == []
    assert not (blessed.folder / name / "pushed").exists()
    blessed.run(command)
    # The leftovers of the dead push are gone, too.
    assert os.listdir(destination) == ["1"]
    assert json.loads((blessed.folder / name / "pushed" / "pushed_version.json").read_text())["version"] == 1


def test_versions_that_are_there_survive_a_killed_push(blessed: Shell) -> None:
    destination = blessed.folder / "second" / "serving"
    blessed.run(_push_command(blessed, "second"))
    before = {path: path.read_bytes() for path in (destination / "1").rglob("*") if path.is_file()}
    again = [arg.replace("second/pushed", "second/pushed-again") for arg in _push_command(blessed, "second")]

    blessed.kill_when(again, _some_file(destination, ".incoming-*/saved_model.pb"))

    assert list_versions(str(destination)) == [1]
    assert {path: path.read_bytes() for path in (destination / "1").rglob("*") if path.is_file()} == before
    blessed.run(again)
    assert list_versions(str(destination)) == [1, 2]


def test_trained_model_answers_c_as_it_answers_the_shell(blessed: Shell, tmp_path: Path) -> None:
    libraries = tf.sysconfig.get_lib()
    program = str(tmp_path / "predict")
    compiler = ["gcc", str(C_PROGRAM), "-o", program, "-isystem", tf.sysconfig.get_include(), f"-L{libraries}"]
    libs = [f"-Wl,-rpath,{libraries}", "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2", "-pthread"]
    subprocess.run([*compiler, *libs], check=True, capture_output=True)
    requests = tmp_path / "requests.tfrecord"
    with tf.io.TFRecordWriter(str(requests)) as writer:
        for split in ("train", "test"):
            for record in itertools.islice(read_records(str(blessed.folder / "examples" / f"Split-{split}")), 4):
                writer.write(record)
    shown = blessed.run(blessed.command("predict", "--json", model_dir="trained/model", examples=requests, limit=7))
    predictions = [json.loads(line) for line in shown.stdout.splitlines()]

    answered = subprocess.run(
        [program, "trained/model/Format-Serving", str(requests)],
        cwd=blessed.folder, env={"TF_CPP_MIN_LOG_LEVEL": "3"}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    lines = [line.split("\t") for line in answered.stdout.splitlines()[1:]]
    assert len(predictions) == 7
    assert [(seed, label) for seed, label, _ in lines[:7]] == [(p["id"], p["label"]) for p in predictions]
    assert [float(score) for _, _, score in lines[:7]] == pytest.approx([p["score"] for p in predictions], abs=1e-4)
