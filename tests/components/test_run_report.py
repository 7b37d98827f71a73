from __future__ import annotations

import contextlib
import http.server
import json
import threading

import pytest

from tfx_gnn_pipelines.run_report import RunReport, check_address, main, read_report, send_report

FAILED = {
    "state": "FAILED",
    "pipelineJobResourceName": "projects/1/locations/r/pipelineJobs/shop-1",
    "pipelineTaskName": "exit-handler-1",
    "error": {"code": 9, "message": "Failed tasks:\n GraphTrainer."},
}
REPORT = RunReport(pipeline="shop", run="shop-1", state="SUCCEEDED", error="")


def message(status, report_to=""):
    return {"inputs": {"parameterValues": {"pipeline": "shop", "report_to": report_to, "status": status}}}


@contextlib.contextmanager
def server(*statuses):
    """Answers one request after the other with these statuses; yields its address and what it was sent."""
    left, bodies = list(statuses), []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(left.pop(0))
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{serving.server_port}/hook?key=s3cr3t", bodies
        finally:
            serving.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (
            FAILED,
            "shop: FAILED: Failed tasks: GraphTrainer. (run projects/1/locations/r/pipelineJobs/shop-1)",
        ),
        ({"state": "SUCCEEDED", "pipelineJobResourceName": "shop-x2", "error": {}}, "shop: SUCCEEDED (run shop-x2)"),
        # Kubeflow's driver sends a code with an empty message in any case, and had another name of the state.
        (
            {"state": "COMPLETE", "pipelineJobResourceName": "x", "error": {"code": 3, "message": "told late"}},
            "shop: SUCCEEDED (run x)",
        ),
        ({"state": "CANCELLED", "pipelineJobResourceName": "x", "error": None}, "shop: CANCELLED (run x)"),
        ({"state": "CANCELED", "pipelineJobResourceName": "x"}, "shop: CANCELLED (run x)"),
        ({"state": "CACHED", "pipelineJobResourceName": "x"}, "shop: SUCCEEDED (run x)"),
        ({"state": "FAILED", "pipelineJobResourceName": None, "error": "no disk"}, "shop: FAILED: no disk (run )"),
        (
            {"state": "FAILED", "pipelineJobResourceName": "x", "error": {"message": "\ud800"}},
            "shop: FAILED: ? (run x)",
        ),
        (json.dumps({"state": "FAILED", "pipelineJobResourceName": "x", "error": []}), "shop: FAILED (run x)"),
    ],
)
def test_status_of_a_service_is_read(status, text):
    assert read_report(message(status)).text == text


@pytest.mark.parametrize("status", [None, "", {}, "FAILED", "[1]", "[" * 100_000, 3])
def test_missing_status_is_refused(status):
    with pytest.raises(ValueError, match="`executor-input` must have the final status of the tasks; got none"):
        read_report(message(status))


@pytest.mark.parametrize("sent", [{}, {"inputs": None}, {"inputs": {"parameterValues": None}}])
def test_message_without_parameters_ends_with_one_line(sent, capsys):
    assert main(["--executor-input", json.dumps(sent)]) == 1
    assert capsys.readouterr().out.startswith(
        "run_report failed: ValueError: `executor-input` must have the final status"
    )


