"""Stored embeddings: what they answer, and when they are refused."""

import datetime as dt
import json
import shutil
import types

import numpy as np
import pytest

from tfx_gnn.serving.model_fingerprint import fingerprint_model
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal
from tfx_gnn.serving.server.stored_embeddings import StoredEmbeddings

EMBED, NEAREST = "/v1/models/toy:embed", "/v1/models/toy:nearest"
NOW = dt.datetime.now(dt.timezone.utc)


@pytest.fixture(scope="module")
def model(make_version, tmp_path_factory):
    """A folder of one version, and its fingerprint."""
    folder = str(tmp_path_factory.mktemp("model"))
    return folder, fingerprint_model(make_version(folder, 3))


@pytest.fixture(scope="module")
def server(serve, model, write_stored, tmp_path_factory):
    """A server with embeddings of its version: tests only ask it."""
    folder, fingerprint = model
    embeddings = str(tmp_path_factory.mktemp("stored") / "embeddings")
    write_stored(embeddings, fingerprint, NOW)
    with serve(folder, embeddings_dir=embeddings, max_examples=4) as client:
        yield client


def test_embeddings_are_those_of_the_ids_with_their_version_and_time(server):
    reply = server.ask("POST", EMBED, {"ids": ["d", "a", "d"]})

    assert reply.status == 200, reply.body
    assert reply.json == {
        "embeddings": [[3.0, 0.0], [0.0, 2.0], [3.0, 0.0]],
        "output": "embedding",
        "model_version": "3",
        "created_at": NOW.isoformat(),
    }
    assert reply.headers["x-model-version"] == "3"
    described = server.ask("GET", "/v1/embeddings").json
    assert (described["ready"], described["count"], described["created_at"]) == (True, 4, NOW.isoformat())
    assert 0 <= described["age_seconds"] < 3600


def test_nearest_nodes_have_the_largest_inner_products_and_equal_ones_keep_their_order(server):
    of_node = server.ask("POST", NEAREST, {"id": "b", "k": 2})
    of_vector = server.ask("POST", NEAREST, {"embedding": [1, 0.5], "k": 4})

    assert of_node.json["nearest"] == [{"id": "d", "score": 3.0}, {"id": "c", "score": 1.0}]
    assert of_vector.json["nearest"] == [
        {"id": "d", "score": 3.0},
        {"id": "b", "score": 1.0},
        {"id": "a", "score": 1.0},
        {"id": "c", "score": 1.0},
    ]
    assert [one["id"] for one in server.ask("POST", NEAREST, {"id": "d"}).json["nearest"]] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (EMBED, {"ids": []}, 400, "`ids` must be a list of 1 to 4 ids; got []"),
        (EMBED, {"ids": ["a"] * 5}, 400, "`ids` must be a list of 1 to 4 ids"),
        (EMBED, {"id": "a"}, 400, "must have keys among ['ids']; got ['id']"),
        (EMBED, {"ids": ["a", "e"]}, 404, "`ids[1]` must be an id with a stored embedding; got 'e'"),
        (EMBED, {"ids": [7]}, 400, "`ids[0]` must be a text"),
        (NEAREST, {"k": 1}, 400, "must have 'id' or 'embedding'; got ['k']"),
        (NEAREST, {"id": "a", "embedding": [1, 2]}, 400, "must have 'id' or 'embedding'"),
        (NEAREST, {"id": "a", "k": 0}, 400, "`k` must be an integer in [1, 4]; got 0"),
        (NEAREST, {"embedding": [1.0]}, 400, "`embedding` must be a list of 2 finite numbers; got [1.0]"),
        (NEAREST, {"embedding": [1.0, float("nan")]}, 400, "`embedding` must be a list of 2 finite numbers"),
        (NEAREST, {"embedding": [1.0, 10**400]}, 400, "`embedding` must be a list of 2 finite numbers"),
        (NEAREST, {"embedding": [3e38, 0]}, 400, "`embedding` must have finite inner products"),
        (EMBED, {"ids": ["a" * 4096]}, 404, "`ids[0]` must be an id with a stored embedding"),
        (EMBED, {"ids": ["a" * 10**6]}, 400, "`ids[0]` must be an id of at most 4096 bytes; got one of 1000000"),
        ("/v1/models/other:embed", {"ids": ["a"]}, 404, "The model must be 'toy'"),
    ],
)
def test_bad_requests_are_refused(server, path, body, status, message):
    reply = server.ask("POST", path, body)

    assert reply.status == status
    assert message in reply.json["error"]


def test_server_without_embeddings_says_so(toy_server):
    for reply in (toy_server.ask("POST", EMBED, {"ids": ["a"]}), toy_server.ask("GET", "/v1/embeddings")):
        assert reply.status == 404
        assert "Start it with `--embeddings-dir`" in reply.json["error"]


