"""Nodes and edges that are added to the graph while it is served."""

import asyncio
import concurrent.futures
import threading
import time

import pytest

from tfx_gnn.sampling.overlay.graph_overlay import open_graph_overlay
from tfx_gnn.serving.server.graph_rows import GraphRows
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal
from tfx_gnn.serving.server.served_graph import ServedGraph

PREDICT, ADD, GRAPH = "/v1/models/toy:predict", "/v1/graph:add", "/v1/graph"


def item(*names):
    return {"item": {"#id": list(names), "x": [2.5] * len(names)}}


def near(source, *targets):
    return {"near": {"#source": [source] * len(targets), "#target": list(targets)}}


def rows(*names):
    return GraphRows(nodes=item(*names), edges={})


@pytest.fixture
def overlay(items_index, tmp_path):
    with open_graph_overlay(items_index, str(tmp_path / "overlay.log")) as overlay:
        yield overlay


@pytest.fixture
def graph(items_index, overlay):
    graph = ServedGraph(items_index, ServerOptions(max_added_rows=20), ServerMetrics(), overlay=overlay)
    yield graph
    graph.close()


@pytest.fixture(scope="module")
def writable_server(serve, items_model_dir, items_index, tmp_path_factory):
    """A server whose graph can be written, for requests that change nothing."""
    path = str(tmp_path_factory.mktemp("overlay") / "overlay.log")
    options = {"max_delay_ms": 0.0, "max_new_rows": 3, "max_added_rows": 2, "max_body_bytes": 10_000}
    with (
        open_graph_overlay(items_index, path) as overlay,
        serve(items_model_dir, index=items_index, overlay=overlay, **options) as client,
    ):
        yield client


