"""A server that stops."""

import asyncio
import base64
import contextlib
import json
import threading

import pytest

from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.process import ServerProcess

PREDICT = "/v1/models/toy:predict"


def test_requests_in_flight_are_answered_before_the_end(serve, make_version, toy_records, tmp_path):
    make_version(str(tmp_path), 1)
    body = json.dumps({"instances": [{"b64": base64.b64encode(toy_records["test"][0]).decode()}]}).encode()
    replies = []
    # A request waits 0.5 s for others: longer than the server accepts new ones.
    with serve(str(tmp_path), max_delay_ms=500.0) as client:
        asking = threading.Thread(target=lambda: replies.append(client.ask("POST", PREDICT, body)))
        asking.start()
        while not client.server.metrics.queued_requests._value.get():
            pass
        client.stop(drain_seconds=0.1)
        asking.join()

    assert replies[0].status == 200
    assert replies[0].json["predictions"][0]["label"] == "red"


def test_server_that_drains_is_not_ready_but_answers_and_closes_connections(serve, make_version, tmp_path):
    make_version(str(tmp_path), 1)
    with serve(str(tmp_path)) as client, contextlib.closing(client.connect()) as connection:
        connection.request("GET", "/v2/health/ready")
        before = connection.getresponse()
        before.read()
        client.stop(drain_seconds=60.0)
        while not client.server.is_draining:
            pass

        connection.request("GET", "/v2/health/ready")
        after = connection.getresponse()
        replies = [
            client.ask("GET", path).status for path in ("/v2/health/live", "/v2/models/toy/ready", "/v2/models/toy")
        ]

        assert (before.status, after.status) == (200, 503)
        assert after.getheader("connection") == "close"
        assert replies == [200, 503, 200]


def test_address_that_is_taken_is_an_error_that_names_it(toy_server):
    options = ServerOptions(port=toy_server.port)

    with pytest.raises(OSError, match=f"must be a free address of this machine; got '127.0.0.1' and {toy_server.port}"):
        asyncio.run(ServerProcess(toy_server.server, options, print).serve())
