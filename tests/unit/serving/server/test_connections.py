"""Requests that are too large or too slow for their connection; the application behind it answers at once."""

import contextlib
import dataclasses
import functools
import re
import socket
import threading
from typing import Any

import pytest
import uvicorn
from starlette.responses import JSONResponse, Response

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
def connected(first=b"", *, app=ANSWER, max_connections=10, keep_alive_seconds=60, **limits):
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
    config = uvicorn.Config(
        app,
        http=connection,
        log_config=None,
        ws="none",
        lifespan="off",
        loop="uvloop",
        timeout_keep_alive=keep_alive_seconds,
    )
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


async def refuses_bodies(scope, receive, send):
    """An application that answers before a body is read, and then closes, as for one that is too large."""
    answer = JSONResponse({"error": "too large"}, status_code=413, headers={"connection": "close"})
    await answer(scope, receive, send)


async def reads_bodies(scope, receive, send):
    """An application that answers with the length of the body."""
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length, more = length + len(message["body"]), message["more_body"]
    await JSONResponse({"length": length})(scope, receive, send)


def received_until_end(client):
    parts = []
    while part := client.recv(2**20):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("head", [b"Content-Length: 30000000\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_client_that_sends_far_too_much_reads_why(head):
    with connected(b"POST / HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n", app=refuses_bodies) as (client, _):
        # Blocking: what was not read would be answered by a reset, which loses the response.
        for _ in range(300):
            client.sendall(b"0" * 100_000)

        assert received_until_end(client).startswith(b"HTTP/1.1 413")


def test_rest_of_a_refused_body_is_read_within_its_bound():
    endless = POST.replace(b"1000", b"9" * 18)
    with (
        connected(endless, app=refuses_bodies, max_discarded_bytes=2**20) as (client, _),
        pytest.raises(ConnectionError),
    ):
        client.sendall(b"0" * 100_000_000)


def test_rest_of_a_refused_body_is_read_for_some_time_alone():
    with connected(POST, app=refuses_bodies, body_seconds=0.2) as (client, _):
        assert drip(client).startswith(b"HTTP/1.1 413")


def test_megabyte_of_headers_is_answered_although_it_was_sent():
    with connected(HEAD) as (client, reasons):
        client.sendall(b"X: " + b"v" * 2**20)

        assert received_until_end(client).startswith(b"HTTP/1.1 431")
    assert reasons == ["too_large"]


@pytest.mark.parametrize(("count", "status"), [(MAX_HEADERS - 1, 200), (MAX_HEADERS, 431)])
def test_head_is_refused_by_its_number_of_headers(count, status):
    with connected(HEAD + b"X: 1\r\n" * count + b"\r\n") as (client, _):
        assert answer_from(client).startswith(b"HTTP/1.1 %d " % status)


def test_headers_after_a_body_are_dropped():
    seen = []

    async def app(scope, receive, send):
        await reads_bodies(scope, receive, send)
        seen.extend(scope["headers"])

    chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
    with connected(chunked + b"Authorization: late\r\n" * 1000 + b"\r\n", app=app) as (client, _):
        assert answer_from(client).endswith(b'{"length":3}')
        client.sendall(HEAD + b"\r\n")
        answer_from(client)

    assert [name for name, _ in seen] == [b"host", b"transfer-encoding", b"host"]


def test_pipelined_requests_are_answered_in_order():
    requests = b"".join(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (n, b"a" * n) for n in range(9))
    with connected(requests + HEAD + b"Connection: close\r\n\r\n", app=reads_bodies) as (client, _):
        answers = received_until_end(client)

    assert re.findall(rb'{"length":(\d)}', answers) == [b"%d" % number for number in [*range(9), 0]]


def test_many_pipelined_requests_are_refused_after_the_answers_to_the_first():
    with connected((HEAD + b"\r\n") * (MAX_PIPELINED + 100), app=reads_bodies) as (client, reasons):
        answers = received_until_end(client)

    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200"] * (MAX_PIPELINED + 1) + [b"429"]
    assert reasons == ["busy"]


def test_what_is_no_request_is_refused_after_the_answer_to_the_one_before():
    with connected(HEAD + b"\r\nnonsense\r\n\r\n", app=reads_bodies) as (client, reasons):
        answers = received_until_end(client)

    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200", b"400"]
    assert reasons == ["malformed"]


@pytest.mark.parametrize(
    ("before", "statuses"), [(b"", [b"400"]), (HEAD + b"\r\n", [b"200", b"400"])], ids=["alone", "pipelined"]
)
def test_broken_chunk_is_refused_in_its_turn(before, statuses):
    broken = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n"
    with connected(before + broken, app=reads_bodies) as (client, reasons):
        answers = received_until_end(client)

    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == statuses
    assert reasons == ["malformed"]


@pytest.mark.parametrize(
    "request_line",
    [
        b"CONNECT evil.example:80 HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"GET /\xff HTTP/1.1",
        b"G\x00T / HTTP/1.1",
        b"FOO / HTTP/1.1",
        b"GET / HTTP/3.0",
        b"GET  HTTP/1.1",
        b"GET http://[ HTTP/1.1",
    ],
)
def test_odd_request_line_is_answered(request_line):
    with connected(request_line + b"\r\nHost: x\r\nConnection: close\r\n\r\n", app=reads_bodies) as (client, _):
        answer = received_until_end(client)

    assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 3\r\nContent-Length: 4\r\n",
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: -3\r\n",
        b"Content-Length: 3, 3\r\n",
        b"Content-Length: 0x3\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"X: a\r\n folded\r\nContent-Length: 3\r\n",
    ],
)
def test_body_of_no_certain_length_is_refused(headers):
    with connected(b"POST / HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\nabc", app=reads_bodies) as (client, reasons):
        answer = received_until_end(client)

    assert answer.startswith(b"HTTP/1.1 400")
    assert reasons == ["malformed"]


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_other_protocols_are_not_taken(protocol):
    upgrade = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n" % protocol
    with connected(upgrade) as (client, _):
        assert answer_from(client).startswith(b"HTTP/1.1 200")


