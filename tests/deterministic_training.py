"""Pipelines whose training is deterministic, so that runs in different places can be compared by their metrics.

Run as a script, with a project, a root and a number of epochs, it runs the task's pipeline on this machine.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml


def make_training_deterministic(compiled: Path) -> None:
    """Changes GraphTrainer's option in a compiled file; its flags cannot be set when a pipeline is compiled or run."""
    text = compiled.read_text(encoding="utf-8")
    # YAML takes some of JSON's numbers, as 1e-06, for text.
    is_job = compiled.suffix == ".json"
    pipeline, *platforms = [json.loads(text)] if is_job else yaml.safe_load_all(text)
    inputs = pipeline.get("pipelineSpec", pipeline)["root"]["dag"]["tasks"]["GraphTrainer"]["inputs"]["parameters"]
    assert inputs["deterministic"]["runtimeValue"]["constant"] == "false"
    inputs["deterministic"]["runtimeValue"]["constant"] = "true"
    text = json.dumps(pipeline) if is_job else yaml.safe_dump_all([pipeline, *platforms])
    compiled.write_text(text, encoding="utf-8")


def run_locally(project: str, root: str, num_epochs: int) -> None:
    """Runs the pipeline of a project."""
    from tfx_gnn_pipelines.local_runs import run_locally
    from tfx_gnn_pipelines.project import read_project

    given = {"root": root, "num_epochs": num_epochs, "graph_trainer.execution.deterministic": True}
    run_locally(read_project(project, shortcuts=given).configure())


if __name__ == "__main__":
    run_locally(sys.argv[1], sys.argv[2], int(sys.argv[3]))
