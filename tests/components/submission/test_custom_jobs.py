"""The coordinator of a custom job, against a server that answers as Vertex AI."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tfx_gnn_pipelines import container
from tfx_gnn_pipelines.custom_job import ENDPOINT_VARIABLE, CustomJob, coordinator_arguments, job_spec
from tfx_gnn_pipelines.submission import custom_jobs as coordinator

PARENT = "projects/shop/locations/europe-west4"
RUN = "projects/7/locations/europe-west4/pipelineJobs/shop-1"
PAGE = "https://console.cloud.google.com/vertex-ai/locations/europe-west4/training/1?project=shop"
T4, SPOT = 5, 4
"""Numbers of these values in the API, as its client sends them."""
COMMAND = ("python", "-m", "tfx_gnn_pipelines.container")


def message(outputs="gs://b/1"):
    artifacts = {name: {"artifacts": [{"uri": f"{outputs}/{name}"}]} for name in ("model", "model_run")}
    values = {"word": "$(HOME) {{$}} 'ü'"}
    return {
        "inputs": {"parameterValues": values},
        "outputs": {"artifacts": artifacts, "outputFile": f"{outputs}/executor_output.json"},
    }


def arguments(*, outputs="gs://b/1", accelerator=("NVIDIA_TESLA_T4", 2), unresolved="", **job):
    """What Vertex AI gives a coordinator, with everything in double braces replaced."""
    wanted = CustomJob(**{"machine_type": "n1-highmem-8", "replicas": 3, "spot": True, "timeout_seconds": 3600, **job})
    spec = job_spec(
        wanted, image="registry/image:tag", command=COMMAND, environment={"A": "b"}, accelerator=accelerator
    )
    own = ["--executor", "E", "--storage", "direct", "--executor-input", "{{$}}", "--", "--runner=X"]
    values = {
        "{{$}}": json.dumps(message(outputs)),
        "{{$.pipeline_google_cloud_project_id}}": "shop",
        "{{$.pipeline_google_cloud_location}}": "europe-west4",
        "{{$.pipeline_job_resource_name}}": RUN,
        "{{$.pipeline_task_name}}": "GraphTrainer",
        "{{$.pipeline_service_account}}": "7-compute@developer.gserviceaccount.com",
        "{{$.pipeline_network}}": "projects/7/global/networks/inner",
        "{{$.pipeline_encryption_key_name}}": "",
    }
    values.pop(unresolved, None)
    return [values.get(word, word) for word in coordinator_arguments(spec, own)]


@pytest.fixture
def coordinate(custom_jobs, monkeypatch, waits, capsys):
    """Runs a coordinator, checks its exit code and returns the lines that it printed."""
    monkeypatch.setenv(ENDPOINT_VARIABLE, custom_jobs.url)

    def run(*, exit_code=0, **given):
        assert coordinator.main(arguments(**given)) == exit_code
        return capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def started(custom_jobs, coordinate):
    """The body of a job as a coordinator sends it; the service is empty afterwards."""
    custom_jobs.states = ["SUCCEEDED"]
    coordinate()
    (job,) = custom_jobs.jobs.values()
    custom_jobs.jobs.clear()
    custom_jobs.seen.clear()
    return {name: job[name] for name in ("displayName", "jobSpec", "labels")}


def interrupt(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


def test_the_job_is_sent_as_it_was_asked_for(custom_jobs, coordinate, monkeypatch):
    monkeypatch.setenv(coordinator.RUN_LABELS_VARIABLE, '{"vertex-ai-pipelines-run-billing-id": "8"}')
    custom_jobs.states = ["SUCCEEDED"]

    coordinate(boot_disk_gb=200)

    (sent,) = [seen.body for seen in custom_jobs.seen if seen.method == "POST"]
    labels = sent.pop("labels")
    packed = sent["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"][5]
    pool = {
        "machineSpec": {
            "machineType": "n1-highmem-8",
            "acceleratorType": T4,
            "acceleratorCount": 2,
        },
        "diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 200},
        "containerSpec": {
            "imageUri": "registry/image:tag",
            "command": list(COMMAND),
            "args": ["--executor", "E", "--storage", "direct", "--executor-input", packed, "--", "--runner=X"],
            "env": [{"name": "A", "value": "b"}],
        },
    }
    assert sent == {
        "displayName": "shop-1-GraphTrainer",
        "jobSpec": {
            "workerPoolSpecs": [{**pool, "replicaCount": "1"}, {**pool, "replicaCount": "2"}],
            "scheduling": {"strategy": SPOT, "timeout": "3600s", "restartJobOnWorkerRestart": True},
            "serviceAccount": "7-compute@developer.gserviceaccount.com",
            "network": "projects/7/global/networks/inner",
        },
    }
    assert labels.keys() == {
        "vertex-ai-pipelines-run-billing-id", "tfx_gnn_run", "tfx_gnn_task", "tfx_gnn_outputs", "tfx_gnn_try"
    }  # fmt: skip
    assert labels["tfx_gnn_run"] == "shop-1"
    assert all(value.islower() or value.isdigit() for value in labels.values())


def test_the_message_reaches_the_replicas_with_nothing_to_replace_in_it(started):
    packed = started["jobSpec"]["workerPoolSpecs"][1]["containerSpec"]["args"][5]

    assert container.read_executor_input(packed) == message()
    assert not set("$(){}\"' ") & set(packed)


def test_a_tpu_is_one_machine_with_a_topology(custom_jobs, coordinate):
    custom_jobs.states = ["SUCCEEDED"]

    coordinate(machine_type="ct5lp-hightpu-4t", replicas=1, spot=False, tpu_topology="2x2", accelerator=None)

    (job,) = custom_jobs.jobs.values()
    (pool,) = job["jobSpec"]["workerPoolSpecs"]
    assert pool["machineSpec"] == {"machineType": "ct5lp-hightpu-4t", "tpuTopology": "2x2"}
    # False, which a message leaves out.
    assert job["jobSpec"]["scheduling"] == {"timeout": "3600s"}


def test_each_state_is_told_once(custom_jobs, coordinate, waits):
    custom_jobs.states = ["QUEUED", "PENDING", "RUNNING", "RUNNING", "UPDATING", "SUCCEEDED"]

    lines = coordinate()

    name = f"{PARENT}/customJobs/1"
    assert lines == [
        f"started the custom job {name} ({PAGE})",
        f"the custom job {name} is pending",
        f"the custom job {name} is running",
        f"the custom job {name} is succeeded",
    ]
    assert len(waits) == 5


@pytest.mark.parametrize(
    ("state", "error", "told"),
    [
        ("FAILED", "The replica workerpool1-2 exited with a non-zero status of 1.", "failed in worker 2: The replica"),
        ("FAILED", "The replica workerpool0-0 exited with a non-zero status of 137.", "failed in the chief: The"),
        ("FAILED", "", "failed: the service gives no reason"),
        ("EXPIRED", "", "failed: the service gives no reason"),
        ("CANCELLED", "", "cancelled: the service gives no reason"),
    ],
)
def test_a_failure_is_the_last_line(custom_jobs, coordinate, state, error, told):
    custom_jobs.states, custom_jobs.error = ["RUNNING", state], error

    lines = coordinate(exit_code=1)

    start = f"GraphTrainer failed: CustomJobError: the custom job {PARENT}/customJobs/1 ({PAGE}) is "
    assert lines[-1].startswith(start + told)
    assert not any("Traceback" in line for line in lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_task_that_is_cancelled_cancels_its_job_and_waits(custom_jobs, coordinate, monkeypatch, number):
    answered = custom_jobs.next_state
    monkeypatch.setattr(custom_jobs, "next_state", lambda: interrupt(number) or answered())

    lines = coordinate(exit_code=128 + number)

    assert custom_jobs.jobs[f"{PARENT}/customJobs/1"]["state"] == "JOB_STATE_CANCELLED"
    assert lines[-4:] == [
        f"cancels the custom job {PARENT}/customJobs/1: its task got {number.name}",
        f"the custom job {PARENT}/customJobs/1 is cancelling",
        f"the custom job {PARENT}/customJobs/1 is cancelled",
        f"GraphTrainer was cancelled by {number.name}",
    ]


def test_a_task_that_is_cancelled_during_the_creation_leaves_no_job(custom_jobs, coordinate):
    custom_jobs.on_creation = interrupt

    coordinate(exit_code=143)

    assert [job["state"] for job in custom_jobs.jobs.values()] == ["JOB_STATE_CANCELLED"]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "SUCCEEDED"])
def test_a_retry_goes_on_with_the_job_of_the_attempt_before(custom_jobs, coordinate, started, state):
    custom_jobs.add(started, state)

    lines = coordinate()

    assert lines[0] == (f"goes on with the custom job {PARENT}/customJobs/1 ({PAGE}), which an earlier attempt started")
    assert len(custom_jobs.jobs) == 1


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "CANCELLING", "EXPIRED"])
def test_a_retry_after_a_failure_starts_a_new_job(custom_jobs, coordinate, started, state):
    custom_jobs.add(started, state)

    coordinate()

    assert [job["state"] for job in custom_jobs.jobs.values()][1:] == ["JOB_STATE_SUCCEEDED"]
    assert custom_jobs.jobs[f"{PARENT}/customJobs/1"]["state"] != "JOB_STATE_CANCELLING"


def test_a_job_for_other_outputs_is_cancelled_before_a_new_one_starts(custom_jobs, coordinate, started):
    custom_jobs.add(started, "RUNNING")

    lines = coordinate(outputs="gs://b/2")

    assert lines[:4] == [
        f"cancels the custom job {PARENT}/customJobs/1: another attempt of its task has taken over",
        f"the custom job {PARENT}/customJobs/1 is cancelling",
        f"the custom job {PARENT}/customJobs/1 is cancelled",
        f"started the custom job {PARENT}/customJobs/2 ({PAGE.replace('/1?', '/2?')})",
    ]


def test_jobs_of_other_tasks_and_runs_are_left_alone(custom_jobs, coordinate, started):
    custom_jobs.add({**started, "labels": {**started["labels"], "tfx_gnn_task": "h1"}}, "RUNNING")

    coordinate()

    assert [job["state"] for job in custom_jobs.jobs.values()] == ["JOB_STATE_RUNNING", "JOB_STATE_SUCCEEDED"]


def test_of_two_coordinators_at_a_time_the_job_of_the_first_stays(custom_jobs, coordinate, started):
    custom_jobs.on_creation = lambda: custom_jobs.add(started, "RUNNING")

    lines = coordinate()

    assert [job["state"] for job in custom_jobs.jobs.values()] == ["JOB_STATE_SUCCEEDED", "JOB_STATE_CANCELLED"]
    assert f"goes on with the custom job {PARENT}/customJobs/1 ({PAGE}), which another attempt started before" in lines


@pytest.mark.parametrize("is_done", [True, False], ids=["after-acceptance", "before-acceptance"])
@pytest.mark.parametrize("status", [0, 503], ids=["broken", "unavailable"])
def test_a_failure_around_the_creation_leaves_one_job(custom_jobs, coordinate, status, is_done):
    custom_jobs.states = ["SUCCEEDED"]
    custom_jobs.fail("POST", status=status, is_done=is_done)

    coordinate()

    assert len(custom_jobs.jobs) == 1


def test_a_service_that_is_away_for_a_while_ends_nothing(custom_jobs, coordinate, waits):
    custom_jobs.states = ["RUNNING", "SUCCEEDED"]
    custom_jobs.fail("POST", status=429, headers={"Retry-After": "9"})
    for _ in range(8):
        custom_jobs.fail(f"GET /v1/{PARENT}/customJobs/", status=503)

    lines = coordinate()

    assert 9 in waits
    assert lines[-1] == f"the custom job {PARENT}/customJobs/1 is succeeded"


def test_a_permission_that_is_missing_is_told(custom_jobs, coordinate):
    custom_jobs.fail("POST", status=403, body='{"error": {"message": "iam.serviceAccounts.actAs denied"}}')

    lines = coordinate(exit_code=1)

    assert "`custom_job` must be used by somebody with the permission; got 403 (iam.serviceAccounts.actAs" in lines[-1]
    assert "roles/aiplatform.user in the project (aiplatform.customJobs.create)" in lines[-1]
    assert "roles/iam.serviceAccountUser on the account that the job runs as" in lines[-1]
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"accelerator": ("NVIDIA_TESLA_T5", 1)},
            "`custom_job` must be one that the installed client of Vertex AI",
        ),
        ({"unresolved": "{{$.pipeline_google_cloud_project_id}}"}, "`--project` must be filled in by Vertex AI; got"),
        ({"unresolved": "{{$.pipeline_network}}"}, "--semantics vertex, or name `network` in `custom_job`."),
    ],
)
def test_what_cannot_be_sent_is_told_before_anything_is(custom_jobs, coordinate, given, told):
    lines = coordinate(exit_code=1, **given)

    assert told in lines[-1]
    assert not [seen for seen in custom_jobs.seen if seen.method == "POST"]


def test_labels_that_are_no_labels_are_told(custom_jobs, coordinate, monkeypatch):
    monkeypatch.setenv(coordinator.RUN_LABELS_VARIABLE, "[1]")

    assert "`VERTEX_AI_PIPELINES_RUN_LABELS` must be a JSON object of texts" in coordinate(exit_code=1)[-1]
