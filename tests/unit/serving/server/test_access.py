"""Requests from other sites, under other names and without tokens."""

import contextlib
import logging
import re
import socket

import pytest
from starlette.routing import Route

from tfx_gnn.serving.server.access import Access
from tfx_gnn.serving.server.options import ServerOptions

PREDICT, INFER, ADD = "/v1/models/toy:predict", "/v2/models/toy/infer", "/v1/graph:add"
ASKED = {"instances": [{"id": "w"}]}
ROWS = {"nodes": {"item": {"#id": ["v"], "x": [2.5]}}}
READER, WRITER, ADMIN = (f"{name}-0123456789abcdefghijklmnopqrstuv" for name in ("read", "write", "admin"))
HEALTH = ["/v2/health/live", "/v2/health/ready", "/v2/models/toy/ready"]


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def token_server(serve, items_model_dir, items_index, tmp_path_factory):
    """A server of a graph, without an overlay, that wants tokens."""
    path = tmp_path_factory.mktemp("tokens") / "tokens"
    path.write_text(f"read {READER}\nwrite {WRITER}\nadmin {ADMIN}\n")
    path.chmod(0o600)
    options = {"token_file": str(path), "access_log": True, "max_delay_ms": 0.0}
    with serve(items_model_dir, index=items_index, **options) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "body", "role"),
    [
        ("POST", PREDICT, ASKED, READER),
        ("POST", "/v1/models/toy/versions/1:predict", ASKED, READER),
        ("POST", "/v1/models/toy:sample", ASKED, READER),
        ("GET", "/v1/models/toy", None, READER),
        ("GET", "/v1/models/toy/metadata", None, READER),
        ("GET", "/v2", None, READER),
        ("GET", "/v2/models/toy", None, READER),
        ("GET", "/v1/graph", None, READER),
        ("GET", "/docs", None, READER),
        ("GET", "/openapi.json", None, READER),
        ("GET", "/metrics", None, ADMIN),
        ("POST", ADD, ROWS, WRITER),
    ],
)
def test_each_route_takes_the_tokens_of_its_role_alone(token_server, method, path, body, role):
    # The server has no overlay: what may be written is refused for that.
    allowed = (200,) if role != WRITER else (403,)
    replies = {token: token_server.ask(method, path, body, bearer(token)) for token in (READER, WRITER, ADMIN)}

    assert replies[role].status in allowed
    assert role != WRITER or "without an overlay" in replies[role].json["error"]
    for token in {READER, WRITER, ADMIN} - {role}:
        assert replies[token].status == 403
        assert replies[token].json == {"error": "The token does not allow this request."}
        assert replies[token].headers["www-authenticate"] == 'Bearer realm="tfx-gnn", error="insufficient_scope"'


def test_all_routes_but_health_want_a_token(token_server):
    routes = [route for route in token_server.server.app.routes if isinstance(route, Route)]
    replies = {}
    for route in routes:
        path = route.path.replace("{model:name}", "toy").replace("{version:name}", "1")
        for method in sorted(route.methods or ()):
            replies[method, path] = token_server.ask(method, path, {} if method == "POST" else None)

    refused = {place for place, reply in replies.items() if reply.status == 401}
    assert {place: reply.status for place, reply in replies.items() if place not in refused} == {
        (method, path): 200 for path in HEALTH for method in ("GET", "HEAD")
    }
    assert len(refused) > 30


@pytest.mark.parametrize(
    "headers",
    [{}, bearer(""), bearer("x" * 40), bearer(READER[:-1]), bearer(f"{READER}x"), {"Authorization": READER}],
)
@pytest.mark.parametrize("path", [PREDICT, "/v1/models/other:predict", "/nothing", f"{PREDICT}?access_token={READER}"])
def test_request_without_a_known_token_learns_nothing(token_server, headers, path):
    reply = token_server.ask("POST", path, ASKED, headers)

    assert reply.status == 401
    assert reply.json == {"error": "A request must come with a token, as in `Authorization: Bearer <token>`."}
    assert reply.headers["www-authenticate"] == 'Bearer realm="tfx-gnn"'


