"""The commands against a server that answers as Vertex AI."""

from __future__ import annotations

import json

import pytest

PARENT = "projects/shop/locations/europe-west4"


@pytest.fixture
def options(vertex, token_file):
    return ("--project", "shop", "--region", "europe-west4", "--endpoint", vertex.url, "--token-file", token_file)


@pytest.fixture
def submit(tfx_gnn, vertex_file, options):
    def run(*arguments, exit_code=0):
        return tfx_gnn("submit", vertex_file, *options, *arguments, exit_code=exit_code)

    return run


@pytest.fixture
def run_name(vertex):
    """A run that was made before."""
    name = f"{PARENT}/pipelineJobs/shop-1"
    vertex.runs[name] = {"name": name, "displayName": "nightly", "state": "PIPELINE_STATE_PENDING"}
    return name


def test_submit_starts_one_run_with_what_was_given(submit, vertex):
    key = f"{PARENT}/keyRings/ring/cryptoKeys/key"
    network = "projects/1/global/networks/inner"
    arguments = ("--parameter", "num_epochs=3", "--name", "nightly", "--labels", "team=search", "--no-cache")
    more = ("--service-account", "runner@shop.iam.gserviceaccount.com", "--network", network, "--encryption-key", key)
    shown = submit(*arguments, *more, "--json")

    ((name, job),) = vertex.runs.items()
    assert name.startswith(f"{PARENT}/pipelineJobs/shop-")
    assert job["displayName"] == "nightly"
    assert job["runtimeConfig"] == {
        "gcsOutputDirectory": "gs://bucket/root",
        "parameterValues": {"num_epochs": 3, "tables_dir": "gs://bucket/tables"},
    }
    assert job["labels"]["team"] == "search"
    assert (job["serviceAccount"], job["network"], job["encryptionSpec"]) == (more[1], network, {"kmsKeyName": key})
    tasks = job["pipelineSpec"]["root"]["dag"]["tasks"]
    assert [task["cachingOptions"]["enableCache"] for task in tasks.values()] == [False, False]
    assert {seen.headers["authorization"] for seen in vertex.seen} == {"Bearer s3cr3t-t0ken"}
    found = json.loads(shown.stdout)
    assert (found["run"], found["state"]) == (name, "pending")
    job_id = name.rpartition("/")[2]
    assert found["page"].endswith(f"/pipelines/locations/europe-west4/runs/{job_id}?project=shop")


def test_a_dry_run_prints_the_request_and_sends_nothing(submit, vertex, tfx_gnn, vertex_file):
    shown = submit("--dry-run", "--root", "gs://bucket/other")
    public = tfx_gnn("submit", vertex_file, "--dry-run", "--project", "shop", "--region", "europe-west4")

    assert vertex.seen == []
    request = json.loads(shown.stdout)
    assert request["url"].startswith(f"{vertex.url}/v1/{PARENT}/pipelineJobs?pipelineJobId=shop-")
    assert request["body"]["runtimeConfig"]["gcsOutputDirectory"] == "gs://bucket/other"
    assert "s3cr3t" not in shown.stdout
    assert json.loads(public.stdout)["url"].startswith("https://europe-west4-aiplatform.googleapis.com/v1/projects/")


@pytest.mark.parametrize("is_done", [True, False], ids=["after-acceptance", "before-acceptance"])
@pytest.mark.parametrize("status", [0, 503], ids=["broken", "unavailable"])
def test_a_failure_around_the_acceptance_leaves_one_run(submit, vertex, status, is_done):
    vertex.fail("POST", status=status, is_done=is_done)

    shown = submit("--json")

    (name,) = vertex.runs
    assert json.loads(shown.stdout)["run"] == name
    assert [seen.query["pipelineJobId"] for seen in vertex.seen if seen.method == "POST"] == (
        [name.rpartition("/")[2]] * (1 if is_done else 2)
    )


def test_a_run_is_added_to_its_experiment(submit, vertex, waits):
    vertex.states = ["PENDING", "RUNNING"]
    submit("--experiment", "daily")
    submit("--experiment", "daily")

    ((name, context),) = vertex.contexts.items()
    assert name == f"{PARENT}/metadataStores/default/contexts/daily"
    assert context["schemaTitle"] == "system.Experiment"
    assert context["metadata"] == {"experiment_deleted": False}
    assert [child[-12:] for child in context["children"]] == [run[-12:] for run in vertex.runs]
    assert waits == [2]


