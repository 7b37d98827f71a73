"""Compiled pipelines run in containers: results, isolation, and what is left when a run is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.containers.conftest import EPOCHS, in_container, podman, tasks

from tfx_gnn_pipelines.emulator.container_engine import EngineKind, ImageContainers
from tfx_gnn_pipelines.emulator.launcher import TaskContainer

TRAINING = Path(__file__).parents[1] / "deterministic_training.py"


def ran(tmp_path: Path, image: str, script: str, **environment: str) -> tuple[int, str]:
    """Runs a shell script as a task; returns its exit code and its log."""
    log = tmp_path / "log"
    log.touch()
    task = TaskContainer(
        name="task",
        image=image,
        command=["sh", "-c", script],
        environment=environment,
        folder=tmp_path / "pods" / "task",
        log=log,
    )
    return ImageContainers(EngineKind.PODMAN).run(task), log.read_text(encoding="utf-8")


def test_all_tasks_succeed_and_metrics_equal_those_of_a_local_run(
    container_run: Path, project: Path, image: str, tmp_path: Path
) -> None:
    results = tasks(container_run)
    evaluation = results["GraphEvaluator"]["artifacts"]["evaluation"]["uri"].removeprefix("minio://")
    # In the same image, because other releases of TensorFlow give other digits.
    local = ("python", "-c", TRAINING.read_text(encoding="utf-8"), "/gcs/project.yaml", "/gcs/local", str(EPOCHS))
    tmp_path.chmod(0o777)
    # The image has the project's package, and tables in it, but not its file.
    settings = (project / "project.yaml").read_text(encoding="utf-8")
    (tmp_path / "project.yaml").write_text(settings.replace(" web_shop/data", " package://web_shop/data"))

    in_container(image, *local, volume=f"{tmp_path}:/gcs")

    assert {name: task["state"] for name, task in results.items()} == dict.fromkeys(results, "done")
    assert len(results) == 9
    (expected,) = tmp_path.glob("local/artifacts/GraphEvaluator/evaluation/*/metrics.json")
    found = container_run / "store" / "minio" / evaluation / "metrics.json"
    assert json.loads(found.read_text(encoding="utf-8")) == json.loads(expected.read_text(encoding="utf-8"))


def test_what_containers_write_belongs_to_the_user_who_starts_the_run(container_run: Path) -> None:
    written = [path for folder in (container_run, container_run.parent / "pushed") for path in folder.rglob("*")]

    assert {path.stat().st_uid for path in written} == {os.getuid()}


def test_a_container_has_no_network_no_capability_and_no_environment_of_this_machine(
    tmp_path: Path, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THIS_MACHINE", "secret")
    monkeypatch.setenv("https_proxy", "http://proxy.invalid")

    code, log = ran(tmp_path, image, "id -u; env; ls /sys/class/net; grep CapEff /proc/self/status", GIVEN="by spec")

    assert code == 0
    assert log.splitlines()[0] == "10001"
    assert "GIVEN=by spec" in log
    assert [word for word in ("secret", "proxy", "eth0") if word in log] == []
    assert "CapEff:\t0000000000000000" in log


def test_exit_codes_and_signals_are_told_apart(tmp_path: Path, image: str) -> None:
    assert ran(tmp_path, image, "exit 7")[0] == 7
    assert ran(tmp_path, image, "sh -c 'kill -9 $$'; exit $?")[0] == -9


def test_an_image_that_cannot_be_pulled_is_named(tmp_path: Path, image: str) -> None:
    missing = image.replace("web_shop", "absent")

    with pytest.raises(OSError, match=r"can pull; got '127\.0\.0\.1:.*absent"):
        ran(tmp_path, missing, "true")


def test_a_killed_run_leaves_no_container_to_the_next_one(tmp_path: Path, image: str) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from tfx_gnn_pipelines.emulator.container_engine import EngineKind, ImageContainers\n"
        "from tfx_gnn_pipelines.emulator.launcher import TaskContainer\n"
        "folder = Path(sys.argv[1])\n"
        "ImageContainers(EngineKind.PODMAN).run(TaskContainer(name='task', image=sys.argv[2], environment={},\n"
        # A shell without a handler: the first process of a container ignores such signals.
        "    command=['sh', '-c', 'echo started; sleep 1000'], folder=folder / 'pods' / 'task', log=folder / 'log'))\n"
    )
    (tmp_path / "log").touch()
    runner = subprocess.Popen([sys.executable, "-c", script, str(tmp_path), image])
    deadline = time.monotonic() + 120
    while "started" not in (tmp_path / "log").read_text(encoding="utf-8"):
        assert runner.poll() is None
        assert time.monotonic() < deadline
    runner.send_signal(signal.SIGKILL)
    runner.wait()

    ImageContainers(EngineKind.PODMAN).remove_leftovers(tmp_path / "pods")

    assert podman("ps", "--all", "--filter", f"label=tfx_gnn.pods={tmp_path / 'pods'}", "--quiet") == ""
