"""The commands against a server that answers as Kubeflow Pipelines."""

from __future__ import annotations

import datetime as dt
import json
import os
import ssl
import subprocess
import time
import traceback

import pytest


@pytest.fixture
def submit(tfx_gnn, kubeflow, kubeflow_file, token_file):
    def run(*arguments, exit_code=0):
        given = ("submit", kubeflow_file, "--host", kubeflow.url, "--token-file", token_file)
        return tfx_gnn(*given, "--parameter", "tables_dir=gs://bucket/tables", *arguments, exit_code=exit_code)

    return run


def test_submit_starts_one_run_with_what_was_given(submit, kubeflow):
    arguments = ("--parameter", "num_epochs=3", "--name", "nightly", "--labels", "team=search", "--labels", "tier=2")
    shown = submit(*arguments, "--root", "s3://bucket/root", "--service-account", "runner", "--no-cache", "--json")

    (run,) = kubeflow.runs.values()
    assert run["display_name"] == "nightly"
    assert run["description"].startswith("team=search, tier=2; tfx-gnn submission ")
    assert run["runtime_config"] == {
        "parameters": {"num_epochs": 3, "tables_dir": "gs://bucket/tables"},
        "pipeline_root": "s3://bucket/root",
    }
    assert run["service_account"] == "runner"
    assert run["pipeline_spec"]["platform_spec"]["platforms"]["kubernetes"]
    tasks = run["pipeline_spec"]["pipeline_spec"]["root"]["dag"]["tasks"]
    assert [task["cachingOptions"]["enableCache"] for task in tasks.values()] == [False, False]
    (experiment,) = kubeflow.experiments.values()
    assert (experiment["display_name"], run["experiment_id"]) == ("Default", experiment["experiment_id"])
    assert {seen.headers["authorization"] for seen in kubeflow.seen} == {"Bearer s3cr3t-t0ken"}
    found = json.loads(shown.stdout)
    assert (found["run"], found["state"]) == (run["run_id"], "pending")
    assert found["page"] == f"{kubeflow.url}/#/runs/details/{run['run_id']}"


def test_an_experiment_is_found_by_its_name_in_the_namespace(submit, kubeflow):
    submit("--experiment", "daily", "--namespace", "team-a")
    submit("--experiment", "daily", "--namespace", "team-a")

    (experiment,) = kubeflow.experiments.values()
    assert (experiment["display_name"], experiment["namespace"]) == ("daily", "team-a")
    assert [seen.query["namespace"] for seen in kubeflow.seen if seen.method == "GET"] == ["team-a", "team-a"]


def test_a_dry_run_prints_the_request_and_sends_nothing(submit, kubeflow, tfx_gnn, kubeflow_file):
    shown = submit("--dry-run", "--name", "nightly")
    without_host = tfx_gnn("submit", kubeflow_file, "--dry-run", "--parameter", "tables_dir=x")

    assert kubeflow.seen == []
    request = json.loads(shown.stdout)
    assert (request["method"], request["url"]) == ("POST", f"{kubeflow.url}/apis/v2beta1/runs")
    assert request["body"]["experiment_id"] == "<id of the experiment 'Default'>"
    assert "s3cr3t" not in shown.stdout
    assert json.loads(without_host.stdout)["url"] == "/apis/v2beta1/runs"


@pytest.mark.parametrize("is_done", [True, False], ids=["after-acceptance", "before-acceptance"])
@pytest.mark.parametrize("status", [0, 502], ids=["broken", "bad-gateway"])
def test_a_failure_around_the_acceptance_leaves_one_run(submit, kubeflow, waits, status, is_done):
    kubeflow.fail("POST /apis/v2beta1/runs", status=status, is_done=is_done)

    shown = submit("--json")

    (run,) = kubeflow.runs.values()
    assert json.loads(shown.stdout)["run"] == run["run_id"]
    assert "looking whether the request was accepted" in shown.stderr
    assert kubeflow.calls().count("POST runs") == (1 if is_done else 2)
    # Where nothing is found, four looks and the wait before the second try.
    assert waits == ([] if is_done else [1, 2, 4, 1])


