"""Any value of JSON in any field of any request is answered or refused, and the server goes on."""

import contextlib
import copy
import dataclasses
import itertools
import json

import numpy as np
import pytest

from tfx_gnn.serving.embedding_files import EmbeddingManifest
from tfx_gnn.serving.model_fingerprint import fingerprint_model

V1, INFER = "/v1/models/toy", "/v2/models/toy/infer"
ROWS = {"nodes": {"item": {"#id": ["v"], "x": [2.5]}}, "edges": {"near": {"#source": ["v"], "#target": ["w"]}}}
GRAPH = {
    "node_sets": {"item": {"#id": ["a"], "x": [1.0]}},
    "edge_sets": {"_readout/seed": {"source": [0], "target": [0]}},
    "context": {},
    "readout": {"seed": 0},
}
TENSOR = {"name": "ids", "shape": [1], "datatype": "BYTES", "data": ["w"], "parameters": {"content_type": "x"}}
REQUESTS = [
    (f"{V1}:predict", {"signature_name": "", "instances": [{"id": "w"}]}),
    (f"{V1}:predict", {"instances": [{"id": "v", **ROWS}]}),
    (f"{V1}:predict", {"instances": [{"source": "w", "target": "x"}]}),
    (f"{V1}:predict", {"instances": [GRAPH]}),
    (f"{V1}:predict", {"inputs": {"ids": ["w"]}}),
    (f"{V1}:rank", {"source": "w", "candidates": ["x"], "k": 1, "task": ""}),
    (f"{V1}:rank", {"source": "w", "retrieve": 3}),
    (f"{V1}:embed", {"ids": ["a"]}),
    (f"{V1}:nearest", {"id": "a", "k": 1}),
    (f"{V1}:nearest", {"embedding": [1.0, 2.0]}),
    ("/v1/graph:add", ROWS),
    (INFER, {"id": "1", "parameters": {"signature_name": "", "binary_data_output": False}, "inputs": [TENSOR]}),
    (
        INFER,
        {
            "inputs": [{**TENSOR, "parameters": {"binary_data_size": 0}}],
            "outputs": [{"name": "label", "parameters": {}}],
        },
    ),
]
ODD_VALUES = [
    None,
    True,
    -1,
    2**63,
    10**400,
    1e300,
    float("nan"),
    "",
    "\ud800",
    "\U0010ffff" * 3000,
    [],
    [{}],
    {},
    {"b64": "/w=="},
    json.loads("[" * 500 + "]" * 500),
]


@pytest.fixture(scope="module")
def server(serve, items_model_dir, items_index, tmp_path_factory):
    """A server of all kinds of requests, but without an overlay: nothing is added."""
    folder = tmp_path_factory.mktemp("stored")
    np.save(folder / "ids.npy", np.asarray(["a", "b"]))
    np.save(folder / "embeddings.npy", np.ones([2, 2], np.float32))
    manifest = EmbeddingManifest(
        model_fingerprint=fingerprint_model(f"{items_model_dir}/1"),
        output="embedding",
        dimension=2,
        normalization="none",
        num_embeddings=2,
        num_repeated=0,
        file_format="npy",
        created_at="2026-01-01T00:00:00+00:00",
    )
    (folder / "manifest.json").write_text(json.dumps({"format_version": 1, **dataclasses.asdict(manifest)}))
    options = {"max_delay_ms": 0.0, "max_embedding_age_seconds": 1e12}
    with serve(items_model_dir, index=items_index, embeddings_dir=str(folder), **options) as client:
        yield client


def places(content, path=()):
    """Yields the path of each value in JSON, the whole included."""
    yield path
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


def replaced(content, path, value):
    if not path:
        return value
    changed = copy.deepcopy(content)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return changed


@pytest.mark.parametrize(("path", "request_body"), REQUESTS, ids=[f"{number}" for number in range(len(REQUESTS))])
def test_each_odd_value_in_each_place_is_answered_or_refused(server, path, request_body):
    outcomes = {}
    with contextlib.closing(server.connect()) as connection:
        for place, (number, value) in itertools.product(places(request_body), enumerate(ODD_VALUES)):
            body = json.dumps(replaced(request_body, place, value))
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            with connection.getresponse() as response:
                content = response.read()
            message = "" if response.status == 200 else json.loads(content)["error"]
            outcomes[place, number] = response.status, message

    failed = {where: outcome for where, outcome in outcomes.items() if outcome[0] not in (200, 400, 403, 404)}
    assert failed == {}
    unclear = {where: text for where, (status, text) in outcomes.items() if status != 200 and " got " not in text}
    assert unclear == {}
    assert server.ask("POST", f"{V1}:predict", {"instances": [{"id": "w"}]}).json["predictions"][0]["label"] == "red"
