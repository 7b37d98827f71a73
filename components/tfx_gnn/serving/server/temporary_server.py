"""Starts a server of a model and a graph index in a process of its own, and asks it over HTTP."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import queue
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tfx_gnn.serving.server.temporary_server_process import ANSWER_SECONDS, MODEL_NAME
from tfx_gnn.serving.verification import environment_of_fresh_process

_SCRIPT = Path(__file__).with_name("temporary_server_process.py")
_PACKAGES = (
    "httptools",
    "prometheus_client",
    "starlette",
    "uvicorn",
    *(() if sys.platform == "win32" else ("uvloop",)),
)
_START_SECONDS = 600.0
"""Longest time to import TensorFlow, and to load the model."""
_STOP_SECONDS = 10.0
_SHOWN_CHARACTERS = 2000
_BUSY = (429, 503, 504)
"""Statuses of a server without the time to answer, whatever is asked."""


class RefusedRequestError(Exception):
    """A request that got an error in place of an answer; the message is its status and text."""


class TemporaryServer:
    """A running server; made by `temporary_server`.

    Attributes:
        model_url: where it serves the model.
    """

    def __init__(self, model_url: str, log: IO[bytes]) -> None:
        self.model_url, self._log = model_url, log
        # Without the proxies of the environment: the server is on this machine.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(self, verb: str, instance: object) -> Any:
        """Asks about one instance.

        Args:
            verb: "predict" or "sample".
            instance: one of `instances`, as docs/serve.md describes them.

        Returns:
            What the answer's list holds for the instance, as JSON.

        Raises:
            RefusedRequestError: if the server refuses the request.
            ConnectionError: if it does not answer, or has no time to.
        """
        body = json.dumps({"instances": [instance]}).encode()
        request = urllib.request.Request(f"{self.model_url}:{verb}", body, {"Content-Type": "application/json"})
        try:
            with self._opener.open(request, timeout=ANSWER_SECONDS) as response:
                ((answer,),) = json.load(response).values()
        except urllib.error.HTTPError as error:
            with error:
                refusal = f"{error.code}: {json.load(error)['error']}"
            if error.code in _BUSY:
                raise self._unanswered(refusal, verb, instance) from error
            raise RefusedRequestError(refusal) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unanswered(error, verb, instance) from error
        return answer

    def _unanswered(self, happened: object, verb: str, instance: object) -> ConnectionError:
        return ConnectionError(
            f"The server of the model must answer each request; got {happened} for `:{verb}` of {instance}. Try "
            f"again on an idle machine. The end of its log: {_end_of(self._log)!r}."
        )


def check_server_is_installed(argument: str) -> None:
    """Raises ModuleNotFoundError if packages of the server are missing, which `argument` needs."""
    for name in _PACKAGES:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(
                f"`{argument}` must come with the server's packages; got no {name!r}. Install tfx-gnn "
                "with its extra 'serve'.",
                name=name,
            )


@contextlib.contextmanager
def temporary_server(
    saved_model_dir: str, graph_index_dir: str, *, start_seconds: float = _START_SECONDS
) -> Iterator[TemporaryServer]:
    """Serves a model by the ids of a graph index, on a free port of this machine, until the block ends.

    The process has TensorFlow's default settings, whatever the caller's environment is, and sees no GPU. It also ends
    when this process is killed.

    Args:
        saved_model_dir: folder that holds `saved_model.pb`, on a local disk.
        graph_index_dir: the graph index, on a local disk.
        start_seconds: longest time until it accepts requests.

    Yields:
        The server, which is ready.

    Raises:
        ChildProcessError: if it ends, or is not ready in time; the message has the end of its log.
    """
    command = [sys.executable, "-I", "-W", "ignore", str(_SCRIPT), saved_model_dir, graph_index_dir]
    with (
        tempfile.TemporaryFile("a+b") as log,
        subprocess.Popen(
            command, env=environment_of_fresh_process(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        try:
            url = _url_of(process, log, start_seconds)
            yield TemporaryServer(f"{url}/v1/models/{MODEL_NAME}", log)
        finally:
            _stop(process)


def _url_of(process: subprocess.Popen[bytes], log: IO[bytes], start_seconds: float) -> str:
    """Waits for the line of output that says where the server listens."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(b"http://"):
                lines.put(line.decode().strip())
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    try:
        url = lines.get(timeout=start_seconds)
    except queue.Empty:
        happened = f"no answer within {start_seconds:g} s. Try again on an idle machine."
    else:
        if url:
            return url
        happened = f"exit code {process.wait(_STOP_SECONDS)}. Its log says what to change."
    raise ChildProcessError(f"The server of the model must start; got {happened} The end of its log: {_end_of(log)!r}.")


def _stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _end_of(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace").strip()[-_SHOWN_CHARACTERS:]