def test_idle_connections_make_room_for_others():
    with connected(HEAD + b"\r\n", max_connections=5) as (client, _), contextlib.ExitStack() as idle:
        answer_from(client)
        for _ in range(20):
            other = idle.enter_context(socket.create_connection(client.getpeername(), timeout=60))
            other.sendall(HEAD)  # It does not end.
        client.settimeout(60)
        assert client.recv(100) == b""
        last = idle.enter_context(socket.create_connection(client.getpeername(), timeout=60))
        last.sendall(HEAD + b"\r\n")

        assert answer_from(last).startswith(b"HTTP/1.1 200")


def test_connection_that_was_answered_before_its_body_came_is_idle_after_it():
    with connected(POST, keep_alive_seconds=1, max_connections=1) as (client, _):
        answer_from(client)
        client.sendall(b"0" * 1000)
        client.settimeout(30)

        assert client.recv(100) == b""


def test_connection_that_was_answered_before_its_body_came_makes_room_after_it():
    with connected(POST, max_connections=1) as (client, _):
        answer_from(client)
        client.sendall(b"0" * 1000 + HEAD + b"\r\n" + POST)
        answer_from(client)
        client.sendall(b"0" * 1000)
        with socket.create_connection(client.getpeername(), timeout=60) as other:
            other.sendall(HEAD + b"\r\n")

            assert answer_from(other).startswith(b"HTTP/1.1 200")


LARGE = b"0" * 2**25


async def answers_much(scope, receive, send):
    """An application whose answer is larger than what the kernel keeps for a client."""
    await Response(LARGE)(scope, receive, send)


def test_client_that_does_not_read_its_answer_is_left():
    with connected(HEAD + b"\r\n", app=answers_much, body_seconds=0.2) as (client, _):
        # Something is there; the rest was dropped with the connection.
        received = client.recv(1)
        threading.Event().wait(1.0)
        with contextlib.suppress(ConnectionResetError):
            received += received_until_end(client)

    assert 0 < len(received) < len(LARGE)


def test_client_that_reads_its_answer_gets_all_of_it():
    with connected(HEAD + b"Connection: close\r\n\r\n", app=answers_much, body_seconds=0.2) as (client, _):
        received = b""
        while part := client.recv(2**20):
            received += part
            threading.Event().wait(0.01)

    assert received.endswith(b"\r\n\r\n" + LARGE)
