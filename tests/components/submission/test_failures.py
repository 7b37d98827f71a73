from __future__ import annotations

import socket

import pytest
import requests
import urllib3

from tfx_gnn_pipelines.submission.failures import Remedies, parse_retry_after, transport_error

REMEDIES = Remedies(flag="--host", login="Log in.", permission="Ask.", lookup="Look.", certificate="Trust it.")


@pytest.fixture
def silent():
    """Address of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def _by_requests(address):
    with requests.Session() as session:
        session.get(address, timeout=0.05)


def _by_urllib3(address):
    with urllib3.PoolManager(retries=urllib3.Retry(total=0)) as pool:
        pool.request("GET", address, timeout=0.05)


@pytest.mark.parametrize("ask", [_by_requests, _by_urllib3])
def test_a_server_that_says_nothing_may_have_accepted(silent, ask):
    with pytest.raises((OSError, urllib3.exceptions.HTTPError)) as failed:
        ask(silent)

    error = transport_error(failed.value, place=f"POST {silent}", remedies=REMEDIES, hide=str)
    assert str(error).startswith(f"`--host` must answer in time; got no answer from POST {silent}.")
    assert (error.is_unanswered, error.may_be_accepted, error.is_unreachable) == (True, True, False)


@pytest.mark.parametrize("ask", [_by_requests, _by_urllib3])
@pytest.mark.parametrize(
    ("address", "told", "is_transient"),
    [
        ("http://no-such-host.invalid", "must have a host name that can be resolved", True),
        ("http://127.0.0.1:1", "must be an address where a service listens", True),
    ],
)
def test_a_request_that_never_left_was_not_accepted(ask, address, told, is_transient):
    with pytest.raises((OSError, urllib3.exceptions.HTTPError)) as failed:
        ask(address)

    error = transport_error(failed.value, place=address, remedies=REMEDIES, hide=str)
    assert told in str(error)
    assert (error.is_unreachable, error.may_be_accepted, error.is_transient) == (True, False, is_transient)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("", None),
        ("7", 7.0),
        (" 0 ", 0.0),
        ("soon", None),
        ("-3", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(text, seconds):
    assert parse_retry_after(text) == seconds