def test_a_run_that_appears_late_is_found_and_not_made_twice(submit, kubeflow, waits, monkeypatch):
    kubeflow.fail("POST /apis/v2beta1/runs", is_done=True)
    answer, hidden = type(kubeflow)._filtered, []

    def late(self, seen, records):
        found = answer(self, seen, records)
        if seen.path.endswith("/runs") and len(hidden) < 2:
            hidden.append(found)
            return []
        return found

    monkeypatch.setattr(type(kubeflow), "_filtered", late)

    submit()

    assert len(hidden) == 2
    assert len(kubeflow.runs) == 1
    assert waits == [1, 2]


@pytest.mark.parametrize("status", [408, 504])
def test_a_request_that_a_proxy_gave_up_waiting_for_is_not_sent_again(submit, kubeflow, status):
    kubeflow.fail("POST /apis/v2beta1/runs", status=status)

    shown = submit(exit_code=2)

    assert kubeflow.calls().count("POST runs") == 1
    assert "The request may still be in work, so it was not sent again." in shown.stderr


def test_an_answer_that_was_cut_off_after_the_acceptance_leaves_one_run(submit, kubeflow):
    kubeflow.fail("POST /apis/v2beta1/runs", status=200, body='{"run_id": "1', is_done=True)

    shown = submit("--json")

    assert [json.loads(shown.stdout)["run"]] == [run["run_id"] for run in kubeflow.runs.values()]


def test_an_error_page_in_another_encoding_is_an_error_of_the_service(submit, kubeflow):
    kubeflow.fail("POST /apis/v2beta1/runs", status=502, body="nicht verf\udcfcgbar", is_done=True)

    submit()

    assert len(kubeflow.runs) == 1


def test_a_token_that_is_gone_after_the_acceptance_is_told_with_the_run(submit, kubeflow, token_file, monkeypatch):
    answer = type(kubeflow).answer

    def remove(self, seen):
        if seen.method == "POST" and seen.path.endswith("/runs"):
            token_file.unlink()
        return answer(self, seen)

    monkeypatch.setattr(type(kubeflow), "answer", remove)
    kubeflow.fail("POST /apis/v2beta1/runs", is_done=True)

    shown = submit(exit_code=2)

    assert "The request may have been accepted before, so it was not sent again" in shown.stderr


@pytest.mark.parametrize("status", [301, 307, 308])
def test_a_redirection_is_told_and_not_followed(submit, kubeflow, status):
    place = f"{kubeflow.url}/apis/v2beta1/runs"
    kubeflow.fail("POST /apis/v2beta1/runs", status=status, headers={"Location": f"{place}?state=hidden"})

    shown = submit(exit_code=2)

    assert kubeflow.runs == {}
    assert f"redirection ({status} to {place}) from POST" in shown.stderr
    assert "hidden" not in shown.stderr


def test_an_interrupted_submission_says_that_there_may_be_a_run(submit, kubeflow, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    kubeflow.fail("POST /apis/v2beta1/runs")

    shown = submit("--name", "nightly", exit_code=130)

    assert "The run 'nightly' may have been started: look at the list of runs" in shown.stderr


def test_a_submission_that_cannot_be_looked_up_fails_and_is_not_repeated(submit, kubeflow):
    kubeflow.fail("POST /apis/v2beta1/runs", is_done=True)
    for _ in range(20):
        kubeflow.fail("GET /apis/v2beta1/runs", status=503)

    shown = submit(exit_code=2)

    assert len(kubeflow.runs) == 1
    assert kubeflow.calls().count("POST runs") == 1
    assert "503" in shown.stderr


@pytest.mark.parametrize("on", ["GET /apis/v2beta1/experiments", "POST /apis/v2beta1/runs"])
def test_retry_after_is_obeyed_in_seconds_and_as_a_date(submit, kubeflow, waits, on):
    until = dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=100)
    kubeflow.fail(on, status=429, headers={"Retry-After": "7"})
    kubeflow.fail(on, status=429, headers={"Retry-After": until.strftime("%a, %d %b %Y %H:%M:%S GMT")})

    shown = submit()

    assert waits[0] == 7
    assert 60 < waits[1] <= 100
    assert "the service answered 429; trying again in 7 s" in shown.stderr
    assert len(kubeflow.runs) == 1


