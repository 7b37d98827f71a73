"""What a second run repeats: everything that depends on an edit, and nothing else."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tfx_gnn_pipelines.config import PipelineConfig

# tf_keras draws seeds from a range of floats; TFX 1.21 calls what protobuf 6 renamed.
pytestmark = pytest.mark.filterwarnings(
    "ignore:non-integer arguments to randrange:DeprecationWarning",
    r"ignore:label\(\) is deprecated:DeprecationWarning",
)

TINY_PROJECT = Path(__file__).parents[1] / "components" / "tiny_project"
UPSTREAM_OF_TRAINER = [
    "SubgraphExampleGen",
    "GraphSchemaGen",
    "GraphExampleValidator",
    "GraphTransform",
    "SizeConstraintLearner",
]


class TinyPipeline:
    """A copy of the tiny project, run in this process as often as a test likes."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "project" / "tiny_project"
        self.root = folder / "root"
        shutil.copytree(TINY_PROJECT, self.package)

    def config(self) -> PipelineConfig:
        """Reads the project as it is now."""
        from tfx_gnn_pipelines.config import quickstart
        from tfx_gnn_pipelines.task import load_task

        # As in a new process, nothing of an earlier version of the user's code is left.
        for name in [name for name in sys.modules if name.partition(".")[0] == self.package.name]:
            del sys.modules[name]
        importlib.invalidate_caches()
        config = quickstart(load_task("tiny_project.task:TASK"), root=str(self.root))
        # Six examples in the test split do not show that a model is better than the baseline.
        evaluator = dataclasses.replace(config.graph_evaluator, baseline_confidence=0.0)
        return dataclasses.replace(config, graph_evaluator=evaluator)

    def run(self, runner: str = "local") -> dict[str, str]:
        """Runs the pipeline; gives the state of each component in this run."""
        from tfx_gnn_pipelines.lineage import read_latest_run
        from tfx_gnn_pipelines.local_runs import run_locally, run_on_beam

        config = self.config()
        {"local": run_locally, "beam": run_on_beam}[runner](config)
        return {run.component: run.state for run in read_latest_run(config.metadata_path)}

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.package / name
        text = path.read_text()
        assert text.count(old) == 1, f"{old!r} must be in {path} once"
        path.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The pipeline after its first run."""
    pipeline = TinyPipeline(tmp_path_factory.mktemp("tiny"))
    sys.path.insert(0, str(pipeline.package.parent))
    states = pipeline.run()
    assert set(states.values()) == {"complete"}
    assert len(states) == 9
    yield pipeline
    sys.path.remove(str(pipeline.package.parent))


@pytest.fixture
def pipeline(finished):
    """The same, with every edit undone after the test."""
    files = {path: path.read_bytes() for path in finished.package.rglob("*") if path.suffix in (".py", ".csv")}
    yield finished
    for path, content in files.items():
        path.write_bytes(content)


def cached(states):
    return [component for component, state in states.items() if state == "cached"]


def test_a_plan_after_the_run_knows_every_step_from_it(pipeline):
    from tfx_gnn_pipelines.planning.earlier_runs import find_measured_runs

    (run,) = find_measured_runs(pipeline.config())

    assert run.has_same_tables
    assert len({step.step for step in run.measured.steps}) == 9
    assert all(step.seconds > 0 and step.peak_bytes > 2**26 for step in run.measured.steps)


@pytest.mark.parametrize("runner", ["local", "beam"])
def test_second_run_repeats_nothing_whatever_the_runner(pipeline, runner):
    states = pipeline.run(runner)

    assert cached(states) == list(states)
    assert len(states) == 9

    # The command, as typed next, knows that nothing has changed, without TFX.
    command = [
        *(sys.executable, "-X", "importtime", "-m", "tfx_gnn.cli", "run", "tiny_project.task:TASK", "--json"),
        *("--root", str(pipeline.root), "--runner", runner, "--set", "graph_evaluator.baseline_confidence=0"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(pipeline.package.parent)}
    typed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)

    outcome = json.loads(typed.stdout)
    assert {name: step["state"] for name, step in outcome["components"].items()} == states
    assert outcome["pushed"]
    assert "9 steps cached: nothing has changed since they ran" in typed.stderr
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in typed.stderr.splitlines()}
    assert imported & {"tfx", "tensorflow", "apache_beam", "tfx_gnn_pipelines"} == {"tfx_gnn_pipelines"}


def test_edited_model_repeats_the_training_and_what_follows(pipeline):
    pipeline.edit("model.py", "UNITS = 8", "UNITS = 12")
    versions = set((pipeline.root / "serving").iterdir())

    states = pipeline.run()

    assert cached(states) == UPSTREAM_OF_TRAINER
    assert [states[name] for name in ("GraphTrainer", "GraphEvaluator", "GraphSkewValidator", "GraphPusher")] == [
        "complete"
    ] * 4
    assert len(set((pipeline.root / "serving").iterdir()) - versions) == 1


def test_edited_preprocessing_repeats_the_transform_and_what_depends_on_it(pipeline):
    pipeline.edit("preprocessing.py", "tft.scale_to_z_score(", "0.5 * tft.scale_to_z_score(")

    states = pipeline.run()

    assert cached(states) == ["SubgraphExampleGen", "GraphSchemaGen", "GraphExampleValidator"]


def test_edited_table_repeats_all(pipeline):
    pipeline.edit("tables/papers.csv", "paper-00,-2.2,", "paper-00,-2.3,")

    states = pipeline.run("beam")

    assert cached(states) == []
    assert set(states.values()) == {"complete"}