@pytest.mark.parametrize("path", [f"{ADD}%0A", "/v1//graph:add", "/v1/graph%3Aadd", f"{ADD}/", "/v1/x/../graph:add"])
def test_other_spellings_of_a_path_need_the_same_token(token_server, path):
    assert token_server.ask("POST", path, ROWS, bearer(READER)).status in (307, 403, 404)
    assert b"overlay" not in token_server.ask("POST", path, ROWS, bearer(READER)).body


@pytest.mark.parametrize("path", [f"{path}%0A" for path in HEALTH])
def test_paths_like_those_of_health_are_not_open(token_server, path):
    assert token_server.ask("GET", path).status == 401


def test_no_log_has_a_token(token_server, caplog):
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.INFO, "tfx_gnn.access"):
        token_server.ask("POST", f"{PREDICT}?token={READER}", ASKED, bearer(READER))
        token_server.ask("POST", PREDICT, ASKED, bearer(WRITER))
        token_server.ask("GET", f"/{READER[:0]}metrics", None, bearer(f"{ADMIN}x"))

    assert '"path": "/v1/models/toy:predict"' in caplog.text
    assert not re.search(f"{READER}|{WRITER}|{ADMIN}", caplog.text)


def test_description_says_that_tokens_are_wanted(token_server, items_server):
    described = token_server.ask("GET", "/openapi.json", None, bearer(READER)).json

    assert described["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    assert described["paths"][ADD]["post"]["security"] == [{"token": []}]
    assert "401" in described["paths"][ADD]["post"]["responses"]
    assert "security" not in described["paths"]["/v2/health/live"]["get"]
    assert "securitySchemes" not in items_server.ask("GET", "/openapi.json").json["components"]


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("localhost", True),
        ("LocalHost:8080", True),
        ("localhost.:1", True),
        ("127.0.0.1:80", True),
        ("[::1]:8080", True),
        ("10.1.2.3:8080", True),  # The address that was called.
        ("[fe80::1]", False),
        ("10.1.2.4", False),
        ("graph.example.com", True),
        ("api.svc.cluster.local:80", True),
        ("svc.cluster.local", False),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("evil.example:localhost", False),
        ("localhost:80:80", False),
        ("localhost@evil.example", False),
        ("", False),
        (":80", False),
        ("[]", False),
        ("localhost, evil.example", False),
        ("localhost\x00", False),
    ],
)
def test_host_is_one_of_the_names_of_the_server(host, is_allowed):
    options = ServerOptions(
        host="0.0.0.0", without_tokens=True, allowed_hosts=("graph.example.com", "*.svc.cluster.local")
    )
    access = Access(None, options=options, tokens=None, open_paths=frozenset())

    assert access._is_known(host.encode(), "10.1.2.3") is is_allowed


@pytest.mark.parametrize("path", [PREDICT, ADD])
@pytest.mark.parametrize(
    ("headers", "status", "message"),
    [
        ({"Host": "evil.example"}, 421, "`Host` must be a name of this server; got 'evil.example'"),
        ({"Host": "evil.example:8080", "Origin": "http://evil.example:8080"}, 421, "got 'evil.example:8080'"),
        ({"Origin": "https://evil.example"}, 403, "`Origin` must be this server; got 'https://evil.example'"),
        ({"Origin": "null"}, 403, "got 'null'"),
        ({"Origin": ""}, 403, "got ''"),
        ({"Host": "localhost", "Origin": "http://localhost.evil.example"}, 403, "`Origin` must be"),
        ({"Host": "localhost:8080", "Origin": "http://localhost:9090"}, 403, "`Origin` must be"),
        ({"Content-Type": "text/plain"}, 415, "must be application/json, .* got 'text/plain'"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "got 'application/x-www-form-urlencoded'"),
        ({"Content-Type": ""}, 415, "got ''"),
        ({"Content-Type": "text/json; x=application/json"}, 415, "got 'text/json'"),
        ({"Content-Type": "application/octet-stream"}, 415, "got 'application/octet-stream'"),
    ],
)
def test_request_that_a_page_of_another_site_could_send_is_refused(items_server, path, headers, status, message):
    reply = items_server.ask("POST", path, ASKED if path == PREDICT else ROWS, headers)

    assert reply.status == status
    assert re.search(message, reply.json["error"])


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "Application/JSON; charset=utf-8"},
        {"Host": "localhost:8080", "Origin": "http://localhost:8080"},
        {"Host": "LOCALHOST", "Origin": "https://localhost"},
        {"X-Forwarded-Host": "evil.example"},
    ],
)
def test_request_of_a_program_or_of_an_own_page_is_answered(items_server, headers):
    assert items_server.ask("POST", PREDICT, ASKED, headers).status == 200