def test_a_wait_that_is_too_long_ends_the_command(submit, kubeflow, waits):
    kubeflow.fail("POST /apis/v2beta1/runs", status=429, headers={"Retry-After": "3600"})

    shown = submit(exit_code=2)

    assert waits == []
    assert "`--host` must have room for the request; got 429" in shown.stderr


def test_waits_double_and_end(submit, kubeflow, waits):
    for _ in range(6):
        kubeflow.fail("GET /apis/v2beta1/experiments", status=500)

    submit(exit_code=2)

    assert waits == [1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("status", "told", "advice"),
    [
        (401, "must be used with valid credentials; got 401 (no) from POST", "--token-file"),
        (403, "must be used by somebody with the permission; got 403", "--namespace"),
        (404, "must have what is asked for; got 404", "Check the id"),
        (409, "must not have another one of this name", "--name"),
        (400, "must accept the request; got 400 (no) from POST", "Correct what the message names."),
    ],
)
def test_an_answer_that_is_no_success_is_told_in_one_line(submit, kubeflow, waits, *, status, told, advice):
    body = json.dumps(
        {"error": "no.", "code": 7, "message": "token s3cr3t-t0ken"} if status == 403 else {"error": "no."}
    )
    kubeflow.fail("POST /apis/v2beta1/runs", status=status, body=body, headers={"Set-Cookie": "session=hidden"})

    shown = submit(exit_code=2)

    (line,) = shown.stderr.splitlines()
    assert told in line
    assert advice in line
    assert f"{kubeflow.url}/apis/v2beta1/runs" in line
    assert "s3cr3t" not in line
    assert waits == []
    assert kubeflow.runs == {}


def test_a_secret_that_the_answer_repeats_is_hidden(tfx_gnn, kubeflow, run_id, token_file):
    body = json.dumps({"error": "bad header Bearer s3cr3t-t0ken"})
    headers = {"Set-Cookie": "session=hidden"}
    kubeflow.fail("GET", status=403, body=body, headers=headers)
    kubeflow.fail("GET", status=403, body=body, headers=headers)
    given = ("status", run_id, "--host", kubeflow.url, "--token-file", token_file)

    shown = tfx_gnn(*given, exit_code=2)
    with pytest.raises(ConnectionError) as failed:
        tfx_gnn("--debug", *given)

    assert "(bad header Bearer ***)" in shown.stderr
    text = "".join(traceback.format_exception(failed.value))
    assert "s3cr3t" not in text
    assert "session=hidden" not in text


def test_a_secret_that_was_renewed_since_is_hidden(tfx_gnn, kubeflow, run_id, token_file, monkeypatch):
    handle = type(kubeflow)._handle

    def renew(self, handler):
        token_file.write_text("another")
        handle(self, handler)

    monkeypatch.setattr(type(kubeflow), "_handle", renew)
    kubeflow.fail("GET", status=403, body=json.dumps({"error": "bad header Bearer s3cr3t-t0ken"}))

    shown = tfx_gnn("status", run_id, "--host", kubeflow.url, "--token-file", token_file, exit_code=2)

    assert "(bad header Bearer ***)" in shown.stderr


