"""Custom jobs on this machine, whose replicas run small scripts, and a trainer with two replicas."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tfx_gnn_pipelines.emulator.custom_jobs import LocalCustomJobs

PARENT = "projects/local/locations/here/customJobs"
FINAL = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED")
SLEEP = "import os, sys, time; open(sys.argv[1] + str(os.getpid()), 'w'); time.sleep(60)"


class Service:
    """The service, and the requests that a coordinator makes."""

    def __init__(self, jobs, folder):
        self._folder = folder
        self._url = jobs.start(logs=folder, folder=folder / "pods")

    def send(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self._url}/v1/{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def create(self, *scripts, arguments=(), label="a"):
        pools = [
            {
                "replicaCount": "1",
                "containerSpec": {
                    "command": [sys.executable, "-c", script],
                    "args": [str(self._folder / "replica."), *arguments],
                    "env": [{"name": "WORD", "value": "b"}],
                },
            }
            for script in scripts
        ]
        return self.send("POST", PARENT, {"jobSpec": {"workerPoolSpecs": pools}, "labels": {"tfx_gnn_task": label}})

    def wait(self, name):
        return wait_for(lambda: job if (job := self.send("GET", name))["state"] in FINAL else None)


def wait_for(find, seconds=30):
    until = time.monotonic() + seconds
    while not (found := find()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return found


def is_alive(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def replicas(folder):
    return [int(path.suffix[1:]) for path in folder.glob("replica.*")]


@pytest.fixture
def service(tmp_path):
    with LocalCustomJobs() as jobs:
        yield Service(jobs, tmp_path)


def test_each_replica_finds_its_place_in_one_cluster(service, tmp_path):
    script = (
        "import os, sys; open(sys.argv[1] + os.environ['WORD'] + str(os.getpid()), 'w').write(os.environ['TF_CONFIG'])"
    )

    job = service.wait(service.create(script, f"{script}\nimport time; time.sleep(0.1)")["name"])

    configs = [json.loads(path.read_text()) for path in tmp_path.glob("replica.b*")]
    chief, worker = sorted(configs, key=lambda config: config["task"]["type"])
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert chief["cluster"] == worker["cluster"]
    assert [len(addresses) for addresses in chief["cluster"].values()] == [1, 1]
    assert (chief["task"], worker["task"]) == ({"type": "chief", "index": 0}, {"type": "worker", "index": 0})


def test_a_replica_that_fails_fails_the_job_and_ends_the_others(service, tmp_path):
    ready = f"import glob, time\nwhile not glob.glob({str(tmp_path / 'replica.*')!r}): time.sleep(0.01)\n"

    job = service.wait(service.create(SLEEP, f"{ready}print('no memory'); raise SystemExit(3)")["name"])

    assert job["state"] == "JOB_STATE_FAILED"
    log = tmp_path / "custom_job_1_workerpool1-0.log"
    assert job["error"]["message"] == (
        "The replica workerpool1-0 exited with a non-zero status of 3. To find out more about why your job exited "
        f"please check the logs: {log}"
    )
    assert log.read_text() == "no memory\n"
    wait_for(lambda: not any(is_alive(pid) for pid in replicas(tmp_path)))


def test_a_program_that_is_not_there_fails_the_job(service):
    body = {"workerPoolSpecs": [{"replicaCount": "1", "containerSpec": {"command": ["/no/such/program"]}}]}

    job = service.wait(service.send("POST", PARENT, {"jobSpec": body})["name"])

    assert job["error"]["message"].startswith("The replicas could not be started: ")


def test_a_job_that_is_cancelled_ends_its_replicas(service, tmp_path):
    name = service.create(SLEEP, SLEEP)["name"]
    wait_for(lambda: len(replicas(tmp_path)) == 2)

    service.send("POST", f"{name}:cancel", {})

    assert service.wait(name)["state"] == "JOB_STATE_CANCELLED"
    wait_for(lambda: not any(is_alive(pid) for pid in replicas(tmp_path)))


def test_jobs_are_found_by_their_labels(service):
    first, _ = service.create("", label="a"), service.create("", label="b")

    found = service.send("GET", f"{PARENT}?filter=labels.tfx_gnn_task%3Da")["customJobs"]

    assert [job["name"] for job in found] == [first["name"]]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", f"{PARENT}/7", None, 404),
        ("GET", "projects/local/locations/here/pipelineJobs", None, 404),
        ("POST", PARENT, {}, 400),
        ("POST", PARENT, {"jobSpec": {"workerPoolSpecs": [{"replicaCount": "2"}]}}, 400),
    ],
)
def test_what_is_not_imitated_is_refused(service, method, path, body, status):
    with pytest.raises(urllib.error.HTTPError) as refused:
        service.send(method, path, body)

    with refused.value as answer:
        assert answer.code == status


def test_at_the_end_no_replica_is_left(tmp_path):
    with LocalCustomJobs() as jobs:
        Service(jobs, tmp_path).create(SLEEP)
        wait_for(lambda: replicas(tmp_path))

    assert not any(is_alive(pid) for pid in replicas(tmp_path))


def test_a_run_that_is_killed_leaves_no_replica(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from test_emulator_custom_jobs import SLEEP, LocalCustomJobs, Service\n"
        "Service(LocalCustomJobs(), Path(sys.argv[1])).create(SLEEP, SLEEP); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(Path(__file__).parent)]) as process:
        wait_for(lambda: process.poll() is not None or len(replicas(tmp_path)) == 2)
        os.kill(process.pid, signal.SIGKILL)

    assert len(replicas(tmp_path)) == 2
    wait_for(lambda: not any(is_alive(pid) for pid in replicas(tmp_path)))
