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
    ],
)
def test_status_of_a_service_is_read(status, text):
    assert read_report(message(status)).text == text


@pytest.mark.parametrize("status", [None, "", {}, "FAILED"])
def test_missing_status_is_refused(status):
    with pytest.raises(ValueError, match="`executor-input` must have the final status of the tasks; got none"):
        read_report(message(status))


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


@pytest.mark.parametrize("status", [302, 404])
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
        ("hooks.example/x", "hooks.example/x"),
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