@pytest.mark.parametrize("status", [200, 302, 401])
def test_a_login_page_is_told_from_the_service(submit, kubeflow, status):
    headers = {"Content-Type": "text/html", **({"Location": "/dex/auth"} if status == 302 else {})}
    page = "<!DOCTYPE html>\n<html><body>Log in</body></html>"
    kubeflow.fail("GET", status=status, body=page, headers=headers)
    kubeflow.fail("GET /dex", status=200, body=page, headers=headers)

    shown = submit(exit_code=2)

    (line,) = shown.stderr.splitlines()
    assert "`--host` must be the address of the service's API; got an HTML page or redirection" in line
    assert "--cookie-file" in line


def test_an_answer_of_another_service_is_no_run(submit, kubeflow):
    kubeflow.fail("POST /apis/v2beta1/runs", status=200, body='{"hello": "world"}')

    shown = submit(exit_code=2)

    assert "got an answer without run_id" in shown.stderr


def test_an_address_without_tls_is_told(tfx_gnn, kubeflow, run_id):
    shown = tfx_gnn("status", run_id, "--host", kubeflow.url.removeprefix("http://"), exit_code=2)

    assert "The service does not speak TLS: begin the address with http://." in shown.stderr


def test_an_address_without_a_service_fails_at_once(tfx_gnn, kubeflow_file, kubeflow, waits):
    kubeflow.stop()
    given = ("--parameter", "tables_dir=x")

    refused = tfx_gnn("submit", kubeflow_file, "--host", kubeflow.url, *given, exit_code=2)
    unresolved = tfx_gnn("submit", kubeflow_file, "--host", "http://no-such-host.invalid", *given, exit_code=2)

    assert "`--host` must be an address where a service listens; got GET http://127.0.0.1" in refused.stderr
    assert "`--host` must have a host name that can be resolved" in unresolved.stderr
    assert len(refused.stderr.splitlines()) == len(unresolved.stderr.splitlines()) == 1
    assert waits == []
    kubeflow.start()


def test_a_certificate_is_trusted_by_ca_cert_alone(tfx_gnn, kubeflow, kubeflow_file, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-keyout", key, "-out", certificate, "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    kubeflow.server.socket = context.wrap_socket(kubeflow.server.socket, server_side=True)
    given = ("submit", kubeflow_file, "--host", kubeflow.url.replace("http", "https"), "--parameter", "tables_dir=x")

    refused = tfx_gnn(*given, exit_code=2)
    tfx_gnn(*given, "--ca-cert", certificate)

    assert "`--host` must have a TLS certificate that this machine trusts" in refused.stderr
    assert "--ca-cert" in refused.stderr
    assert len(kubeflow.runs) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("--parameter", "num_epochs=many"),
            "`--parameter` must have the declared type, NUMBER_INTEGER for 'num_epochs'",
        ),
        (("--parameter", "epochs=3"), "`--parameter` must name a parameter of the pipeline"),
        (("--parameter", "num_epochs"), "`--parameter` must have the form NAME=VALUE; got 'num_epochs'"),
        (("--parameter", "tables_dir=b"), "`--parameter` must give 'tables_dir' once"),
        (("--labels", "Team=a"), "`--labels` must be of small letters"),
        (("--root", "gcs/root"), "`--root` must be on an object store for kubeflow"),
        (("--project", "shop"), "`--project` must go with vertex; got it for kubeflow"),
        (("--network", "projects/1/global/networks/a"), "`--network` must go with vertex; got it for kubeflow"),
        (("--name", "a\nb"), "`--name` must have 1 to 128 printable characters"),
        (("--host", "http://user:word@host"), "`--host` must have no user and password in it"),
        (("--host", "ftp://host"), "`--host` must be an address as in https://HOST"),
        (("--token-file", "no-such-file"), "no-such-file"),
        (("--timeout", "5"), "`--timeout` must go with --wait; got 5 without it"),
        (("--ca-cert", "no-such-file"), "`--ca-cert` must name a file with certificates"),
    ],
)
def test_mistakes_are_told_before_anything_is_sent(submit, kubeflow, arguments, told):
    shown = submit(*arguments, exit_code=2)

    (line,) = shown.stderr.splitlines()
    assert told in line
    assert "word" not in line or "password" in line
    assert kubeflow.seen == []


