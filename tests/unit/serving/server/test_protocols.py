"""Both protocols, asked over HTTP."""

import base64
import json
import struct
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.serving.server import open_inference

PREDICT, INFER = "/v1/models/toy:predict", "/v2/models/toy/infer"
GRAPH = {"node_sets": {"item": {"x": [1.5, 0.0]}}, "readout": {"seed": 0}}


def b64(record):
    return base64.b64encode(record).decode()


def tensor(values, **more):
    return {"name": "examples", "shape": [len(values)], "datatype": "BYTES", "data": values, **more}


def binary(records):
    return b"".join(struct.pack("<I", len(record)) + record for record in records)


@pytest.fixture(scope="module")
def records(toy_records):
    return toy_records["test"][:2]  # x = 1.5 is red, x = -2.0 blue


def test_rows_are_answered_as_rows(toy_server, records):
    reply = toy_server.ask("POST", PREDICT, {"instances": [{"b64": b64(record)} for record in records]})

    assert reply.status == 200
    assert reply.headers["x-model-version"] == "3"
    rows = reply.json["predictions"]
    assert [(row["id"], row["label"]) for row in rows] == [("w-0", "red"), ("x-0", "blue")]
    assert rows[0]["logits"] == [-1.5, 1.5]
    np.testing.assert_allclose(rows[0]["score"], 1 / (1 + np.exp(-3.0)), rtol=1e-6)


@pytest.mark.parametrize(
    "path",
    [PREDICT, "/v1/models/toy/versions/3:predict"],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_columns_are_answered_as_columns(toy_server, records, path, is_named):
    values = [{"b64": b64(record)} for record in records]

    reply = toy_server.ask(
        "POST", path, {"signature_name": "serving_default", "inputs": {"examples": values} if is_named else values}
    )

    assert reply.json["outputs"]["label"] == ["red", "blue"]


def test_named_instance_is_an_example(toy_server, records):
    reply = toy_server.ask("POST", PREDICT, {"instances": [{"examples": {"b64": b64(records[1])}}]})

    assert reply.json["predictions"][0]["label"] == "blue"


def test_graph_as_json_is_answered_as_its_example(toy_server, records):
    graph = {**GRAPH, "node_sets": {"item": {"x": [1.5, 0.0], "#id": ["w-0", "w-1"]}}}
    both = toy_server.ask("POST", PREDICT, {"instances": [graph, {"b64": b64(records[0])}]}).json["predictions"]

    assert both[0] == both[1]


@pytest.mark.parametrize("value", [GRAPH, json.dumps(GRAPH)], ids=["object", "text"])
def test_graph_is_a_named_input(toy_server, value):
    body = {"inputs": [{**tensor([value]), "name": "graphs"}], "outputs": [{"name": "label"}]}

    assert toy_server.ask("POST", INFER, body).json["outputs"][0]["data"] == ["red"]


@pytest.mark.parametrize("path", [INFER, "/v2/models/toy/versions/3/infer"])
@pytest.mark.parametrize("has_parameter", [True, False])
def test_tensor_of_base64_is_answered(toy_server, records, path, has_parameter):
    values = [b64(record) if has_parameter else {"b64": b64(record)} for record in records]
    body = {"id": "q", "inputs": [tensor(values, parameters={"content_type": "base64"} if has_parameter else {})]}

    reply = toy_server.ask("POST", path, body).json

    assert (reply["id"], reply["model_name"], reply["model_version"]) == ("q", "toy", "3")
    outputs = {output["name"]: output for output in reply["outputs"]}
    assert outputs["logits"] == {"name": "logits", "datatype": "FP32", "shape": [2, 2], "data": [-1.5, 1.5, 2, -2]}
    assert outputs["label"]["data"] == ["red", "blue"]


def test_binary_tensors_are_read_and_written(toy_server, records):
    data = binary(records)
    head = json.dumps(
        {
            "inputs": [
                {
                    "name": "examples",
                    "shape": [2, 1],
                    "datatype": "BYTES",
                    "parameters": {"binary_data_size": len(data)},
                }
            ],
            "outputs": [
                {"name": "logits", "parameters": {"binary_data": True}},
                {"name": "id"},
                {"name": "label", "parameters": {"binary_data": True}},
            ],
        }
    ).encode()
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}

    reply = toy_server.ask("POST", INFER, head + data, headers)

    length = int(reply.headers["inference-header-content-length"])
    logits, ids, label = json.loads(reply.body[:length])["outputs"]
    assert ids["data"] == ["w-0", "x-0"]
    assert logits["parameters"] == {"binary_data_size": 16}
    tail = reply.body[length:]
    assert np.frombuffer(tail[:16], "<f4").tolist() == [-1.5, 1.5, 2.0, -2.0]
    assert tail[16:] == binary([b"red", b"blue"])
    assert label["parameters"] == {"binary_data_size": len(tail) - 16}


