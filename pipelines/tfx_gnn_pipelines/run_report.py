"""Reports how a run ended: the container of a pipeline's exit handler."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import sys
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from tfx_gnn_pipelines.container import read_executor_input

VARIABLE_SCHEME = "variable:"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ATTEMPTS = 5
_TIMEOUT_SECONDS = (10, 30)
_BUSY = (429, 500, 502, 503, 504)
_LONGEST_ERROR = 2000
"""Characters of a message that are sent; some chat services refuse a post of more than a few thousand."""
_STATES = {"COMPLETE": "SUCCEEDED", "CACHED": "SUCCEEDED", "CANCELED": "CANCELLED"}
"""Other names of the same states, of Kubeflow Pipelines that keep their records in ML Metadata."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunReport:
    """How a run ended.

    Attributes:
        pipeline: name of the pipeline.
        run: the service's name of the run.
        state: "SUCCEEDED", "FAILED" or "CANCELLED".
        error: the service's message; empty if the run succeeded.
    """

    pipeline: str
    run: str
    state: str
    error: str

    @property
    def text(self) -> str:
        """The report in one line."""
        return f"{self.pipeline}: {self.state}{f': {self.error}' if self.error else ''} (run {self.run})"

    def to_json(self) -> dict[str, str]:
        """Returns the report as it is sent, with a long error shortened; chat services show `text`."""
        more = len(self.error) - _LONGEST_ERROR
        error = f"{self.error[:_LONGEST_ERROR]} ... ({more} more characters in the log)" if more > 0 else self.error
        short = dataclasses.replace(self, error=error)
        return {"text": short.text, **dataclasses.asdict(short)}


def check_address(address: str) -> None:
    """Checks where a report is sent to.

    Args:
        address: an address that begins with https:// or http://, or `variable:NAME` for one that the environment
            variable NAME of the container has.

    Raises:
        ValueError: if it is neither.
    """
    if address.startswith(VARIABLE_SCHEME):
        is_right = _VARIABLE.fullmatch(address.removeprefix(VARIABLE_SCHEME)) is not None
    else:
        is_right = _is_web_address(address)
    if not is_right:
        raise ValueError(
            f"`report_to` must be https://HOST/PATH, or variable:NAME for an address that an environment variable of "
            f"RunReport has; got {_without_secrets(address)!r}. Correct the address."
        )


def read_report(executor_input: Mapping[str, Any]) -> RunReport:
    """Reads what a service says of a run.

    Args:
        executor_input: the ExecutorInput message as JSON.

    Raises:
        ValueError: if it has no status.
    """
    values = _parameter_values(executor_input)
    status = _object(values.get("status"))
    if not status.get("state"):
        raise ValueError(
            "`executor-input` must have the final status of the tasks; got none. Use Kubeflow Pipelines 2.14 or later, "
            "or compile the pipeline without --report-to."
        )
    state = _line(status["state"])
    state = _STATES.get(state, state)
    found = status.get("error")
    error = _line(found if isinstance(found, str) else _object(found).get("message"))
    return RunReport(
        pipeline=_line(values.get("pipeline")),
        run=_line(status.get("pipelineJobResourceName")),
        state=state,
        error="" if state == "SUCCEEDED" else error,
    )


def send_report(report: RunReport, address: str) -> None:
    """Posts a report as JSON; a request that fails may have arrived, and is sent again.

    Raises:
        ValueError: if `address` is none.
        ConnectionError: if there is no answer, or one that refuses the report.
    """
    check_address(address)
    if address.startswith(VARIABLE_SCHEME):
        name = address.removeprefix(VARIABLE_SCHEME)
        address = os.environ.get(name, "").strip()
        if not _is_web_address(address):
            raise ValueError(
                f"`report_to` must name an environment variable with an address that begins with https://; got "
                f"{'another value' if address else 'nothing'} in {name}. Set it in --resources: `environment` or "
                f"`secrets` of RunReport."
            )
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry
    from urllib3.exceptions import HTTPError

    # How long to wait is not left to the server.
    retry = Retry(
        total=_ATTEMPTS - 1,
        redirect=0,
        backoff_factor=1,
        status_forcelist=_BUSY,
        allowed_methods=None,
        raise_on_status=False,
        respect_retry_after_header=False,
    )
    host = urllib.parse.urlsplit(address).hostname
    try:
        with requests.Session() as session:
            session.mount("https://", HTTPAdapter(max_retries=retry))
            session.mount("http://", HTTPAdapter(max_retries=retry))
            # The body of the answer is not read, however long it is.
            with session.post(
                address, json=report.to_json(), timeout=_TIMEOUT_SECONDS, allow_redirects=False, stream=True
            ) as answer:
                code = answer.status_code
    # Beside those of requests, which are OSErrors: if REQUESTS_CA_BUNDLE names no file, or the host cannot be a name.
    except (OSError, HTTPError, UnicodeError) as error:
        # Its text has the address, which may be a secret.
        raise ConnectionError(
            f"`report_to` must be an address that can be reached; got no answer from {host}: {type(error).__name__}. "
            "Check the address, and whether containers of the service reach it."
        ) from None
    if not 200 <= code < 300:
        raise ConnectionError(
            f"`report_to` must be an address that takes the report; got the answer {code} from {host}. "
            "Check the address."
        )


def main(arguments: Sequence[str]) -> int:
    """Prints how the run ended, and sends it to the run's parameter `report_to`, unless that is empty."""
    parser = argparse.ArgumentParser(prog="python -m tfx_gnn_pipelines.run_report", description=main.__doc__)
    parser.add_argument("--executor-input", required=True, help="the service's message, as JSON")
    given = parser.parse_args(arguments)
    try:
        message = read_executor_input(given.executor_input)
        report = read_report(message)
        sys.stdout.write(report.text + "\n")
        sys.stdout.flush()
        address = str(_parameter_values(message).get("report_to") or "")
        if address:
            send_report(report, address)
            sys.stdout.write("The report was sent.\n")
    except (ValueError, ConnectionError) as error:
        sys.stdout.write(f"run_report failed: {type(error).__name__}: {error}\n")
        return 1
    return 0


def _parameter_values(executor_input: Mapping[str, Any]) -> dict[str, Any]:
    return _object(_object(executor_input.get("inputs")).get("parameterValues"))


def _object(value: Any) -> dict[str, Any]:
    """Returns an object, also one that is sent as JSON text; an empty one for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _line(value: Any) -> str:
    """Returns a text in one line, which can be written in UTF-8; "" for null."""
    text = "" if value is None else str(value)
    return " ".join(text.encode("utf-8", "replace").decode().split())


def _is_web_address(address: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(address)
        # The port is checked when it is read.
        is_whole = parts.scheme in ("https", "http") and bool(parts.hostname) and parts.port != 0
        return is_whole and not re.search(r"[\s\x00-\x1f]", address)
    except ValueError:
        return False


def _without_secrets(address: str) -> str:
    """Shortens an address to its scheme and host."""
    # Somebody may have written one slash, or no scheme.
    scheme, rest = re.fullmatch(r"([\w:+.-]*:/{1,2})?(.*)", address, re.DOTALL).groups(default="")  # type: ignore[union-attr]
    authority, *more = re.split("[/?#]", rest, maxsplit=1)
    host = authority.rpartition("@")[2]
    return f"{scheme}{host}{'/...' if more else ''}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