def test_a_token_may_come_from_a_pipe_and_have_its_scheme_before_it(submit, kubeflow):
    reader, writer = os.pipe()
    os.write(writer, b"Bearer s3cr3t-t0ken\r\n")
    os.close(writer)

    submit("--token-file", f"/dev/fd/{reader}")

    os.close(reader)
    assert len(kubeflow.seen) > 1
    assert {seen.headers["authorization"] for seen in kubeflow.seen} == {"Bearer s3cr3t-t0ken"}


def test_a_token_file_must_hold_one_line(submit, kubeflow, token_file):
    token_file.write_text("one\ntwo")

    shown = submit(exit_code=2)

    assert "`--token-file` must name a file with one line" in shown.stderr
    assert "two" not in shown.stderr.replace("file with", "")
    assert kubeflow.seen == []


def test_cookies_and_a_renewed_token_are_sent(tfx_gnn, kubeflow, run_id, *, token_file, tmp_path, monkeypatch):
    cookies = tmp_path / "cookies"
    cookies.write_text("authservice_session=abc")
    kubeflow.states = ["RUNNING", "SUCCEEDED"]
    monkeypatch.setattr("time.sleep", lambda _: token_file.write_text("renewed"))

    tfx_gnn("wait", run_id, "--host", kubeflow.url, "--token-file", token_file, "--cookie-file", cookies)

    assert [seen.headers["authorization"] for seen in kubeflow.seen] == ["Bearer s3cr3t-t0ken", "Bearer renewed"]
    assert {seen.headers["Cookie"] for seen in kubeflow.seen} == {"authservice_session=abc"}


@pytest.mark.parametrize(("state", "exit_code"), [("SUCCEEDED", 0), ("FAILED", 1), ("CANCELED", 1)])
def test_wait_tells_each_change_and_the_exit_code_the_outcome(tfx_gnn, kubeflow, run_id, *, waits, state, exit_code):
    kubeflow.states = ["PENDING", "RUNNING", "RUNNING", state]

    shown = tfx_gnn("wait", run_id, "--host", kubeflow.url, "--poll-seconds", "5", exit_code=exit_code)

    outcome = state.lower().replace("canceled", "cancelled")
    assert shown.stderr.splitlines() == ["run: pending", "run: running", f"run: {outcome}"]
    assert shown.stdout.startswith(f"{outcome}: {kubeflow.url}/#/runs/details/")
    assert waits == [5, 5, 5]


def test_wait_ends_when_the_time_is_up(tfx_gnn, kubeflow, run_id):
    shown = tfx_gnn("wait", run_id, "--host", kubeflow.url, "--timeout", "0", exit_code=2)

    assert "`--timeout` must be longer than the run takes; got 0 s, after which it is running" in shown.stderr


def test_wait_takes_the_whole_time_and_asks_once_more(tfx_gnn, kubeflow, run_id, waits):
    kubeflow.states = ["RUNNING", "SUCCEEDED"]

    tfx_gnn("wait", run_id, "--host", kubeflow.url, "--timeout", "10")

    assert waits == [pytest.approx(10, abs=1)]


def test_wait_does_not_try_again_after_its_time(tfx_gnn, kubeflow, run_id, waits):
    for _ in range(30):
        kubeflow.fail("GET", status=503)

    tfx_gnn("wait", run_id, "--host", kubeflow.url, "--timeout", "20", exit_code=2)

    assert waits == [1, 2, 4, 8, 16]


def test_an_interrupted_wait_says_that_the_run_goes_on(tfx_gnn, kubeflow, run_id, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)

    shown = tfx_gnn("wait", run_id, "--host", kubeflow.url, exit_code=130)

    assert shown.stderr.splitlines() == ["run: running", "Interrupted. The run goes on: wait again, or cancel it."]


