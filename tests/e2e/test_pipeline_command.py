"""The command as a user types it: killed, typed again, and what it says at the end."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TINY_PROJECT = Path(__file__).parents[1] / "components" / "tiny_project"
COMMAND = [sys.executable, "-m", "tfx_gnn_pipelines"]
# Six examples in the test split do not show that a model is better than the baseline. The check beside the run would
# say so in some runs and not in others, as whichever of the two ends first.
TINY = [
    *(*COMMAND, "tiny_project.task:TASK", "--root", "outputs", "--no-check"),
    *("--set", "graph_evaluator.baseline_confidence=0"),
]
MINUTE = 60


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Folder of the user's project, where the user types."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(TINY_PROJECT, folder / "tiny_project")
    return folder


def type_command(command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=8 * MINUTE, check=False)


def partial_folders(folder: Path) -> list[Path]:
    return [path for path in (folder / "outputs").rglob(".*") if ".partial-" in path.name]


@pytest.fixture(scope="module")
def killed(project):
    """Kills the command by SIGKILL while the trainer writes; gives what was left behind."""
    deadline = time.monotonic() + 8 * MINUTE
    trainer = project / "outputs" / "artifacts" / "GraphTrainer"
    with (project / "killed.log").open("w") as log:
        process = subprocess.Popen(TINY, cwd=project, stdout=log, stderr=log, start_new_session=True)
        while not (trainer.exists() and partial_folders(project)):
            assert process.poll() is None, (project / "killed.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return partial_folders(project)


@pytest.fixture(scope="module")
def completed(killed, project):
    """The same command, typed again."""
    return type_command(TINY, project)


def lines_of(output: str) -> dict[str, str]:
    """Last line of each component: its id to what happened."""
    return dict(re.findall(r"^[ =+x] \d/9 (\w+) +(.+)$", output, flags=re.MULTILINE))


def test_same_command_after_a_kill_completes(killed, completed):
    assert killed
    assert completed.returncode == 0, completed.stdout + completed.stderr
    happened = lines_of(completed.stdout)
    assert [name for name, what in happened.items() if what == "cached"] == [
        "SubgraphExampleGen",
        "GraphSchemaGen",
        "GraphExampleValidator",
        "GraphTransform",
        "SizeConstraintLearner",
    ]
    assert all(
        happened[name].startswith("done in ")
        for name in ("GraphTrainer", "GraphEvaluator", "GraphSkewValidator", "GraphPusher")
    )


def test_nothing_is_left_of_the_killed_run(completed, project):
    from ml_metadata import metadata_store
    from ml_metadata.proto import metadata_store_pb2

    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = str(project / "outputs" / "metadata.sqlite")
    states = [execution.last_known_state for execution in metadata_store.MetadataStore(config).get_executions()]

    assert partial_folders(project) == []
    assert states.count(metadata_store_pb2.Execution.FAILED) == 1
    assert metadata_store_pb2.Execution.RUNNING not in states
    assert os.listdir(project / "outputs" / "serving") == ["1"]


def test_terminal_shows_components_and_summary_and_nothing_else(completed):
    # "warnings" are those of the steps, which the summary lists.
    noise = re.compile(r"WARNING|[A-Z]\w*Warning\b|(?i:deprecat|E0000|tensorflow/|traceback)|INFO")

    assert not noise.findall(completed.stdout)
    assert not noise.findall(completed.stderr)
    ending = [line.split()[0] for line in completed.stdout.rstrip().splitlines()[-5:-1]]
    assert ending[-3:] == ["pushed", "page", "next"]
    assert "majority class" in completed.stdout


def test_prediction_command_of_the_summary_works_when_pasted(completed, project):
    pasted = completed.stdout.rstrip().splitlines()[-1].strip()

    answered = type_command(shlex.split(pasted), project)

    assert answered.returncode == 0, answered.stderr
    assert "paper-" in answered.stdout
    assert "answered by outputs/serving/1" in answered.stdout


def test_failed_component_is_one_clear_message(completed, project):
    edited = project / "tiny_project" / "tables" / "cites.csv"
    before = edited.read_text()
    edited.write_text(before + "paper-00,paper-99\n")

    failed = type_command(TINY, project)

    edited.write_text(before)
    assert failed.returncode == 2
    assert "x 1/9 SubgraphExampleGen     failed after" in failed.stdout
    assert "paper-99" in failed.stderr
    assert "cites.csv" in failed.stderr
    assert "Traceback" not in failed.stdout + failed.stderr


def test_model_that_is_no_better_than_the_majority_is_not_pushed(completed, project):
    edited = project / "tiny_project" / "preprocessing.py"
    before = edited.read_text()
    edited.write_text(before.replace('"score": tft', '"score": 0.0 * tft'))

    ended = type_command([*TINY, "--json"], project)

    edited.write_text(before)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "not pushed " in ended.stderr
    assert "does not exceed the majority class's 0.3333" in ended.stderr
    # Progress and the prints of steps went to stderr.
    assert json.loads(ended.stdout)["pushed"] is False
    assert os.listdir(project / "outputs" / "serving") == ["1"]