@pytest.mark.parametrize("name", ["Host", "Authorization", "Content-Type", "Origin", "Inference-Header-Content-Length"])
def test_header_that_decides_is_there_once(items_server, name):
    value = {"Host": b"localhost", "Content-Type": b"application/json"}.get(name, b"1")
    with socket.create_connection(("127.0.0.1", items_server.port), timeout=60) as connection:
        others = b"" if name == "Host" else b"Host: localhost\r\n"
        twice = b"%s: %s\r\n" % (name.encode(), value)
        connection.sendall(b"GET /v2 HTTP/1.1\r\nConnection: close\r\n" + others + 2 * twice + b"\r\n")
        answer = connection.recv(2**16)

    assert answer.startswith(b"HTTP/1.1 400")
    assert b"must be there once; got it twice" in answer


@pytest.mark.parametrize(
    ("line", "status"), [(b"POST /v1/graph:add", b"415"), (b"POST /none", b"404"), (b"PUT /v2", b"405")]
)
def test_connection_ends_where_the_client_waits_to_be_told_to_send_its_body(items_server, line, status):
    head = b" HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"
    with socket.create_connection(("127.0.0.1", items_server.port), timeout=60) as connection:
        connection.sendall(line + head)
        answer = connection.recv(2**16)

    # What came next would be taken for the body.
    assert answer.split()[1] == status
    assert b"\r\nconnection: close\r\n" in answer


def test_transfer_encoding_other_than_chunks_is_refused(items_server):
    head = b"POST /v1/graph:add HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", items_server.port), timeout=60) as connection:
        connection.sendall(head + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")
        answer = connection.recv(2**16)

    assert answer.split()[1] == b"501"
    assert b"`Transfer-Encoding` must be chunked; got 'gzip, chunked'" in answer


@pytest.mark.parametrize(("version", "status"), [(b"1.0", b"200"), (b"1.1", b"400")])
def test_host_may_be_absent_in_http_1_0_alone(items_server, version, status):
    with socket.create_connection(("127.0.0.1", items_server.port), timeout=60) as connection:
        connection.sendall(b"GET /v2 HTTP/%s\r\nConnection: close\r\n\r\n" % version)

        assert connection.recv(2**16).split()[1] == status


def test_pages_of_allowed_sites_may_ask(serve, items_model_dir, items_index):
    site, asks = "https://shop.example", {"Access-Control-Request-Method": "POST"}
    preflight = {"Origin": site, "Access-Control-Request-Headers": "content-type,authorization", **asks}
    with serve(items_model_dir, index=items_index, allowed_origins=(site,), max_delay_ms=0.0) as client:
        allowed = client.ask("OPTIONS", PREDICT, None, preflight)
        answered = client.ask("POST", PREDICT, ASKED, {"Origin": site})
        unknown = client.ask("POST", PREDICT, {"instances": [{"id": "nobody"}]}, {"Origin": site})
        foreign = [
            client.ask("OPTIONS", PREDICT, None, {**preflight, "Origin": "https://evil.example"}).status,
            client.ask("POST", PREDICT, ASKED, {"Origin": "https://evil.example"}).status,
        ]

    assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (200, site)
    assert (answered.status, answered.headers["access-control-allow-origin"]) == (200, site)
    assert "x-model-version" in answered.headers["access-control-expose-headers"]
    assert (unknown.status, unknown.headers["access-control-allow-origin"]) == (404, site)
    assert foreign == [400, 403]


def test_preflight_of_any_other_site_is_refused(items_server):
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    reply = items_server.ask("OPTIONS", ADD, None, headers)

    assert reply.status == 403
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize("path", HEALTH)
def test_probes_need_neither_a_name_nor_a_token(token_server, path):
    with contextlib.closing(token_server.connect()) as connection:
        connection.request("GET", path, headers={"Host": "10.0.0.9:8080"})

        assert connection.getresponse().status == 200