def test_wait_goes_on_over_a_restart_of_the_server(tfx_gnn, kubeflow, run_id, monkeypatch):
    port = kubeflow.port
    kubeflow.states = ["RUNNING", "SUCCEEDED"]
    steps = [kubeflow.stop, lambda: None, lambda: kubeflow.start(port)]
    monkeypatch.setattr("time.sleep", lambda _: steps.pop(0)())
    kubeflow.server.allow_reuse_address = True

    shown = tfx_gnn("wait", run_id, "--host", kubeflow.url)

    assert steps == []
    assert shown.stderr.count("the connection was refused; trying again in") == 2


def test_wait_goes_on_after_429_and_broken_connections(tfx_gnn, kubeflow, run_id, waits):
    kubeflow.states = ["SUCCEEDED"]
    kubeflow.fail(status=429, headers={"Retry-After": "30"})
    kubeflow.fail(status=503)
    kubeflow.fail()

    shown = tfx_gnn("wait", run_id, "--host", kubeflow.url)

    assert waits == [30, 2, 4]
    assert "the connection broke; trying again in 4 s" in shown.stderr


def test_submit_can_wait_for_the_end(submit, kubeflow):
    kubeflow.states = ["RUNNING", "FAILED"]

    shown = submit("--wait", exit_code=1)

    assert shown.stdout.startswith("failed: ")


def test_a_run_is_known_by_the_address_of_its_page(tfx_gnn, kubeflow, run_id):
    shown = tfx_gnn("status", f"{kubeflow.url}/#/runs/details/{run_id}", "--json")

    assert json.loads(shown.stdout)["state"] == "running"
    assert json.loads(shown.stdout)["run"] == run_id


def test_a_run_is_known_by_its_page_in_the_dashboard(tfx_gnn, kubeflow, run_id):
    page = f"{kubeflow.url}/_/pipeline/?ns=team-a#/runs/details/{run_id}"
    kubeflow.fail("GET", status=401)

    shown = tfx_gnn("status", page, exit_code=2)

    assert f"from GET {kubeflow.url}/pipeline/apis/v2beta1/runs/{run_id}." in shown.stderr


def test_pages_on_a_host_of_their_own_do_not_say_where_the_service_is(tfx_gnn, kubeflow, run_id, monkeypatch):
    monkeypatch.setenv("KF_PIPELINES_ENDPOINT", kubeflow.url)
    monkeypatch.setenv("KF_PIPELINES_UI_ENDPOINT", "http://127.0.0.1:1/pages/")

    page = json.loads(tfx_gnn("status", run_id, "--json").stdout)["page"]

    assert page == f"http://127.0.0.1:1/pages/#/runs/details/{run_id}"
    assert json.loads(tfx_gnn("status", page, "--json").stdout)["run"] == run_id


def test_cancel_ends_a_run_once(tfx_gnn, kubeflow, run_id, waits):
    kubeflow.fail("POST", is_done=True)

    tfx_gnn("cancel", run_id, "--host", kubeflow.url)
    shown = tfx_gnn("cancel", run_id, "--host", kubeflow.url, exit_code=2)

    assert kubeflow.runs[run_id]["state"] == "CANCELED"
    assert "`RUN` must not have ended" in shown.stderr.replace("`run`", "`RUN`")