def test_address_that_is_null_only_prints(capsys):
    assert main(["--executor-input", json.dumps(message(FAILED, None))]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_long_error_is_shortened_when_it_is_sent(capsys):
    with server(200) as (address, bodies):
        main(["--executor-input", json.dumps(message({"state": "FAILED", "error": "e" * 2010}, address))])

    shortened = "e" * 2000 + " ... (10 more characters in the log)"
    assert (bodies[0]["error"], bodies[0]["text"]) == (shortened, f"shop: FAILED: {shortened} (run )")
    assert "e" * 2010 in capsys.readouterr().out


def test_bundle_of_certificates_that_is_missing_ends_with_one_line(monkeypatch, capsys):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/absent")

    assert main(["--executor-input", json.dumps(message(FAILED, "https://127.0.0.1:1/s3cr3t"))]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert "got no answer from 127.0.0.1: OSError" in last
    assert "s3cr3t" not in last


def test_host_that_cannot_be_a_name_ends_with_one_line(capsys):
    assert main(["--executor-input", json.dumps(message(FAILED, f"http://{'a' * 70}.example/s3cr3t"))]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert f"got no answer from {'a' * 70}.example" in last
    assert "s3cr3t" not in last


def test_report_is_posted_as_json(capsys):
    with server(200) as (address, bodies):
        code = main(["--executor-input", json.dumps(message(FAILED, address))])

    text = "shop: FAILED: Failed tasks: GraphTrainer. (run projects/1/locations/r/pipelineJobs/shop-1)"
    assert code == 0
    assert bodies == [
        {
            "text": text,
            "pipeline": "shop",
            "run": "projects/1/locations/r/pipelineJobs/shop-1",
            "state": "FAILED",
            "error": "Failed tasks: GraphTrainer.",
        }
    ]
    assert capsys.readouterr().out.splitlines() == [text, "The report was sent."]


def test_report_without_an_address_is_printed(capsys):
    assert main(["--executor-input", json.dumps(message(FAILED))]) == 0
    assert capsys.readouterr().out.startswith("shop: FAILED")


def test_address_may_be_a_secret_of_the_environment(monkeypatch):
    with server(200) as (address, bodies):
        monkeypatch.setenv("REPORT_URL", f"{address}\n")
        send_report(REPORT, "variable:REPORT_URL")

    assert bodies[0]["state"] == "SUCCEEDED"


def test_server_that_is_busy_once_gets_the_report_again():
    with server(503, 204) as (address, bodies):
        send_report(REPORT, address)

    assert len(bodies) == 2


@pytest.mark.parametrize("status", [302, 304, 404])
def test_refusal_fails_and_keeps_the_secret(status, capsys):
    with server(status) as (address, bodies):
        code = main(["--executor-input", json.dumps(message(FAILED, address))])

    assert (code, len(bodies)) == (1, 1)
    last = capsys.readouterr().out.splitlines()[-1]
    assert f"got the answer {status} from 127.0.0.1. Check the address." in last
    assert "s3cr3t" not in last


@pytest.mark.parametrize("value", [None, "s3cr3t"])
def test_variable_must_have_an_address(monkeypatch, value):
    monkeypatch.delenv("REPORT_URL", raising=False)
    if value:
        monkeypatch.setenv("REPORT_URL", value)

    with pytest.raises(ValueError, match=r"`report_to` must name an environment variable .* in REPORT_URL") as refused:
        send_report(REPORT, "variable:REPORT_URL")

    assert "s3cr3t" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("hooks.example/s3cr3t", "hooks.example/..."),
        ("https:/hooks.example/s3cr3t", "https:/hooks.example/..."),
        ("user:s3cr3t@hooks.example/x", "hooks.example/..."),
        ("https://hooks.example:99999/s3cr3t", "https://hooks.example:99999/..."),
        ("https://hooks.example:abc/s3cr3t", "https://hooks.example:abc/..."),
        ("ftp://user:s3cr3t@hooks.example/s3cr3t", "ftp://hooks.example/..."),
        ("https:///path", "https:///..."),
        ("https://[1::2", "https://[1::2"),
        ("https://host/a b", "https://host/..."),
        ("variable:", "variable:"),
        ("variable:a-b", "variable:a-b"),
    ],
)
def test_other_addresses_are_refused_without_what_may_be_secret(address, shown):
    with pytest.raises(ValueError, match="`report_to` must be https://HOST/PATH") as refused:
        check_address(address)

    assert f"got {shown!r}. " in str(refused.value)


def test_message_that_is_no_json_ends_with_one_line(capsys):
    assert main(["--executor-input", "{{$}}"]) == 1
    assert capsys.readouterr().out.startswith("run_report failed: ContainerError: `executor-input` must be JSON; got")