def test_a_run_that_cannot_be_added_to_its_experiment_is_told(submit, vertex):
    vertex.states = ["RUNNING"]
    vertex.fail(f"POST /v1/{PARENT}/metadataStores/default/contexts/daily:add", status=403)

    shown = submit("--experiment", "daily", exit_code=2)

    (run,) = vertex.runs
    assert "got 403" in shown.stderr
    assert f"The run was started: {run}." in shown.stderr


def test_a_run_without_metadata_goes_on_outside_of_its_experiment(submit, vertex, waits):
    vertex.states = ["PENDING"]

    shown = submit("--experiment", "daily", exit_code=2)

    assert "got no metadata of it from Vertex AI in 180 s. The run goes on" in shown.stderr
    assert sum(waits) == 180
    assert len(vertex.runs) == 1


def test_a_name_that_is_no_experiment_is_refused(submit, vertex):
    name = f"{PARENT}/metadataStores/default/contexts/daily"
    vertex.contexts[name] = {"name": name, "schemaTitle": "system.PipelineRun"}

    taken = submit("--experiment", "daily", exit_code=2)
    wrong = submit("--experiment", "Daily", exit_code=2)

    assert "`--experiment` must name an experiment; got 'daily', which is a system.PipelineRun" in taken.stderr
    assert "`--experiment` must be of small letters, digits and '-' on vertex" in wrong.stderr
    assert vertex.runs == {}


def test_retry_after_is_obeyed(submit, vertex, waits):
    vertex.fail("POST", status=429, headers={"Retry-After": "9"})

    submit()

    assert waits == [9]
    assert len(vertex.runs) == 1


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "must be used with valid credentials; got "),
        (403, "must be used by somebody with the permission; got 403 (no) from POST"),
        (404, "must have what is asked for; got 404"),
        (409, "must not have another one of this name"),
        (400, "must accept the request; got 400 (no) from POST"),
    ],
)
def test_an_answer_that_is_no_success_is_told_in_one_line(submit, vertex, waits, status, told):
    for _ in range(3):
        vertex.fail("POST", status=status, body=json.dumps({"error": {"code": status, "message": "no"}}))

    shown = submit(exit_code=2)

    (line,) = shown.stderr.splitlines()
    assert told in line
    assert "s3cr3t" not in line
    assert waits == []


def test_a_page_is_told_from_the_service(submit, vertex):
    vertex.fail("POST", status=200, body="<!DOCTYPE html><html>Log in</html>", headers={"Content-Type": "text/html"})

    shown = submit(exit_code=2)

    assert "got an answer that is no message" in shown.stderr or "got an HTML page" in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirection_is_told_and_not_followed(submit, vertex, status):
    vertex.fail("POST", status=status, headers={"Location": f"{vertex.url}/v1/{PARENT}/pipelineJobs?pipelineJobId=x"})

    shown = submit(exit_code=2)

    assert vertex.calls() == ["POST pipelineJobs"]
    assert f"redirection ({status} to {vertex.url}/v1/{PARENT}/pipelineJobs)" in shown.stderr


def test_an_answer_of_another_service_is_no_run(submit, vertex):
    vertex.fail("POST", status=200, body='{"hello": "world"}')

    shown = submit("--json", exit_code=2)

    assert "must be the address of Vertex AI; got an answer without a name" in shown.stderr
    assert shown.stdout == ""


def test_a_page_where_nothing_is_found_points_to_the_region(tfx_gnn, vertex, run_name, options):
    vertex.fail("GET", status=404, body="<!DOCTYPE html><html>Error 404</html>", headers={"Content-Type": "text/html"})

    shown = tfx_gnn("status", run_name, *options, exit_code=2)

    assert "another server. Check the id, --project and --region." in shown.stderr


def test_a_proxy_that_does_not_answer_is_told(tfx_gnn, run_name, options, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://user:pa55word@127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")

    shown = tfx_gnn("status", run_name, *options, exit_code=2)

    assert "This machine's proxy does not answer: check HTTPS_PROXY" in shown.stderr
    assert "pa55word" not in shown.stderr


def test_an_address_without_a_service_fails_at_once(submit, vertex, waits):
    vertex.stop()

    shown = submit(exit_code=2)

    assert "must be an address where a service listens; got POST http://127.0.0.1" in shown.stderr
    assert waits == []
    vertex.start()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--host", "http://localhost"), "`--host` must go with kubeflow; got it for vertex"),
        (("--root", "s3://bucket/root"), "`--root` must be on Cloud Storage for vertex; got 's3://bucket/root'"),
        (
            ("--network", "default"),
            "`--network` must have the form projects/NUMBER/global/networks/NAME; got 'default'",
        ),
        (("--encryption-key", "key"), "`--encryption-key` must have the form projects/"),
        (("--region", "host.example:1"), "`--region` must be given for vertex; got 'host.example:1'"),
        (("--region", "../x"), "`--region` must be given for vertex; got '../x'"),
    ],
)
def test_mistakes_are_told_before_anything_is_sent(submit, vertex, arguments, told):
    shown = submit(*arguments, exit_code=2)

    (line,) = shown.stderr.splitlines()
    assert told in line
    assert vertex.seen == []


