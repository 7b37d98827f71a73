"""The verbs on a small project, with the trainer and the pusher killed on the way.

What is killed is a process of its own, as typed in a shell. SIGKILL gives it no chance to clean up; the same
command must complete afterwards, and nothing half-written may pass for whole. What nobody kills runs in this process,
which need not load TensorFlow again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
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
from typing import Any

import pytest
import tensorflow as tf
from typer.testing import CliRunner, Result

from tfx_gnn.cli import app
from tfx_gnn.io import options_json
from tfx_gnn.serving import ServingModel, list_versions, read_records, resolve_saved_model

# tf_keras draws seeds from a range of floats.
pytestmark = pytest.mark.filterwarnings("ignore:non-integer arguments to randrange:DeprecationWarning")

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
        return [verb, *args, *flags]

    def run(self, command: list[str], exit_code: int = 0) -> Result:
        """Runs a command in this process."""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            done = CliRunner().invoke(app, command)
        assert done.exit_code == exit_code, (done.output, done.exception)
        return done

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[str]:
        """Starts a command as a process of its own, which leads its children."""
        program = [sys.executable, "-m", "tfx_gnn.cli", *command]
        return subprocess.Popen(program, cwd=self.folder, text=True, start_new_session=True, **options)

    def kill_when(self, command: list[str], happened: Callable[[], bool]) -> None:
        """Starts a command, waits for something to happen, and kills it with all its children."""
        process = self.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not happened():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
                assert process.returncode is None, "the command ended before it could be killed"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.returncode == -signal.SIGKILL


def _forget_the_project() -> None:
    """Copies of it in other folders may be imported as well."""
    for name in [name for name in sys.modules if name.partition(".")[0] == TINY_PROJECT.name]:
        del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("tiny")
    shutil.copytree(TINY_PROJECT, folder / TINY_PROJECT.name)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        _forget_the_project()
        yield Shell(folder)
        _forget_the_project()


@pytest.fixture(scope="module")
def prepared(shell: Shell) -> Shell:
    """Examples, schemas, transform and budgets, each by its verb."""
    plan = importlib.import_module("tiny_project.task").TASK.plan
    (shell.folder / "plan.json").write_text(options_json.to_json(plan))
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
            # Six examples do not show that a model is better than the baseline.
            baseline_confidence="0",
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interrupted:
    """What was said of a training that got SIGINT, and of a second one with the same outputs that came before."""

    process_id: int
    returncode: int
    said: str
    left: list[str]
    second: str
    went_on_after_second: bool


@pytest.fixture(scope="module")
def interrupted(prepared: Shell) -> Interrupted:
    folder = prepared.folder / "interrupted"
    process = prepared.start(
        _train_command(prepared, "interrupted", 100_000), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        # Who runs the tests in the background of a shell would hand on that SIGINT is ignored.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        # It has saved at least once.
        while not _some_file(folder, ".checkpoints-*/step-*-epoch-*[1-9]*.json")():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL_SECONDS)
            assert process.returncode is None, "the training ended too early"
        second = prepared.run(_train_command(prepared, "interrupted", 5), exit_code=2)
        went_on_after_second = process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE_SECONDS)
    finally:
        process.kill()
        process.communicate()
    return Interrupted(
        process_id=process.pid,
        returncode=process.returncode,
        said=said,
        left=os.listdir(folder),
        second=second.stderr,
        went_on_after_second=went_on_after_second,
    )


def test_second_training_with_the_same_outputs_is_told_of_the_first(interrupted: Interrupted) -> None:
    assert interrupted.went_on_after_second
    (line,) = interrupted.second.splitlines()[-1:]
    assert line.startswith("`--model-dir` must be written by one process at a time; got 'interrupted/model', which ")
    assert f"process {interrupted.process_id} on {socket.gethostname()} since" in line


def test_interrupted_training_saves_and_goes_on(prepared: Shell, interrupted: Interrupted) -> None:
    assert interrupted.returncode == 128 + signal.SIGINT
    assert "SIGINT: training stops after this step and saves. A second signal ends it at once.\n" in interrupted.said
    stopped = r"Training was stopped on request in epoch (\d+), after step \d+\. Run the same command again"
    found = re.search(stopped, interrupted.said)
    assert found
    assert [name[:13] for name in interrupted.left] == [".checkpoints-"]
    done = prepared.run(_train_command(prepared, "interrupted", int(found[1])))
    assert "Resuming in epoch" in done.stderr
    assert sorted(os.listdir(prepared.folder / "interrupted")) == ["model", "run"]


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
    # Without warm-up requests its files differ; the same files would stay version 1.
    again = [arg.replace("second/pushed", "second/pushed-again") for arg in _push_command(blessed, "second")]
    again.append("--no-warmup")

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