def test_newest_folder_answers_until_it_is_too_old_or_of_another_model(serve, model, write_stored, tmp_path):
    folder, fingerprint = model
    place = str(tmp_path)
    with serve(folder, embeddings_dir=place, max_embedding_age_seconds=3600) as client:

        def state():
            client.server.refresh()
            reply, described = client.ask("POST", EMBED, {"ids": ["a"]}), client.ask("GET", "/v1/embeddings").json
            is_stale = client.server.metrics.registry.get_sample_value("tfx_gnn_embeddings_stale")
            assert (described["ready"], described.get("reason", "")) == (not is_stale, reply.json.get("error", ""))
            # The model answers.
            assert client.ask("GET", "/v2/health/ready").json == {"ready": True}
            assert client.ask("GET", "/v2/models/toy/ready").status == 200
            return is_stale, reply.status, reply.json.get("error", "")

        none = state()
        write_stored(f"{place}/1", fingerprint)
        first = state()
        write_stored(f"{place}/2", fingerprint, ids=("a", "x", "y", "z"))
        second = client.server.refresh() or client.ask("POST", EMBED, {"ids": ["a"]}).json["embeddings"]
        write_stored(f"{place}/3", "0" * 64)
        of_another = state()
        write_stored(f"{place}/4", fingerprint, NOW - dt.timedelta(hours=2))
        old = state()
        write_stored(f"{place}/5", fingerprint, NOW + dt.timedelta(hours=2))
        of_tomorrow = state()
        for number in (3, 4, 5):
            shutil.rmtree(f"{place}/{number}")
        back = state()

    assert none[:2] == old[:2] == of_another[:2] == of_tomorrow[:2] == (1, 503)
    assert first == back == (0, 200, "")
    assert second == [[1.0, 0.0]]
    assert "The server must have embeddings; got none" in none[2]
    assert "of one of the versions [3], which are served; got those of model 000000000000" in of_another[2]
    assert "must be at most 3600 s old; got some of" in old[2]
    assert "Embed the examples again" in old[2]
    assert "must be from the past, so that their age is known" in of_tomorrow[2]


@pytest.mark.parametrize(
    "damage",
    [
        (
            {"vectors": [[1, 0], [np.nan, 2], [3, 0], [1, 0]]},
            "must hold finite embeddings; got NaN or infinity for 'a'",
        ),
        ({"ids": ["b", "a", "d", "b"]}, "must hold one embedding for each id; got two for 'b'"),
        ({"ids": ["b", "a", "d"]}, r"got (4, 2) and ids of the shape (3,)"),
        ({"ids": [0.5, 1.5, 2.5, 3.5]}, "and the type float64"),
        ({"vectors": [[1, 0, 0]] * 4}, r"vectors of the shape (4, 2)"),
        ({"created_at": NOW.replace(tzinfo=None)}, "`created_at` must be a time with its offset from UTC"),
    ],
)
def test_damaged_folder_leaves_the_embeddings_before(model, write_stored, tmp_path, caplog, damage):
    change, message = damage
    _, fingerprint = model
    stored = StoredEmbeddings(str(tmp_path), ServerOptions(), ServerMetrics())
    of_model = [types.SimpleNamespace(fingerprint=fingerprint, version=3)]
    write_stored(f"{tmp_path}/1", fingerprint)
    stored.refresh(of_model)
    write_stored(f"{tmp_path}/2", fingerprint, **change)
    stored.refresh(of_model)

    assert message in caplog.text
    assert stored.embed(b'{"ids": ["d"]}', of_model)["embeddings"] == [[3.0, 0.0]]
    started_again = StoredEmbeddings(str(tmp_path), ServerOptions(), ServerMetrics())
    started_again.refresh(of_model)
    assert started_again.embed(b'{"ids": ["d"]}', of_model)["embeddings"] == [[3.0, 0.0]]


def test_integer_ids_are_asked_as_numbers(model, write_stored, tmp_path):
    _, fingerprint = model
    stored = StoredEmbeddings(str(tmp_path), ServerOptions(), ServerMetrics())
    of_model = [types.SimpleNamespace(fingerprint=fingerprint, version=3)]
    write_stored(f"{tmp_path}/1", fingerprint, ids=[2**53 + 1, -1, 7, 2**53])
    stored.refresh(of_model)

    assert stored.embed(json.dumps({"ids": [2**53, -1]}).encode(), of_model)["embeddings"] == [[1.0, 0.0], [0.0, 2.0]]
    assert [one["id"] for one in stored.nearest(b'{"id": 7, "k": 9}', of_model)["nearest"]] == [2**53 + 1, 2**53, -1]
    for other in ('"7"', "7.0", "true", str(2**63)):
        with pytest.raises(Refusal, match="must be an integer of 64 bits"):
            stored.embed(f'{{"ids": [{other}]}}'.encode(), of_model)