def test_project_and_region_come_from_the_environment_or_are_asked_for(tfx_gnn, vertex_file, monkeypatch):
    missing = tfx_gnn("submit", vertex_file, "--dry-run", exit_code=2)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "shop")
    monkeypatch.setenv("GOOGLE_CLOUD_REGION", "europe-west4")
    shown = tfx_gnn("submit", vertex_file, "--dry-run")

    assert "`--project` must be given for vertex; got 'none'. Add it, as in --project my-project" in missing.stderr
    assert f"/v1/{PARENT}/pipelineJobs" in json.loads(shown.stdout)["url"]


@pytest.mark.parametrize(("state", "exit_code"), [("SUCCEEDED", 0), ("FAILED", 1), ("CANCELLED", 1)])
def test_wait_goes_on_over_failures_and_its_exit_code_is_the_outcome(
    tfx_gnn, vertex, run_name, *, options, waits, state, exit_code
):
    vertex.states = ["QUEUED", "RUNNING", state]
    vertex.fail(status=429, headers={"Retry-After": "30"})
    vertex.fail(status=500)
    vertex.fail()

    shown = tfx_gnn("wait", run_name, *options, "--poll-seconds", "5", exit_code=exit_code)

    assert waits == [30, 2, 4, 5, 5]
    assert [line for line in shown.stderr.splitlines() if line.startswith("run:")] == [
        "run: pending",
        "run: running",
        f"run: {state.lower()}",
    ]


@pytest.fixture
def run_of_tasks(vertex, run_name):
    container = {"containerDetail": {"mainJob": "projects/7/locations/europe-west4/customJobs/5"}}
    error = {"code": 9, "message": "The replica workerpool0-0 exited with a non-zero status of 1."}
    details = [
        {"taskId": "1", "taskName": "shop-1", "state": "FAILED"},
        {"taskId": "2", "taskName": "GraphTrainer", "parentTaskId": "1", "state": "FAILED", "executorDetail": container,
         "error": error},
        {"taskId": "3", "taskName": "GraphPusher", "parentTaskId": "1", "state": "NOT_TRIGGERED"},
    ]  # fmt: skip
    vertex.runs[run_name] |= {"state": "PIPELINE_STATE_FAILED", "jobDetail": {"taskDetails": details}, "error": error}
    return run_name


def test_status_shows_the_tasks(tfx_gnn, run_of_tasks, options):
    shown = tfx_gnn("status", "shop-1", *options, "--json")

    found = json.loads(shown.stdout)
    assert (found["run"], found["state"]) == (run_of_tasks, "failed")
    assert [(task["name"], task["state"]) for task in found["tasks"]] == [
        ("GraphTrainer", "failed"),
        ("GraphPusher", "skipped"),
    ]


def test_status_shows_the_tasks_before_an_exit_handler(tfx_gnn, vertex, run_of_tasks, options):
    details = vertex.runs[run_of_tasks]["jobDetail"]["taskDetails"]
    for detail in details[1:]:
        detail["parentTaskId"] = "4"
    details += [
        {"taskId": "4", "taskName": "exit-handler-1", "parentTaskId": "1", "state": "FAILED"},
        {"taskId": "5", "taskName": "RunReport", "parentTaskId": "1", "state": "SUCCEEDED"},
    ]

    found = json.loads(tfx_gnn("status", "shop-1", *options, "--json").stdout)

    assert [task["name"] for task in found["tasks"]] == ["GraphTrainer", "GraphPusher", "RunReport"]


@pytest.mark.parametrize(
    "run",
    [
        "shop-1",
        f"{PARENT}/pipelineJobs/shop-1",
        "https://console.cloud.google.com/vertex-ai/pipelines/locations/europe-west4/runs/shop-1?project=shop",
        "https://console.cloud.google.com/vertex-ai/locations/europe-west4/pipelines/runs/shop-1?project=shop",
    ],
)
def test_a_run_is_known_by_id_name_or_page(tfx_gnn, run_name, options, run):
    assert json.loads(tfx_gnn("status", run, *options, "--json").stdout)["run"] == run_name