def test_schedules_are_created_listed_paused_resumed_and_deleted(tfx_gnn, kubeflow, kubeflow_file):
    given = ("--host", kubeflow.url)
    times = ("--cron", "30 6 * * 1-5", "--max-concurrent-runs", "2", "--start", "2030-01-31T06:00+01:00")
    kubeflow.fail("POST /apis/v2beta1/recurringruns", is_done=True)
    created = tfx_gnn(
        "schedule", "create", kubeflow_file, *times, "--name", "daily", "--parameter", "tables_dir=x", "--json", *given
    )

    (found,) = kubeflow.schedules.values()
    (told,) = json.loads(created.stdout)
    assert found["trigger"] == {"cron_schedule": {"cron": "0 30 6 * * 1-5", "start_time": "2030-01-31T06:00:00+01:00"}}
    assert (found["max_concurrency"], found["mode"], found["no_catchup"]) == ("2", "ENABLE", True)
    assert (told["schedule"], told["is_active"]) == (found["recurring_run_id"], True)
    tfx_gnn("schedule", "pause", told["schedule"], *given)
    assert "paused" in tfx_gnn("schedule", "list", *given).stdout
    tfx_gnn("schedule", "resume", told["schedule"], *given)
    assert "active" in tfx_gnn("schedule", "list", *given).stdout
    kubeflow.fail("DELETE", is_done=True)
    tfx_gnn("schedule", "delete", told["page"])
    assert tfx_gnn("schedule", "list", *given).stdout == "no schedules\n"
    gone = tfx_gnn("schedule", "delete", told["schedule"], *given, exit_code=2)
    assert "got 404" in gone.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--cron", "6 * *"), "`--cron` must have five fields"),
        (("--cron", "@daily"), "`--cron` must have five fields"),
        (("--cron", "* * * * *", "--timezone", "Europe/Berlin"), "`--timezone` must be left out on kubeflow"),
        (("--cron", "* * * * *", "--start", "2030-01-31"), "`--start` must be a time with its distance from UTC"),
        (("--cron", "* * * * *", "--max-concurrent-runs", "0"), "`--max-concurrent-runs` must be in [1, 10]; got 0"),
        (
            ("--cron", "* * * * *", "--start", "2030-01-31T00:00Z", "--end", "2030-01-30T00:00Z"),
            "`--end` must be after `--start`",
        ),
        (("--cron", "* * * * *", "--end", "2020-01-31T00:00Z"), "`--end` must be in the future"),
        (("--cron", "* * * * *", "--start", "0001-01-01T00:00+01:00"), "`--start` must be a time with its distance"),
        (("--cron", "* * * * *", "--timezone", "CET +1"), "`--timezone` must be the name of a time zone"),
    ],
)
def test_schedules_that_cannot_be_are_refused(tfx_gnn, kubeflow, kubeflow_file, arguments, told):
    given = ("schedule", "create", kubeflow_file, "--parameter", "tables_dir=x", "--host", kubeflow.url)

    shown = tfx_gnn(*given, *arguments, exit_code=2)

    assert told in shown.stderr
    assert kubeflow.seen == []


def test_the_service_of_a_list_must_be_said(tfx_gnn):
    shown = tfx_gnn("schedule", "list", exit_code=2)

    assert "must say which service is meant; got neither" in shown.stderr


def test_a_submission_that_is_named_starts_one_run(submit, kubeflow):
    first = json.loads(submit("--submission", "2026-11-26", "--json").stdout)
    again = submit("--submission", "2026-11-26", "--json")
    other = json.loads(submit("--submission", "2026-11-27", "--json").stdout)

    assert json.loads(again.stdout)["run"] == first["run"] != other["run"]
    assert "this was submitted before; nothing was created" in again.stderr
    assert len(kubeflow.runs) == 2
    assert first["name"] == "shop 2026-11-26"


def test_a_proxy_of_the_environment_is_asked_with_its_login(kubeflow, tfx_gnn, run_id, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://user:pa55%20word@127.0.0.1:{kubeflow.port}")
    monkeypatch.setenv("no_proxy", "other.example")

    shown = tfx_gnn("status", run_id, "--host", "http://pipelines.example", "--json")

    assert json.loads(shown.stdout)["run"] == run_id
    assert kubeflow.seen[-1].headers["proxy-authorization"] == "Basic dXNlcjpwYTU1IHdvcmQ="


def test_a_forwarded_port_is_asked_without_a_proxy(kubeflow, tfx_gnn, run_id, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)

    assert json.loads(tfx_gnn("status", run_id, "--host", kubeflow.url, "--json").stdout)["run"] == run_id
