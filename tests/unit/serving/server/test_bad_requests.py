"""Requests that are refused: their status, their message, and a server that goes on answering."""

import base64
import contextlib
import json
import socket
import struct
import threading

import pytest

PREDICT, INFER = "/v1/models/toy:predict", "/v2/models/toy/infer"
JSON = {"Content-Type": "application/json"}
HEADER = "Inference-Header-Content-Length"
GARBAGE = base64.b64encode(b"\x0agarbage").decode()
NO_X = base64.b64encode(b"").decode()


def graph(**changes):
    parts = {"node_sets": {"item": {"x": [1.0, 2.0]}}, "readout": {"seed": 0}, **changes}
    return {"instances": [{name: part for name, part in parts.items() if part is not None}]}


def tensor(**changes):
    whole = {"name": "examples", "shape": [1], "datatype": "BYTES", "data": [{"b64": GARBAGE}], **changes}
    return {"inputs": [{name: value for name, value in whole.items() if value is not None}]}


def binary(size, data, shape=(1,)):
    parameters = {"binary_data_size": size}
    return json.dumps(tensor(shape=list(shape), data=None, parameters=parameters)).encode() + data


def head_length(size):
    return len(binary(size, b""))


POSTS = {
    "no body": (PREDICT, b"", 400, "must be JSON"),
    "half of JSON": (PREDICT, b'{"instances": [', 400, "must be JSON.*char 15"),
    "bytes that are not UTF-8": (PREDICT, b"\xff\xfe\xfd{", 400, "must be JSON in UTF-8"),
    "JSON of many levels": (PREDICT, b"[" * 50_000, 400, "must be JSON.*levels"),
    "a number of many digits": (PREDICT, b'{"instances": ' + b"9" * 5000 + b"}", 400, "must be"),
    "a list": (PREDICT, [1], 400, "must be a JSON object"),
    "no field": (PREDICT, {}, 400, "'instances' or 'inputs'"),
    "both forms": (PREDICT, {"instances": [], "inputs": []}, 400, "'instances' or 'inputs'"),
    "an unknown field": (PREDICT, {"instances": [], "instance": 1}, 400, "'instances' or 'inputs'"),
    "instances that are no list": (PREDICT, {"instances": {"b64": GARBAGE}}, 400, "`instances` must be a list"),
    "no instance": (PREDICT, {"instances": []}, 400, "1 to 4 examples; got 0. It is empty: ask about at least one"),
    "too many instances": (PREDICT, {"instances": [{"b64": GARBAGE}] * 5}, 400, "1 to 4 examples; got 5. Split it"),
    "an id to sample without a graph": ("/v1/models/toy:sample", {"instances": [{"id": "x"}]}, 400, "no graph index"),
    "a plain text": (PREDICT, {"instances": ["abc"]}, 400, r"`instances\[0\]` must be .*b64"),
    "a number": (PREDICT, {"instances": [7]}, 400, r"`instances\[0\]` must be .*got 7"),
    "null": (PREDICT, {"instances": [None]}, 400, r"`instances\[0\]` must be .*None"),
    "an id under a name of its own": (
        PREDICT,
        {"instances": [{"user": "u1"}]},
        400,
        r"must have `b64`.* parts of a graph, node_sets, .*user.* finds no ids: .* with `--graph-index-dir`",
    ),
    "what is not base64": (PREDICT, {"instances": [{"b64": "?*"}]}, 400, r"`instances\[0\]\.b64` must be base64"),
    "base64 of padding alone": (PREDICT, {"instances": [{"b64": "="}]}, 400, r"got '=' \(1 characters, no multiple"),
    "base64 that is no text": (PREDICT, {"instances": [{"b64": 1}]}, 400, r"`instances\[0\]` must be a text or"),
    "garbage": (PREDICT, {"instances": [{"b64": GARBAGE}]}, 400, "`examples` must hold graph tf.Examples"),
    "an empty example": (PREDICT, {"instances": [{"b64": NO_X}]}, 400, "."),
    "a signature that is no text": (PREDICT, {"signature_name": 1, "instances": []}, 400, "must be a text"),
    "an unknown signature": (
        PREDICT,
        {"signature_name": "other", "instances": [{"b64": GARBAGE}]},
        400,
        r"`signature_name` must be one of \['serving_default'\]; got 'other'",
    ),
    "an unknown input": (PREDICT, {"inputs": {"example": [{"b64": GARBAGE}]}}, 400, "`inputs` must be a list, or"),
    "a graph with an unknown part": (PREDICT, graph(nodes={}), 400, "got 'nodes'. Did you mean 'node_sets'"),
    "a graph with an unknown set": (PREDICT, graph(node_sets={"itme": {}}), 400, "got 'itme'. Did you mean 'item'"),
    "a graph with an unknown feature": (
        PREDICT,
        graph(node_sets={"item": {"y": []}}),
        400,
        r"`instances\[0\].node_sets.item` must have keys among .*'y'",
    ),
    "a graph without a feature": (
        PREDICT,
        graph(node_sets={"item": {"#id": ["a"]}}),
        400,
        r"`instances\[0\].node_sets.item` must have feature 'x'",
    ),
    "a graph with texts for numbers": (
        PREDICT,
        graph(node_sets={"item": {"x": ["1"]}}),
        400,
        r"`instances\[0\].node_sets.item.x` must hold a number .*'1'",
    ),
    "a graph with a huge number": (PREDICT, graph(node_sets={"item": {"x": [1e300]}}), 400, "range of float32"),
    "a graph without readout": (PREDICT, graph(readout=None), 400, r"`instances\[0\].readout` must have 'seed'"),
    "a graph whose seed is no node": (PREDICT, graph(readout={"seed": 2}), 400, "one of the 2 nodes of 'item'; got 2"),
    "a graph whose seed is a text": (PREDICT, graph(readout={"seed": "0"}), 400, "got '0'"),
    "a graph of two seeds": (
        PREDICT,
        graph(readout={"seed": [0, 1]}),
        400,
        r"readout.seed` must be .* one node; got \[0, 1\]",
    ),
    "no tensor": (INFER, {"inputs": []}, 400, "`inputs` must be a list of one tensor"),
    "an id without a graph index": (
        PREDICT,
        {"instances": [{"id": "w"}]},
        400,
        r"`instances\[0\].id` .* no graph index",
    ),
    "a tensor of ids without a graph index": (
        INFER,
        tensor(name="ids"),
        400,
        r"`inputs\[0\].data\[0\]` .* no graph index",
    ),
    "an unknown tensor": (INFER, tensor(name="id"), 400, r"`inputs\[0\].name` must be one of"),
    "a tensor of floats": (INFER, tensor(datatype="FP32", data=[1.0]), 400, r"`inputs\[0\].datatype` must be 'BYTES'"),
    "a tensor of another shape": (INFER, tensor(shape=[2]), 400, r"`inputs\[0\].shape` must be \[1\]"),
    "a negative shape": (INFER, tensor(shape=[-1]), 400, r"`inputs\[0\].shape` must be \[n\]"),
    "a tensor without data": (INFER, tensor(data=None), 400, r"`inputs\[0\].data` must be a list"),
    "an unknown output": (PREDICT, {"instances": [{"b64": GARBAGE}], "outputs": ["x"]}, 400, "'instances' or"),
    "an output without a name": (INFER, {**tensor(), "outputs": [{}]}, 400, r"`outputs\[0\].name` must be"),
    "parameters that are no object": (INFER, {**tensor(), "parameters": 3}, 400, "`parameters` must be a JSON object"),
    "half a surrogate pair as id": (
        INFER,
        {**tensor(), "id": "\ud800"},
        400,
        r"`id` must be a Unicode text; got '.ud800'",
    ),
    "half a surrogate pair as a key": (PREDICT, graph(readout={"\ud800": 0}), 400, r"got '.ud800'"),
    "an unknown model": ("/v1/models/other:predict", {}, 404, "must be 'toy'; got 'other'"),
    "an unknown version": ("/v1/models/toy/versions/9:predict", {}, 404, r"must be one of \[3\]; got '9'"),
    "a version that is no number": ("/v2/models/toy/versions/x/infer", {}, 404, r"must be one of \[3\]; got 'x'"),
    "an unknown verb": ("/v1/models/toy:classify", {}, 404, "path must be one of those at /docs"),
    "a path with dots": ("/v1/models/../../etc/passwd", {}, 404, "path must be"),
    "JSON of 90,000 open brackets": (PREDICT, b'{"instances":' + b"[" * 90_000, 400, "levels of brackets, 90001, more"),
    "brackets in a text": (PREDICT, {"instances": ["[" * 500 + '\\"' + "{" * 500]}, 400, r"`instances\[0\]` must be"),
    "a key that is there twice": (PREDICT, b'{"instances": [], "a": 1, "a": 2}', 400, "key 'a' is there twice"),
    "a long key": (PREDICT, graph(**{"k" * 1001: 0}), 400, "a key of 1001 characters, more than 1000"),
    "JSON in UTF-16": (PREDICT, '{"instances": []}'.encode("utf-16"), 400, "must be JSON in UTF-8"),
    "many outputs": (INFER, {**tensor(), "outputs": [{}] * 1001}, 400, "`outputs` must be at most 1000; got 1001"),
    "a tensor of many dimensions": (INFER, tensor(shape=[1] * 3), 400, r"`inputs\[0\].shape` must be \[n\]"),
    "many instances of an unknown kind": (PREDICT, {"instances": [0] * 5}, 400, "1 to 4 examples; got 5"),
    "many values of a column": (PREDICT, {"inputs": {"ids": [0] * 5}}, 400, "1 to 4 examples; got 5"),
    "many values of a tensor": (INFER, tensor(shape=[5], data=[0] * 5), 400, "1 to 4 examples; got 5"),
    "a set of very many nodes": (PREDICT, graph(node_sets={"_readout": {"#size": 2**31 - 1}}), 400, "at most 100000"),
    "too large a body": (PREDICT, b" " * 100_001, 413, "at most 100000 bytes"),
}


