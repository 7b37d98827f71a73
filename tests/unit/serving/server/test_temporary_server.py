"""Servers that are started for a while; the processes are scripts here."""

import http.server
import importlib.util
import io
import textwrap
import threading

import pytest

from tfx_gnn.serving.server import temporary_server as module
from tfx_gnn.serving.server.temporary_server import (
    RefusedRequestError,
    TemporaryServer,
    check_server_is_installed,
    temporary_server,
)


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Runs other code as the process of the server."""

    def write(text):
        path = tmp_path / "server.py"
        path.write_text(textwrap.dedent(text))
        monkeypatch.setattr(module, "_SCRIPT", path)

    return write


def test_instances_are_asked_without_proxies(items_server, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server = TemporaryServer(f"http://127.0.0.1:{items_server.port}/v1/models/toy", io.BytesIO())

    assert server.ask("predict", {"id": "x"})["label"] == "blue"
    assert list(server.ask("sample", {"id": "x"})) == ["b64"]
    with pytest.raises(RefusedRequestError, match=r"404: `instances\[0\].id` must be the id of a node"):
        server.ask("sample", {"id": "q"})


def test_server_that_is_gone_is_an_error_with_its_log():
    log = io.BytesIO(b"out of memory")
    server = TemporaryServer("http://127.0.0.1:9/v1/models/toy", log)

    with pytest.raises(
        ConnectionError, match=r"must answer each request; got .*refused.* end of its log: 'out of memo"
    ):
        server.ask("predict", {"id": "x"})


def test_server_without_time_is_an_error_and_no_refusal():
    class Busy(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(504)
            self.end_headers()
            self.wfile.write(b'{"error": "The response must be ready within 300 s"}')

        def log_message(self, *words):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Busy) as busy:
        threading.Thread(target=busy.handle_request).start()
        server = TemporaryServer(f"http://127.0.0.1:{busy.server_port}/v1/models/toy", io.BytesIO())
        with pytest.raises(ConnectionError, match=r"got 504: The response must .* for `:predict` .*an idle machine"):
            server.ask("predict", {"id": "x"})


def test_process_gets_the_folders_and_ends_with_the_block(script, tmp_path):
    ended = tmp_path / "ended"
    script(f"""
        import pathlib, sys
        print("some library's words")
        print("http://127.0.0.1:5/" + "/".join(sys.argv[1:]), flush=True)
        sys.stdin.read()
        pathlib.Path({str(ended)!r}).write_text("so")
    """)

    with temporary_server("model", "index") as server:
        assert server.model_url == "http://127.0.0.1:5/model/index/v1/models/model"
        assert not ended.exists()

    assert ended.exists()


def test_process_that_ends_is_an_error_with_the_end_of_its_log(script):
    script("raise SystemExit('x' * 5000 + ' the index is damaged')")

    with (
        pytest.raises(
            ChildProcessError, match=r"must start; got exit code 1\. .* end of its log: 'x{1900,} the index is damaged'"
        ),
        temporary_server("model", "index"),
    ):
        pass


def test_process_that_is_not_ready_in_time_is_an_error(script):
    script("import sys; sys.stdin.read()")

    with (
        pytest.raises(ChildProcessError, match=r"must start; got no answer within 0\.1 s\. Try again on an idle"),
        temporary_server("model", "index", start_seconds=0.1),
    ):
        pass


@pytest.mark.parametrize("package", ["uvicorn", "uvloop"])
def test_missing_packages_are_named_with_their_extra(monkeypatch, package):
    find = importlib.util.find_spec
    check_server_is_installed("graph_index_dir")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))

    with pytest.raises(ModuleNotFoundError, match=rf"`graph_index_dir` must .*'{package}'.* extra 'serve'"):
        check_server_is_installed("graph_index_dir")
