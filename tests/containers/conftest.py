"""What infra/ci/containers.sh prepared: a new project, and its image in a registry of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.deterministic_training import make_training_deterministic

EPOCHS = 2
"""Few, because what is tested is where the tasks run."""


def required(variable: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        pytest.fail(f"{variable} is not set: start these tests with infra/ci/containers.sh, which builds the images")
    return value


def podman(*arguments: str) -> str:
    done = subprocess.run(["podman", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_container(image: str, *command: str, volume: str = "") -> str:
    volumes = ("--volume", volume) if volume else ()
    return podman("run", "--rm", "--network=none", "--http-proxy=false", *volumes, image, *command)


@pytest.fixture(scope="session")
def project() -> Path:
    """Folder of the new project."""
    return Path(required("TFX_GNN_TEST_PROJECT"))


@pytest.fixture(scope="session")
def image() -> str:
    """Image of the project, pulled from the registry."""
    name = required("TFX_GNN_TEST_IMAGE")
    podman("pull", "--quiet", name)
    return name


@pytest.fixture(scope="session")
def compiled(project: Path, image: str) -> Path:
    """The project's pipeline, compiled for Kubeflow with its image and deterministic training."""
    arguments = ("--runner", "kubeflow", "--compile-only", "--image", image, "--push-to", "gs://bucket/serving")
    options = ("--epochs", str(EPOCHS), "--output", "web_shop.yaml")
    command = [sys.executable, "-m", "tfx_gnn.cli", "run", *arguments, *options]
    subprocess.run(command, cwd=project, check=True)
    make_training_deterministic(project / "web_shop.yaml")
    return project / "web_shop.yaml"


@pytest.fixture(scope="session")
def container_run(project: Path, compiled: Path) -> Path:
    """Folder of a run of the compiled pipeline, every task in a container; what the run prints is shown."""
    started = time.monotonic()
    arguments = ("--runner", "spec", "--container", "podman", "--root", "run", "--parameter", "push_destination=pushed")
    subprocess.run(
        [sys.executable, "-m", "tfx_gnn.cli", "run", str(compiled), *arguments],
        cwd=project,
        # Whatever of this reaches a container is found by a test.
        env={**os.environ, "SECRET_OF_THIS_MACHINE": "secret", "HTTPS_PROXY": "http://proxy.invalid"},
        check=True,
    )
    sys.stdout.write(f"\nnine tasks in containers: {time.monotonic() - started:.0f} s\n")
    return project / "run"


def tasks(run: Path) -> dict[str, Any]:
    """Reads the results of a run, by task."""
    (state,) = run.glob("runs/*/run.json")
    return {task["task"]: task for task in json.loads(state.read_text(encoding="utf-8"))["tasks"]}