@pytest.mark.parametrize("case", POSTS)
def test_post_is_refused(toy_server, toy_records, case):
    path, body, status, message = POSTS[case]

    reply = toy_server.ask("POST", path, body)

    assert reply.status == status
    assert_matches(reply.json["error"], message)
    assert_answers(toy_server, toy_records)


def assert_matches(text, pattern):
    with pytest.raises(ValueError, match=pattern):
        raise ValueError(text)


def assert_answers(server, toy_records):
    record = base64.b64encode(toy_records["test"][0]).decode()
    assert server.ask("POST", PREDICT, {"instances": [{"b64": record}]}).json["predictions"][0]["label"] == "red"


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", PREDICT, 405, "must be POST; got GET"),
        ("DELETE", "/v1/models/toy", 405, "must be GET or HEAD; got DELETE"),
        ("PUT", INFER, 405, "must be POST; got PUT"),
        ("GET", "/", 404, "got '/'"),
        ("GET", "/v2/models/other", 404, "got 'other'"),
        ("GET", "/v2/models/toy/versions/4/ready", 404, r"one of \[3\]; got '4'"),
    ],
)
def test_method_or_path_is_refused(toy_server, method, path, status, message):
    reply = toy_server.ask(method, path)

    assert reply.status == status
    assert_matches(reply.json["error"], message)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"Content-Type": "text/xml"}, "must be application/json.*got 'text/xml'"),
        ({"Content-Type": "application/octet-stream"}, "got 'application/octet-stream'"),
        ({"Content-Encoding": "gzip"}, "must be identity; got 'gzip'"),
    ],
)
def test_type_of_body_is_refused(toy_server, headers, message):
    reply = toy_server.ask("POST", INFER, tensor(), headers)

    assert reply.status == 415
    assert_matches(reply.json["error"], message)