@pytest.mark.parametrize(
    "run",
    [
        "../pipelineJobs?x",
        f"{PARENT}/schedules/1",
        "https://console.cloud.google.com/vertex-ai/pipelines/locations/europe-west4/schedules/1?project=shop",
        # The region would end the host name that the token is sent to.
        "projects/shop/locations/127.0.0.1:1#/pipelineJobs/shop-1",
        "projects/shop/locations/host.example?/pipelineJobs/shop-1",
    ],
)
def test_an_id_that_cannot_be_is_refused(tfx_gnn, vertex, options, run):
    shown = tfx_gnn("status", run, *options, exit_code=2)

    assert (
        "must be an id, projects/PROJECT/locations/REGION/pipelineJobs/ID, or the address of its page" in shown.stderr
    )
    assert vertex.seen == []


def test_states_that_are_newer_than_the_client_are_unknown(tfx_gnn, vertex, run_of_tasks, options):
    vertex.runs[run_of_tasks]["state"] = 99
    vertex.runs[run_of_tasks]["jobDetail"]["taskDetails"][1]["state"] = 99

    found = json.loads(tfx_gnn("status", run_of_tasks, *options, "--json").stdout)

    assert (found["state"], found["tasks"][0]["state"]) == ("unknown", "unknown")


def test_logs_say_where_the_logs_are(tfx_gnn, run_of_tasks, options):
    shown = tfx_gnn("logs", run_of_tasks, *options)

    lines = shown.stdout.splitlines()
    assert lines[:2] == [
        "== GraphTrainer: failed",
        "error: The replica workerpool0-0 exited with a non-zero status of 1.",
    ]
    query = 'resource.type="ml_job" resource.labels.job_id="5"'
    assert f"gcloud logging read '{query}' --project 7" in lines
    assert any("logs/query;query=resource.type%3D%22ml_job%22" in line for line in lines)
    assert lines[-1].startswith("no log: the task")


def test_cancel_ends_a_run_once(tfx_gnn, vertex, run_name, options):
    tfx_gnn("cancel", run_name, *options)
    shown = tfx_gnn("cancel", run_name, *options, exit_code=2)

    assert vertex.runs[run_name]["state"] == "PIPELINE_STATE_CANCELLED"
    assert "must not have ended" in shown.stderr


def test_schedules_are_created_listed_paused_resumed_and_deleted(tfx_gnn, vertex, vertex_file, options):
    times = ("--cron", "30 6 * * 1-5", "--timezone", "Europe/Berlin", "--end", "2030-01-31T06:00+01:00")
    vertex.fail("POST", is_done=True)
    created = tfx_gnn("schedule", "create", vertex_file, *times, "--name", "daily", "--json", *options)

    ((name, found),) = vertex.schedules.items()
    (told,) = json.loads(created.stdout)
    assert found["cron"] == "CRON_TZ=Europe/Berlin 30 6 * * 1-5"
    assert (found["maxConcurrentRunCount"], found["endTime"]) == ("1", "2030-01-31T05:00:00Z")
    assert found["createPipelineJobRequest"]["parent"] == PARENT
    assert found["createPipelineJobRequest"]["pipelineJob"]["runtimeConfig"]["gcsOutputDirectory"] == "gs://bucket/root"
    assert (told["schedule"], told["is_active"]) == (name, True)
    tfx_gnn("schedule", "pause", name, *options)
    assert "paused" in tfx_gnn("schedule", "list", *options).stdout
    tfx_gnn("schedule", "resume", name.rpartition("/")[2], *options)
    assert "active" in tfx_gnn("schedule", "list", *options).stdout
    tfx_gnn("schedule", "delete", name, *options)
    assert vertex.schedules == {}


def test_without_any_login_the_way_to_one_is_told(tfx_gnn, run_name, vertex, monkeypatch, tmp_path):
    for name in ("HOME", "CLOUDSDK_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")

    shown = tfx_gnn("status", run_name, "--endpoint", vertex.url, exit_code=2)

    assert "gcloud auth application-default login" in shown.stderr
    assert vertex.seen == []


def test_a_submission_that_is_named_starts_one_run(submit, vertex):
    first = json.loads(submit("--submission", "2026-11-26", "--json").stdout)
    again = submit("--submission", "2026-11-26", "--json")
    other = json.loads(submit("--submission", "2026-11-27", "--json").stdout)

    assert json.loads(again.stdout)["run"] == first["run"] != other["run"]
    assert "this was submitted before; nothing was created" in again.stderr
    assert len(vertex.runs) == 2