def test_bad_request_among_concurrent_ones_fails_alone(toy_server, records):
    replies = {}

    def ask(number):
        record = b"\x0agarbage" if number % 4 == 0 else records[number % 2]
        replies[number] = toy_server.ask("POST", PREDICT, {"instances": [{"b64": b64(record)}]})

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [replies[number].status for number in range(16)] == [400, 200, 200, 200] * 4
    assert [replies[number].json["predictions"][0]["label"] for number in (1, 2, 3)] == ["blue", "red", "blue"]


def test_model_describes_itself(toy_server):
    assert toy_server.ask("GET", "/v2").json["extensions"] == ["binary_tensor_data"]
    found = toy_server.ask("GET", "/v2/models/toy").json
    assert found["versions"] == ["3"]
    assert {"name": "logits", "datatype": "FP32", "shape": [-1, 2]} in found["outputs"]
    assert toy_server.ask("GET", "/v1/models/toy").json == {
        "model_version_status": [
            {"version": "3", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        ]
    }
    signatures = toy_server.ask("GET", "/v1/models/toy/versions/3/metadata").json["metadata"]["signature_def"]
    assert signatures["signature_def"]["serving_default"]["outputs"]["logits"]["tensor_shape"]["dim"] == [
        {"size": "-1", "name": ""},
        {"size": "2", "name": ""},
    ]


def test_output_of_unknown_rank_is_described():
    specs = {"any": tf.TensorSpec(None, tf.float32), "table": tf.TensorSpec([None, 2], tf.int64)}
    version = types.SimpleNamespace(signature=lambda _: types.SimpleNamespace(output_specs=specs), seeds=None)

    found = open_inference.metadata_of(version, "foreign", [1])

    assert found["outputs"] == [
        {"name": "any", "datatype": "FP32", "shape": [-1]},
        {"name": "table", "datatype": "INT64", "shape": [-1, 2]},
    ]


@pytest.mark.parametrize(
    "path", ["/v2/health/live", "/v2/health/ready", "/v2/models/toy/ready", "/v2/models/toy/versions/3/ready"]
)
def test_server_is_live_and_ready(toy_server, path):
    assert toy_server.ask("GET", path).status == 200


def test_every_route_is_documented_and_the_page_loads_nothing(toy_server):
    document = toy_server.ask("GET", "/openapi.json").json
    page = toy_server.ask("GET", "/docs").body.decode()

    assert set(document["paths"]) == {route.path.replace(":name}", "}") for route in toy_server.server.app.routes}
    assert all(path in page for path in document["paths"])
    bodies = {
        path: operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for path, methods in document["paths"].items()
        for operation in methods.values()
        if "requestBody" in operation
    }
    assert (bodies["/v1/graph:add"], bodies["/v1/models/{model}:predict"]) == ("Add", "Predict")
    assert set(bodies.values()) <= set(document["components"]["schemas"])
    assert "src=" not in page
    assert "://" not in page
    assert "prefers-color-scheme: dark" in page


def test_metrics_count_responses_batches_and_refusals(toy_server, records):
    toy_server.ask("POST", PREDICT, {"instances": [{"b64": b64(records[0])}]})
    toy_server.ask("POST", PREDICT, b"{")

    text = toy_server.ask("GET", "/metrics").body.decode()

    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(lines['tfx_gnn_requests_total{route="/v1/models/{model}:predict",status="200"}']) >= 1
    assert float(lines['tfx_gnn_refusals_total{reason="malformed"}']) >= 1
    assert float(lines["tfx_gnn_batch_examples_count"]) >= 1
    assert float(lines["tfx_gnn_model_version"]) == 3
    assert float(lines["tfx_gnn_pending_requests"]) == 0
    assert float(lines["tfx_gnn_pending_bytes"]) == 0