@pytest.mark.parametrize(
    ("length", "body", "message"),
    [
        ("abc", b"{}", r"length` must be a number of bytes in \[0, 2\]; got 'abc'"),
        ("3", b"{}", r"length` must be a number of bytes in \[0, 2\]; got '3'"),
        (head_length(9), binary(9, b"1234"), r"binary_data_size` must be a number of bytes in \[0, 4\]; got 9"),
        (head_length(3), binary(3, b"123"), "end within element 0"),
        (head_length(8), binary(8, struct.pack("<I", 2**32 - 1) + b"1234"), "end within element 0"),
        (head_length(4), binary(4, struct.pack("<I", 0) + b"1"), "all bytes after the JSON; got 5 bytes for 4"),
        (head_length(8), binary(8, bytes(8)), r"shape` must be \[2\]"),
    ],
)
def test_binary_tensor_is_refused(toy_server, length, body, message):
    reply = toy_server.ask("POST", INFER, body, {HEADER: str(length)})

    assert reply.status == 400
    assert_matches(reply.json["error"], message)


def test_chunks_beyond_the_limit_are_refused(toy_server, toy_records):
    with contextlib.closing(toy_server.connect()) as connection:
        connection.request("POST", PREDICT, iter([b" " * 60_000] * 2), JSON, encode_chunked=True)

        assert connection.getresponse().status == 413
    assert_answers(toy_server, toy_records)


