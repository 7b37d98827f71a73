"""Tasks of runs and their logs, from a server that answers as Kubeflow Pipelines."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest


def _details():
    """Tasks as Kubeflow lists them: drivers and executors are tasks of their own."""
    failed = {"code": 2, "message": "exit code 1"}
    return {
        "task_details": [
            {"task_id": "1", "display_name": "root-driver", "state": "SUCCEEDED"},
            {"task_id": "2", "display_name": "GraphTrainer", "state": "SUCCEEDED",
             "child_tasks": [{"pod_name": "pod-a"}], "outputs": {"executor-logs": {"artifacts": [{"uri": "minio://bucket/logs"}]}}},
            {"task_id": "3", "display_name": "GraphPusher", "state": "FAILED", "error": failed,
             "child_tasks": [{"task_id": "4", "pod_name": "pod-b"}]},
            {"task_id": "4", "display_name": "executor", "state": "RUNNING", "pod_name": "pod-b"},
        ]
    }  # fmt: skip


@pytest.fixture
def run_of_tasks(kubeflow, run_id):
    names = {"root": {"dag": {"tasks": {"GraphTrainer": {}, "GraphPusher": {}}}}}
    kubeflow.runs[run_id] |= {"state": "FAILED", "pipeline_spec": names, "run_details": _details()}
    kubeflow.runs[run_id]["error"] = {"message": "a task failed"}
    return run_id


def test_status_shows_the_tasks_of_the_pipeline(tfx_gnn, kubeflow, run_of_tasks):
    shown = tfx_gnn("status", run_of_tasks, "--host", kubeflow.url)

    assert shown.stdout.splitlines()[2:] == [
        "state  failed",
        "error  a task failed",
        f"page   {kubeflow.url}/#/runs/details/{run_of_tasks}",
        "  GraphTrainer  succeeded",
        "  GraphPusher   failed: exit code 1",
    ]


def test_logs_are_of_pods_or_say_where_they_are(tfx_gnn, kubeflow, run_of_tasks):
    kubeflow.logs["pod-a"] = '{"step": 1}\n{"step": 2}\n'
    for _ in range(6):
        kubeflow.fail("GET /apis/v1alpha1/runs/7b0e2c54-0000-4000-8000-000000000001/nodes/pod-b", status=500)

    shown = tfx_gnn("logs", run_of_tasks, "--host", kubeflow.url)

    assert shown.stdout.splitlines() == [
        "== GraphTrainer: succeeded",
        '{"step": 1}',
        '{"step": 2}',
        "log as an artifact: minio://bucket/logs",
        "== GraphPusher: failed",
        "error: exit code 1",
        "the service has no log of pod pod-b: the service answered 500",
        f"while its pods exist: kubectl logs -n kubeflow -l pipeline/runid={run_of_tasks} -c main --prefix --tail=-1",
    ]


def test_logs_of_one_task_are_asked_for_by_its_name(tfx_gnn, kubeflow, run_of_tasks):
    kubeflow.logs["pod-a"] = "42"

    shown = tfx_gnn("logs", run_of_tasks, "--task", "GraphTrainer", "--host", kubeflow.url)
    wrong = tfx_gnn("logs", run_of_tasks, "--task", "Trainer", "--host", kubeflow.url, exit_code=2)

    assert shown.stdout.splitlines()[:2] == ["== GraphTrainer: succeeded", "42"]
    assert "`--task` must name a task of the run, among ['GraphPusher', 'GraphTrainer']; got 'Trainer'" in wrong.stderr


def test_a_pod_that_is_gone_is_asked_for_once(tfx_gnn, kubeflow, run_of_tasks, waits):
    shown = tfx_gnn("logs", run_of_tasks, "--host", kubeflow.url)

    assert shown.stdout.count("the service answered 500") == 2
    assert waits == []


def test_a_log_with_bytes_that_are_no_text_is_shown(tfx_gnn, kubeflow, run_of_tasks):
    kubeflow.logs["pod-a"] = "caf\udce9\n"

    shown = tfx_gnn("logs", run_of_tasks, "--task", "GraphTrainer", "--host", kubeflow.url)

    assert shown.stdout.splitlines()[1] == "caf\ufffd"


def test_a_log_cannot_control_the_terminal(tfx_gnn, kubeflow, run_of_tasks, monkeypatch):
    kubeflow.logs["pod-a"] = "a\x1b[2J\r\n1%\r2%"
    given = ("logs", run_of_tasks, "--task", "GraphTrainer", "--host", kubeflow.url)

    as_it_is = tfx_gnn(*given)
    monkeypatch.setattr(io, "StringIO", type("Terminal", (io.StringIO,), {"isatty": lambda _: True}))
    shown = tfx_gnn(*given)

    assert "a\x1b[2J\r\n1%\r2%\n" in as_it_is.stdout
    assert "a\\x1b[2J\n1%\n2%\n" in shown.stdout


def test_tasks_of_one_name_are_told_once_each(tfx_gnn, kubeflow, run_of_tasks):
    details = [{"display_name": "driver", "state": "FAILED"}, {"display_name": "driver", "state": "FAILED"}]
    kubeflow.runs[run_of_tasks]["run_details"] = {
        "task_details": [*details, {"display_name": "driver", "state": "RUNNING"}]
    }
    kubeflow.runs[run_of_tasks].pop("pipeline_spec")
    kubeflow.runs[run_of_tasks].pop("state")
    kubeflow.states = ["RUNNING", "RUNNING", "SUCCEEDED"]

    shown = tfx_gnn("wait", run_of_tasks, "--host", kubeflow.url)

    assert shown.stderr.splitlines()[:4] == [
        "driver: failed",
        "driver: failed",
        "driver: running",
        "run: running (a task failed)",
    ]
    assert len(shown.stderr.splitlines()) == 5


def test_a_reader_that_closes_the_output_ends_logs_quietly(kubeflow, run_of_tasks):
    kubeflow.logs["pod-a"] = "1\n" * 500_000
    command = (sys.executable, "-c", "from tfx_gnn.cli.app import main; main()", "logs", run_of_tasks)
    reader, writer = os.pipe()
    with subprocess.Popen([*command, "--host", kubeflow.url], stdout=writer, stderr=subprocess.PIPE) as process:
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        _, told = process.communicate()

    assert (process.returncode, told) == (141, b"")
