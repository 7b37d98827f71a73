"""Requests that are too large or too slow for their connection; the application behind it answers at once."""

import contextlib
import dataclasses
import functools
import socket
import threading
from typing import Any

import pytest
import uvicorn
from starlette.responses import JSONResponse

from tfx_gnn.serving.server.connections import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    MAX_PIPELINED,
    BoundedConnection,
    ConnectionLimits,
)
from tfx_gnn.serving.server.open_connections import OpenConnections

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"


LIMITS = ConnectionLimits(head_seconds=60.0, body_seconds=60.0, max_discarded_bytes=2**25)
ANSWER = JSONResponse({"ready": True})


@contextlib.contextmanager
def connected(first=b"", *, app=ANSWER, max_connections=10, **limits):
    """A connection to a server in a thread, and the reasons of its refusals; it starts when `first` is sent."""
    reasons = []

    def refused(refusal):
        reasons.append(refusal.reason)
        return JSONResponse({"error": refusal.message}, status_code=refusal.status)

    connection: Any = functools.partial(
        BoundedConnection,
        limits=dataclasses.replace(LIMITS, **limits),
        others=OpenConnections(max_connections=max_connections, max_client_connections=max_connections),
        refused=refused,
    )
    config = uvicorn.Config(app, http=connection, log_config=None, ws="none", lifespan="off", loop="uvloop")
    server = uvicorn.Server(config)
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname(), timeout=60) as client,
    ):
        client.sendall(first)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield client, reasons
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


def answer_from(client):
    received = b""
    while not received.endswith(b"}"):
        received += client.recv(2**16)
    return received


def drip(client):
    """Sends a byte now and then until the server closes, and returns what it answered."""
    client.settimeout(0.05)
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while True:
            with contextlib.suppress(TimeoutError):
                part = client.recv(2**16)
                if not part:
                    break
                received += part
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(b"x")
    return received


def test_megabyte_of_headers_is_refused_before_it_ends():
    with connected(HEAD) as (client, reasons):
        # The server closes before everything is sent.
        with contextlib.suppress(ConnectionError):
            for number in range(1024):
                client.sendall(b"X-%d: %s\r\n" % (number, b"v" * 1016))
        drip(client)

        assert reasons == ["too_large"]


@pytest.mark.parametrize(("num_bytes", "status"), [(MAX_HEAD_BYTES // 2, 200), (MAX_HEAD_BYTES, 431)])
def test_head_is_refused_by_its_size(num_bytes, status):
    with connected(HEAD + b"X: " + b"v" * num_bytes + b"\r\n\r\n") as (client, _):
        assert answer_from(client).startswith(b"HTTP/1.1 %d " % status)


def test_head_that_does_not_end_is_refused_in_time_even_if_bytes_keep_coming():
    with connected(HEAD, head_seconds=0.3) as (client, reasons):
        received = drip(client)

    assert received.startswith(b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n")
    assert b"A request's head must arrive within 0.3 s; got a part of it." in received
    assert reasons == ["slow_request"]


def test_body_that_is_not_read_does_not_hold_the_connection():
    with connected(POST, body_seconds=0.3) as (client, reasons):
        received = drip(client)

    assert received.startswith(b"HTTP/1.1 200 OK")
    assert reasons == []


def test_connection_without_a_request_is_closed():
    with connected(head_seconds=0.1) as (client, reasons):
        assert client.recv(100) == b""
        assert reasons == []


def test_connection_is_used_again():
    with connected(HEAD + b"\r\n") as (client, _):
        answers = [answer_from(client)]
        client.sendall(HEAD + b"\r\n")
        answers.append(answer_from(client))

    assert [answer.startswith(b"HTTP/1.1 200 OK") for answer in answers] == [True, True]
