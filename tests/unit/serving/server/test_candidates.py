"""The best of some candidate links of a node."""

import datetime as dt
import json
import os
import shutil

import pytest
import tensorflow as tf

from tfx_gnn.graph.schema.schema_io import write_schema
from tfx_gnn.sampling.examples.record_sampler import RecordSampler
from tfx_gnn.sampling.index.build import write_graph_index
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable, Temporal
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.schema_layouts import layouts_of

NOW = dt.datetime.now(dt.timezone.utc)
RANK, PREDICT = "/v1/models/toy:rank", "/v1/models/toy:predict"
PLAN = RecordedPlan(
    plan=SamplingPlan(seed_edge_set="near", hops=(Hop(edge_set="near", fan_out=1, inputs=("source",)),)),
    sampling_seed=0,
)


class _SumOfX(tf.Module):
    """Scores a pair by the sum of `x` over its subgraph."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        x = tf.io.parse_example(examples, {"nodes/item.x": tf.io.RaggedFeature(tf.float32)})["nodes/item.x"]
        scores = tf.reduce_sum(x, axis=1, keepdims=True)
        return {
            "scores": scores,
            "num_candidates": tf.ones_like(scores[:, 0], tf.int64),
            "unseen_source_id": tf.ones_like(scores, tf.bool),
            "unseen_target_id": scores > -0.25,  # that with y
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def embed(self, examples):
        scores = self.serve(examples)["scores"]
        ends = tf.stack([scores, tf.ones_like(scores)], axis=2)
        return {"source_embedding": ends, "target_embedding": ends}


def _save_version(folder, index, plan):
    module = _SumOfX()
    tf.saved_model.save(module, f"{folder}/1", signatures={"serving_default": module.serve, "embeddings": module.embed})
    extra = f"{folder}/1/assets.extra"
    os.makedirs(extra)
    plan.write(f"{extra}/sampling_plan.json")
    write_schema(RecordSampler(index, plan).schema, f"{extra}/graph_schema.pbtxt")


@pytest.fixture(scope="module")
def links_server(serve, items_index, tmp_path_factory):
    """A server of a model that scores pairs of items."""
    folder = str(tmp_path_factory.mktemp("links"))
    _save_version(folder, items_index, PLAN)
    with serve(
        folder, index=items_index, embeddings_dir=f"{folder}/embeddings", max_delay_ms=0.0, max_examples=4
    ) as client:
        client.embeddings_dir = f"{folder}/embeddings"
        yield client


@pytest.fixture
def store(links_server, write_stored):
    """Lets the server answer from other stored embeddings, and returns it."""

    def make(**changes):
        shutil.rmtree(links_server.embeddings_dir, ignore_errors=True)
        fingerprint = links_server.server.versions.served[0].fingerprint
        write_stored(links_server.embeddings_dir, fingerprint, **{"output": "target_embedding", **changes})
        links_server.server.refresh()
        return links_server

    return make


def test_best_candidates_are_those_of_the_pairs_with_the_highest_scores(links_server):
    pairs = [{"source": "x", "target": target} for target in ("z", "w", "y")]
    scores = {
        pair["target"]: answer["scores"][0]
        for pair, answer in zip(
            pairs, links_server.ask("POST", PREDICT, {"instances": pairs}).json["predictions"], strict=True
        )
    }

    reply = links_server.ask("POST", RANK, {"source": "x", "candidates": ["z", "w", "y"], "k": 2})

    # x = -2 and its neighbor w = 1.5 are in each subgraph; z = -0.5, y = 0.5.
    assert scores == {"z": -1.0, "w": -0.5, "y": 0.0}
    best = [
        {"target": "y", "score": 0.0, "unseen_target_id": True},
        {"target": "w", "score": -0.5, "unseen_target_id": False},
    ]
    assert (reply.status, reply.json) == (200, {"source": "x", "best": best, "unseen_source_id": True})
    assert reply.headers["x-model-version"] == "1"
    of_version = "/v1/models/toy/versions/1:rank"
    every = links_server.ask("POST", of_version, {"source": "x", "candidates": ["z", "w", "y"]})
    assert every.json["best"] == [*best, {"target": "z", "score": -1.0, "unseen_target_id": False}]
    twice = links_server.ask("POST", RANK, {"source": "x", "candidates": ["z", "y", "z"], "k": 9})
    assert [one["target"] for one in twice.json["best"]] == ["y", "z", "z"]


def test_without_candidates_the_nearest_stored_embeddings_are_ranked(links_server, store):
    # The source is embedded with w, the first item, as (-0.5, 1), so the inner products are 9, 5, 3, 2 and 1.
    store(ids=("v", "x", "w", "y", "z"), vectors=[[0, 9], [0, 5], [0, 3], [2, 3], [-2, 0]], created_at=NOW)

    reply = links_server.ask("POST", RANK, {"source": "x", "retrieve": 3, "k": 1})
    every = links_server.ask("POST", RANK, {"source": "x"})

    assert reply.status == 200, reply.body
    assert reply.json["best"] == [{"target": "y", "score": 0.0, "unseen_target_id": True}]
    retrieved = reply.json["retrieved"]
    assert 0 <= retrieved.pop("age_seconds") < 3600
    assert retrieved == {
        "count": 2,  # The graph lacks v, and x is no candidate of its own.
        "num_unknown": 1,
        "output": "target_embedding",
        "model_version": "1",
        "created_at": NOW.isoformat(),
    }
    assert [one["target"] for one in every.json["best"]] == ["y", "w", "z"]
    assert links_server.ask("POST", RANK, {"source": "x", "candidates": ["y"]}).json.get("retrieved") is None


@pytest.mark.parametrize(
    ("changes", "body", "status", "message"),
    [
        ({}, {"source": "q"}, 404, "`source` must be the id of a node of 'item' .*got 'q'"),
        ({}, {"source": 7}, 400, "`source` must be a text"),
        ({}, {"source": "x", "retrieve": 0}, 400, r"`retrieve` must be an integer in \[1, 4\]; got 0"),
        ({}, {"source": "x", "retrieve": 5}, 400, r"`retrieve` must be an integer in \[1, 4\]; got 5"),
        ({}, {"source": "x", "retrieve": True}, 400, "`retrieve` must be an integer"),
        ({}, {"source": "x", "retrieve": 1, "candidates": ["y"]}, 400, "may have 'candidates' or 'retrieve'"),
        ({"created_at": NOW - dt.timedelta(days=3)}, {"source": "x"}, 503, "must be at most 86400 s old; got some of"),
        ({"output": "source_embedding"}, {"source": "x"}, 400, "are 'target_embedding', .*got 'source_embedding'"),
        (
            {"output": "likes/target_embedding"},
            {"source": "x"},
            400,
            "got 'likes/target_embedding'. List them, or embed",
        ),
        ({"ids": ("p", "q", "r", "s")}, {"source": "x"}, 404, "got none of the 4 nearest ones"),
        ({"ids": ("x",), "vectors": [[0, 1]]}, {"source": "x"}, 404, "got none of the 0 nearest ones"),
        ({"ids": (1, 2, 3, 4)}, {"source": "x"}, 400, "are those of 'item', with ids of type large_string; got"),
        ({"dimension": 1, "vectors": [[1]] * 4}, {"source": "x"}, 400, "in 2 numbers and targets in 1"),
    ],
)
def test_retrieval_is_refused(store, changes, body, status, message):
    reply = store(**changes).ask("POST", RANK, body)

    assert reply.status == status
    with pytest.raises(ValueError, match=message):
        raise ValueError(reply.json["error"])


def test_server_without_embeddings_retrieves_nothing(items_server):
    reply = items_server.ask("POST", RANK, {"source": "x", "retrieve": 3})

    assert reply.status == 404
    assert "start the server with `--embeddings-dir`, the output of `tfx-gnn embed" in reply.json["error"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"candidates": ["x"]}, 400, "must have 'source'"),
        ({"source": "x", "candidates": None}, 400, "`candidates` must be a list of ids; got None"),
        ({"source": "x", "candidates": ["y"], "top": 1}, 400, "may have .*'k' and 'task'; got .*'top'"),
        ({"source": "x", "candidates": "y"}, 400, "`candidates` must be a list of ids; got 'y'"),
        ({"source": "x", "candidates": ["y"], "k": 0}, 400, "`k` must be a positive integer; got 0"),
        ({"source": "x", "candidates": ["y"], "k": True}, 400, "`k` must be a positive integer; got True"),
        ({"source": "x", "candidates": ["y"], "k": "1"}, 400, "`k` must be a positive integer; got '1'"),
        ({"source": "x", "candidates": ["y"], "task": 1}, 400, "`task` must be a text; got 1"),
        ({"source": "x", "candidates": ["y"], "task": "likes"}, 400, "with the output 'likes/scores'"),
        ({"source": "x", "candidates": []}, 400, "`candidates` must have at least one id; got none"),
        ({"source": "x", "candidates": ["y"] * 5}, 400, "1 to 4 examples; got 5"),
        ({"source": 7, "candidates": ["y"]}, 400, "`source` must be a text or .*got 7"),
        ({"source": "x", "candidates": ["y", None]}, 400, r"`candidates\[1\]` must be a text or .*got None"),
        (
            {"source": "q", "candidates": ["y", "z"]},
            404,
            r"`source` must be the id of a node of 'item' .*got 'q'\. Correct it, or add",
        ),
        ({"source": "x", "candidates": ["y", "q", "p"]}, 404, r"`candidates\[1\]` must be .*'q', one of 2 unknown ids"),
    ],
)
def test_ranking_is_refused(links_server, body, status, message):
    reply = links_server.ask("POST", RANK, body)

    assert reply.status == status
    with pytest.raises(ValueError, match=message):
        raise ValueError(json.loads(reply.body)["error"])


def test_models_that_do_not_score_pairs_do_not_rank(items_server, toy_server):
    for server in (items_server, toy_server):
        reply = server.ask("POST", RANK, {"source": "x", "candidates": ["y"]})

        assert reply.status == 400
        assert "The model must predict links, with the output 'scores'" in reply.json["error"]


def test_forecasts_are_ranked_as_of_a_time_and_of_now(serve, items_tables, tmp_path):
    tables = shutil.copytree(items_tables, tmp_path / "tables")
    (tables / "near.csv").write_text("source,target,day\nx,w,5\nx,y,7\n")
    schema = read_tables_schema(str(tables))
    schema.edge_sets["near"].features["day"].dtype = tf.int64.as_datatype_enum
    write_schema(schema, str(tables / "graph_schema.pbtxt"))
    (tmp_path / "index").mkdir()
    write_graph_index(str(tmp_path / "index"), schema, layouts_of(schema, str(tables)))
    index = open_graph_index(str(tmp_path / "index"))
    table = SeedTable(
        filename="pairs.csv",
        features={"day": "int64"},
        splits_edges=False,
        is_forecast=True,
        input_features=("day",),
        now_feature="day",
    )
    temporal = Temporal(seed_time="day", edge_times={"near": "day"}, inclusive=True)
    plan = SamplingPlan(
        seed_edge_set="near",
        seed_table=table,
        temporal=temporal,
        hops=(Hop(edge_set="near", fan_out=2, inputs=("source",)),),
    )
    _save_version(str(tmp_path / "model"), index, RecordedPlan(plan=plan, sampling_seed=0))

    with serve(str(tmp_path / "model"), index=index, max_delay_ms=0.0) as client:

        def best(**context):
            reply = client.ask("POST", RANK, {"source": "x", "candidates": ["w", "z"], **context})
            assert reply.status == 200, reply.body
            return {one["target"]: one["score"] for one in reply.json["best"]}

        # x = -2, w = 1.5, y = 0.5, z = -0.5. The edge from x to w stays visible to the pair of the two.
        assert best(context={"day": 4}) == {"w": -0.5, "z": -2.5}
        assert best(context={"day": 5}) == {"w": -0.5, "z": -1.0}
        assert best() == best(context={"day": "1970-01-01T00:00:07"}) == {"w": 0.0, "z": -0.5}
        wrong = client.ask("POST", RANK, {"source": "x", "candidates": ["w"], "context": {"dya": 4}})
        assert (wrong.status, "Did you mean 'day'" in wrong.json["error"]) == (400, True)