def test_added_rows_are_seen_by_the_next_request_and_after_a_restart(serve, items_model_dir, items_index, tmp_path):
    path = tmp_path / "overlay.log"
    new = {"nodes": item("v", "u"), "edges": near("v", "u", "x", "w")}
    with (
        open_graph_overlay(items_index, str(path)) as overlay,
        serve(items_model_dir, index=items_index, overlay=overlay, max_delay_ms=0.0) as client,
    ):
        asked = {"id": "v", **new}
        before = client.ask("POST", PREDICT, {"instances": [asked]}).json

        added = client.ask("POST", ADD, new)

        assert (added.status, added.json) == (200, {"added": {"nodes": {"item": 2}, "edges": {"near": 3}}})
        assert client.ask("POST", PREDICT, {"instances": [{"id": "v"}]}).json == before
        assert client.ask("POST", ADD, {"edges": near("v", "y")}).status == 200
        found = client.ask("GET", GRAPH).json
        lines = client.ask("GET", "/metrics").body.decode().splitlines()
        counts = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    assert found == {
        "fingerprint": items_index.fingerprint,
        "is_writable": True,
        "nodes": {"item": {"count": 6, "added": 2}, "shelf": {"count": 2, "added": 0}},
        "edges": {"near": {"count": 8, "added": 4}, "on": {"count": 2, "added": 0}},
    }
    assert float(counts['tfx_gnn_overlay_rows{kind="nodes"}']) == 2
    assert float(counts['tfx_gnn_overlay_rows{kind="edges"}']) == 4
    assert float(counts["tfx_gnn_overlay_bytes"]) == path.stat().st_size
    assert float(counts["tfx_gnn_overlay_write_seconds_count"]) == 2
    with (
        open_graph_overlay(items_index, str(path)) as overlay,
        serve(items_model_dir, index=items_index, overlay=overlay, max_delay_ms=0.0) as client,
    ):
        assert client.ask("GET", GRAPH).json == found
        assert client.ask("POST", PREDICT, {"instances": [{"id": "u"}]}).json["predictions"][0]["label"] == "red"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "must be JSON"),
        ([], 400, "must be a JSON object"),
        ({}, 400, "`nodes` and `edges` must hold 1 to 3 rows; got 0. Give each"),
        ({"nodes": item(), "edges": {}}, 400, "must hold 1 to 3 rows; got 0"),
        ({"nodes": item("a", "b"), "edges": near("w", "x", "y")}, 400, "must hold 1 to 3 rows; got 4. Split them"),
        ({"nodes": item("v"), "id": "v"}, 400, r"must have the keys \['nodes', 'edges'\]; got \['id'\]"),
        ({"nodes": [1]}, 400, r"`nodes` must be an object of sets; got \[1\]"),
        ({"nodes": {"item": "v"}}, 400, "`nodes.item` must be an object of columns; got 'v'"),
        ({"edges": {"near": {"#source": "v"}}}, 400, "`edges.near.#source` must be a list; got 'v'"),
        ({"nodes": {"items": {"#id": ["v"]}}}, 400, "`nodes/items` must be a set of the graph index"),
        ({"edges": {"nears": {"#source": ["v"]}}}, 400, "`edges/nears` must be a set of the graph index"),
        ({"nodes": {"item": {"#id": ["v"]}}}, 400, r"must have the columns \['#id', 'x'\]; got \['#id'\]"),
        ({"nodes": {"item": {"#id": ["v"], "x": [0], "y": [1]}}}, 400, "must have the columns"),
        ({"nodes": {"item": {"#id": ["v"], "x": ["0"]}}}, 400, "must have values of type float in 'x'"),
        ({"nodes": {"item": {"#id": ["v"], "x": [None]}}}, 400, "in 'x'; got a null"),
        ({"nodes": {"item": {"#id": ["v"], "x": [{}]}}}, 400, "must have values of type float in 'x'"),
        ({"nodes": {"item": {"#id": ["v"], "x": [1e300]}}}, 400, "all finite"),
        ({"nodes": {"item": {"#id": ["v"], "x": [0, 1]}}}, 400, "must have columns of one length"),
        ({"nodes": {"item": {"#id": [""], "x": [0]}}}, 400, "got an empty id"),
        ({"nodes": {"shelf": {"#id": ["v"]}}}, 400, "must have values of type int64 in '#id'"),
        ({"nodes": {"shelf": {"#id": [2**64]}}}, 400, "must have values of type int64 in '#id'"),
        ({"nodes": item("v", "v")}, 400, "got 'v', which is given twice"),
        ({"nodes": item("v", "w")}, 409, "must be new nodes; got 'w', which is there already"),
        ({"nodes": item("v"), "edges": near("v", "q")}, 404, "#target among the nodes of 'item'; got 'q'"),
        ({"nodes": item("v"), "edges": near("v", 7)}, 400, "must have values of type large_string in '#target'"),
        ({"nodes": item("t", "u", "v")}, 507, "at most 2 rows beside its index; got 0, and 3 more"),
        (b'{"nodes": {}, "edges": {}, "nodes": {}}', 400, "the key 'nodes' is there twice in an object. Correct it"),
        (b'{"nodes": {"\\ud800": {}}, "edges": 1}', 400, "`edges` must be an object of sets"),
        (b'{"nodes": {"\\ud800": 1}}', 400, r"`nodes.\\ud800` must be an object of columns; got 1"),
        ({"nodes": {"n" * 1000: 1}}, 400, r"^`nodes\.n+` must be an object of columns; got 1"),
        ({"nodes": {"n" * 5000: 1}}, 400, "a key of 5000 characters, more than 1000"),
        (
            {"nodes": {"item": {"#id": ["a" * 4097], "x": [1.0]}}},
            400,
            r"`nodes.item.#id\[0\]` must be an id of at most",
        ),
        (
            {"edges": {"near": {"#source": ["w"], "#target": ["\u20ac" * 1366]}}},
            400,
            r"`edges.near.#target\[0\]` must be an id of at most 4096 bytes; got one of 4098",
        ),
        ({"edges": {"near": {"#source": ["a" * 4097], "#target": ["w"]}}}, 400, r"`edges.near.#source\[0\]` must be"),
        (b" " * 10_001, 413, "at most 10000 bytes"),
    ],
)
def test_addition_is_refused_and_changes_nothing(writable_server, body, status, message):
    before = writable_server.ask("GET", GRAPH).json

    reply = writable_server.ask("POST", ADD, body)

    assert reply.status == status
    with pytest.raises(ValueError, match=message):
        raise ValueError(reply.json["error"])
    assert writable_server.ask("GET", GRAPH).json == before
    assert writable_server.ask("POST", PREDICT, {"instances": [{"id": "v"}]}).status == 404