@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"])
def test_bytes_that_are_no_http_are_refused(toy_server, toy_records, sent):
    with socket.create_connection(("127.0.0.1", toy_server.port), timeout=60) as connection:
        connection.sendall(sent)

        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    assert_answers(toy_server, toy_records)


def test_client_that_leaves_within_its_body_is_forgotten(toy_server, toy_records):
    with half_of_a_request(toy_server):
        pass

    assert_answers(toy_server, toy_records)


@contextlib.contextmanager
def half_of_a_request(server):
    """A request whose body does not end."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(
            f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
            + b"Content-Length: 100\r\n\r\n{"
        )
        yield connection


@pytest.fixture
def toy_version(make_version, tmp_path):
    """A folder of one version."""
    make_version(str(tmp_path), 1)
    return str(tmp_path)


def test_limits_on_time_and_concurrency(serve, make_version, tmp_path, toy_records):
    make_version(str(tmp_path), 1)
    body = {"instances": [{"b64": base64.b64encode(toy_records["test"][0]).decode()}]}
    late = []
    # A request waits 60 s for others, but must be answered within a second.
    options = {"max_requests": 1, "timeout_seconds": 1.0, "body_seconds": 0.2, "max_delay_ms": 60_000.0}
    with serve(str(tmp_path), **options) as client:
        with half_of_a_request(client) as connection:
            slow = connection.recv(1000)
        asking = threading.Thread(target=lambda: late.append(client.ask("POST", PREDICT, body)))
        asking.start()
        while asking.is_alive() and not client.server.metrics.pending_requests._value.get():
            pass
        busy = client.ask("POST", PREDICT, body)
        asking.join()
        healthy = client.ask("GET", "/v2/health/ready")

    assert slow.startswith(b"HTTP/1.1 408")
    assert b"body must arrive within 0.2 s" in slow
    assert (late[0].status, late[0].headers["retry-after"]) == (504, "1")
    assert_matches(late[0].json["error"], "ready within 1.0 s")
    assert (busy.status, busy.headers["retry-after"]) == (429, "1")
    assert_matches(busy.json["error"], "room for a request; got 1 requests, of 1")
    assert healthy.status == 200


def test_slow_bodies_keep_nobody_out(serve, make_version, tmp_path, toy_records):
    make_version(str(tmp_path), 1)
    with serve(str(tmp_path), max_requests=1, max_delay_ms=0.0) as client, contextlib.ExitStack() as slow:
        for _ in range(20):
            slow.enter_context(half_of_a_request(client))
        while client.server.metrics.pending_bytes._value.get() < 20:
            pass

        assert_answers(client, toy_records)
        assert client.server.metrics.pending_requests._value.get() == 0


@pytest.mark.parametrize(("young_seconds", "statuses"), [(60.0, (429, 408)), (0.0, (400, 429))])
def test_bodies_that_arrive_slowly_make_room(serve, toy_version, monkeypatch, young_seconds, statuses):
    monkeypatch.setattr("tfx_gnn.serving.server.admission._YOUNG_SECONDS", young_seconds)
    options = {"max_body_bytes": 1000, "max_pending_bytes": 1000, "body_seconds": 1.0}
    with serve(toy_version, **options) as client, half_of_a_request(client) as slow:
        while not client.server.metrics.pending_bytes._value.get():
            pass
        fast = client.ask("POST", PREDICT, b" " * 1000)
        answer = slow.recv(1000)

    assert (fast.status, int(answer.split()[1])) == statuses
