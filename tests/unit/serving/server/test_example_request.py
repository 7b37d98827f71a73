"""The command line that asks a server, executed against a server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.serving.server.example_request import _instances, curl_line, example_instance
from tfx_gnn.serving.server.graph_json import example_of_graph
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.warmup_requests import write_warmup_requests

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
TOKEN = "a" + "0123456789bcdefghijklmnopqrstuvw" * 2
SCHEMA = text_format.Parse(
    """
    node_sets { key: "user" value {
      features { key: "age" value { dtype: DT_INT64 } }
      features { key: "at" value { dtype: DT_FLOAT shape { dim { size: 2 } } } } } }
    node_sets { key: "item" value { features { key: "name" value { dtype: DT_STRING } } } }
    node_sets { key: "_readout" value {} }
    edge_sets { key: "buys" value { source: "user" target: "item" } }
    edge_sets { key: "_readout/seed" value { source: "user" target: "_readout" } }
    """,
    graph_schema_pb2.GraphSchema(),
)


def execute(line, **variables):
    """Executes a line as a shell does."""
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env={**os.environ, **variables}, check=True, timeout=60
    )
    return json.loads(done.stdout)


def line_of(client, *, url="", **options):
    (version,) = client.server.versions.served
    chosen = ServerOptions(model_name="toy", **options)
    return curl_line(example_instance(version), chosen, url or f"http://127.0.0.1:{client.port}")


def test_server_with_a_graph_index_is_asked_by_the_id_of_its_first_node(items_server):
    line = line_of(items_server)

    assert '{"instances": [{"id": "w"}]}' in line
    assert len(execute(line)["predictions"]) == 1


def test_server_without_one_is_asked_with_a_graph(toy_server):
    line = line_of(toy_server)

    assert '"readout": {"seed": 0}' in line
    assert len(execute(line)["predictions"]) == 1


def test_recorded_request_gives_real_values(make_version, serve, tmp_path):
    place = make_version(str(tmp_path), 1)
    example = {"nodes/item.#size": [1], "nodes/_readout.#size": [1], "edges/_readout/seed.#size": [1]}
    record = tf.train.Example()
    for key, values in {**example, "edges/_readout/seed.#source": [0], "edges/_readout/seed.#target": [0]}.items():
        record.features.feature[key].int64_list.value.extend(values)
    record.features.feature["nodes/item.#id"].bytes_list.value.append(b"it's")
    record.features.feature["nodes/item.x"].float_list.value.append(2.5)
    write_warmup_requests(place, [record.SerializeToString()])

    with serve(str(tmp_path)) as client:
        line = line_of(client)

        assert '"x": [2.5]' in line
        assert len(execute(line)["predictions"]) == 1


def test_token_is_taken_from_a_variable(make_version, serve, tmp_path):
    make_version(str(tmp_path / "model"), 1)
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read {TOKEN}\n")
    tokens.chmod(0o600)

    with serve(str(tmp_path / "model"), token_file=str(tokens)) as client:
        line = line_of(client, token_file=str(tokens))

        assert "$TOKEN" in line
        assert len(execute(line, TOKEN=TOKEN)["predictions"]) == 1
        assert "error" in execute(line, TOKEN="")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://0.0.0.0:8501", "http://127.0.0.1:8501/"),
        ("http://[::]:8501", "http://[::1]:8501/"),
        ("http://10.0.0.7:80", "http://10.0.0.7:80/"),
    ],
)
def test_address_can_be_reached_from_here(url, address):
    assert address in curl_line({"id": "w"}, ServerOptions(model_name="toy"), url)


def test_graph_is_written_as_requests_have_it_whole_then_the_seed_alone():
    graph = {
        "node_sets": {"user": {"age": [31, 42], "at": [[0.5, 1.0], [2.0, 3.0]]}, "item": {"name": ["a"]}},
        "edge_sets": {"buys": {"source": [0, 1], "target": [0, 0]}},
        "readout": {"seed": 1},
    }
    record = example_of_graph(graph, SCHEMA, ["seed"], "graph")

    whole, alone, as_bytes = _instances(record, SCHEMA, ["seed"])

    assert whole == graph
    assert alone == {"node_sets": {"user": {"age": [42], "at": [[2.0, 3.0]]}}, "readout": {"seed": 0}}
    assert list(as_bytes) == ["b64"]
    assert np.array_equal(example_of_graph(whole, SCHEMA, ["seed"], "graph"), record)