def test_a_graph_is_only_written_if_the_server_may(items_server, toy_server):
    refused = items_server.ask("POST", ADD, {"nodes": item("v")})
    absent = toy_server.ask("POST", ADD, {"nodes": item("v")})

    assert (refused.status, absent.status, toy_server.ask("GET", GRAPH).status) == (403, 404, 404)
    assert "Start it with `--overlay FILE`" in refused.json["error"]
    assert "Start it with `--graph-index-dir`" in absent.json["error"]
    assert items_server.ask("GET", GRAPH).json["is_writable"] is False
    assert items_server.ask("GET", ADD).status == 405


def test_additions_that_come_during_a_write_share_the_next_one_and_fail_alone(graph, overlay, monkeypatch):
    groups, may_write = [], threading.Event()

    def add_each(additions, *, write=overlay.add_each):
        groups.append([nodes["item"]["#id"][0] for nodes, _ in additions])
        assert may_write.wait(60)
        return write(additions)

    monkeypatch.setattr(overlay, "add_each", add_each)

    async def ask():
        asked = [asyncio.ensure_future(graph.add(rows(name))) for name in ("a", "b", "w", "c", "b", "d")]
        await asyncio.sleep(0)
        asked[3].cancel()  # Its client left while it waited.
        may_write.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(ask())

    assert groups == [["a"], ["b", "w", "b", "d"]]
    assert [type(answer) for answer in answers] == [
        type(None),
        type(None),
        Refusal,
        asyncio.CancelledError,
        Refusal,
        type(None),
    ]
    assert sorted(graph.snapshot.added_nodes["item"].ids.to_pylist()) == ["a", "b", "d"]
    assert graph.snapshot.num_batches == 2


def test_rows_that_cannot_be_written_are_not_added_and_the_next_are(graph, monkeypatch):
    def fail(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("tfx_gnn.sampling.overlay.overlay_log.os.fsync", fail)
        with pytest.raises(Refusal, match="must be written to disk; got the error 'No space left") as refused:
            asyncio.run(graph.add(rows("v")))

    assert (refused.value.status, graph.describe()["nodes"]["item"]["added"]) == (503, 0)
    asyncio.run(graph.add(rows("v")))
    assert graph.describe()["nodes"]["item"]["added"] == 1


def test_rows_that_wait_count_towards_the_limit(graph):
    async def ask():
        asked = [graph.add(rows(*(f"{number}-{row}" for row in range(8)))) for number in range(3)]
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(ask())

    assert [getattr(answer, "status", 200) for answer in answers] == [200, 200, 507]
    assert graph.describe()["nodes"]["item"]["added"] == 16


def test_rows_that_were_just_written_count_once(graph):
    async def ask():
        first = asyncio.ensure_future(graph.add(rows(*(f"first-{row}" for row in range(8)))))
        await asyncio.sleep(0)
        while not graph.describe()["nodes"]["item"]["added"]:
            time.sleep(0.001)  # They are written, but the loop does not know it yet.
        await graph.add(rows(*(f"second-{row}" for row in range(8))))
        await first

    asyncio.run(ask())

    assert graph.describe()["nodes"]["item"]["added"] == 16


def test_many_clients_add_at_the_same_time(serve, items_model_dir, items_index, overlay):
    with (
        serve(items_model_dir, index=items_index, overlay=overlay, max_delay_ms=0.0) as client,
        concurrent.futures.ThreadPoolExecutor(8) as threads,
    ):

        def add_and_ask(number):
            added = client.ask("POST", ADD, {"nodes": item(f"n{number}"), "edges": near(f"n{number}", "w")})
            asked = client.ask("POST", PREDICT, {"instances": [{"id": f"n{number}"}]})
            return added.status, asked.status

        assert set(threads.map(add_and_ask, range(40))) == {(200, 200)}
        assert client.ask("GET", GRAPH).json["nodes"]["item"]["added"] == 40
