"""Asks a served model as clients of TF-GNN do: each samples a subgraph in memory, then sends it to the model.

    python benchmarks/client_side_sampling.py --url http://127.0.0.1:8080/v1/models/shop:predict \
        --tables-dir shop/data --requests 2000

The model is that of the starter project, `tfx-gnn new shop`. The client draws users by a power law, as
`serve_load.py --ids` does, samples the starter's three hops with the in-memory sampler of tensorflow-gnn, and sends the
subgraph as a serialized example. It prints how long the client took to be ready, its memory, and the latencies of
sampling and of the whole request.
"""

from __future__ import annotations

import argparse
import base64
import csv
import http.client
import importlib
import itertools
import json
import os
import pathlib
import random
import resource
import sys
import time
import urllib.parse
from typing import Any

# tensorflow-gnn needs Keras 2 under the name tf.keras.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from google.protobuf import text_format

# tensorflow-gnn's own feature "#id" has the positions in the tables.
_KEY = "key"
_SCHEMA = """
node_sets { key: "user" value { features { key: "key" value { dtype: DT_STRING } }
  features { key: "age" value { dtype: DT_INT64 } } features { key: "newsletter" value { dtype: DT_INT64 } } } }
node_sets { key: "product" value { features { key: "key" value { dtype: DT_STRING } }
  features { key: "category" value { dtype: DT_STRING } } features { key: "price" value { dtype: DT_FLOAT } } } }
edge_sets { key: "purchase" value {
  source: "user" target: "product"
  features { key: "key" value { dtype: DT_INT64 } } features { key: "quantity" value { dtype: DT_INT64 } } } }
edge_sets { key: "buyers" value {
  source: "product" target: "user"
  features { key: "key" value { dtype: DT_INT64 } } features { key: "quantity" value { dtype: DT_INT64 } } } }
"""
_HOPS = """
seed_op { op_name: "seed" node_set_name: "user" }
sampling_ops { op_name: "purchase" input_op_names: "seed" edge_set_name: "purchase" sample_size: 8
  strategy: RANDOM_UNIFORM }
sampling_ops { op_name: "other_buyers" input_op_names: "purchase" edge_set_name: "buyers" sample_size: 4
  strategy: RANDOM_UNIFORM }
sampling_ops { op_name: "their_purchases" input_op_names: "other_buyers" edge_set_name: "purchase" sample_size: 4
  strategy: RANDOM_UNIFORM }
"""


def main() -> None:
    """Sends requests one after another and prints one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--tables-dir", required=True, type=pathlib.Path)
    parser.add_argument("--requests", type=int, default=2000)
    arguments = parser.parse_args()
    start = time.perf_counter()
    client = _Client(arguments.tables_dir)
    client.example_of(0)
    ready_seconds = time.perf_counter() - start

    url = urllib.parse.urlsplit(arguments.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=60)
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(client.num_users)))
    users = random.Random(0).choices(range(client.num_users), cum_weights=weights, k=arguments.requests)
    sampling, whole = [], []
    start, cpu = time.perf_counter(), time.process_time()
    for user in users:
        began = time.perf_counter()
        example = client.example_of(user)
        sampling.append(time.perf_counter() - began)
        body = json.dumps({"instances": [{"b64": base64.b64encode(example).decode()}]})
        connection.request("POST", url.path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {content[:500]!r}")
        whole.append(time.perf_counter() - began)
    report = {
        "requests_per_second": round(len(users) / (time.perf_counter() - start), 1),
        "client_cpu_ms": round(1000 * (time.process_time() - cpu) / len(users), 2),
        "sampling": _percentiles(sampling),
        "whole": _percentiles(whole),
        "ready_seconds": round(ready_seconds, 1),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    sys.stdout.write(json.dumps(report) + "\n")


class _Client:
    """The graph in memory, and tensorflow-gnn's sampler over it."""

    def __init__(self, tables_dir: pathlib.Path) -> None:
        self._tfgnn = importlib.import_module("tensorflow_gnn")
        users, products, purchases = (_read(tables_dir / f"{name}.csv") for name in ("users", "products", "purchases"))
        self.num_users = len(users)
        self._sample = self._make_sampler(users, products, purchases)

    def example_of(self, user: int) -> bytes:
        """Samples around a user, by position in its table, and serializes the subgraph as the model reads it."""
        graph = self._sample(tf.constant([[user]], tf.int64))
        example = tf.train.Example()
        for name in ("user", "product"):
            node_set = graph.node_sets[name]
            for feature in sorted(set(node_set.features) - {"#id"}):
                values = node_set[feature]
                _put(example, f"nodes/{name}.{'#id' if feature == _KEY else feature}", values.numpy())
            _put(example, f"nodes/{name}.#size", np.asarray([int(tf.reduce_sum(node_set.sizes))]))
        # What was sampled from products to users are purchases, too.
        there, back = (graph.edge_sets[name] for name in ("purchase", "buyers"))
        sources = np.concatenate([there.adjacency.source.numpy(), back.adjacency.target.numpy()])
        targets = np.concatenate([there.adjacency.target.numpy(), back.adjacency.source.numpy()])
        _put(example, "edges/purchase.#source", sources)
        _put(example, "edges/purchase.#target", targets)
        _put(example, "edges/purchase.#size", np.asarray([len(sources)]))
        for feature, key in (("quantity", "quantity"), (_KEY, "#id")):
            values = [edge_set[feature].numpy() for edge_set in (there, back)]
            _put(example, f"edges/purchase.{key}", np.concatenate(values))
        _put(example, "nodes/_readout.#size", np.asarray([1]))
        _put(example, "edges/_readout/seed.#size", np.asarray([1]))
        _put(example, "edges/_readout/seed.#source", np.asarray([0]))
        _put(example, "edges/_readout/seed.#target", np.asarray([0]))
        return example.SerializeToString()

    def _make_sampler(self, users: list[dict[str, str]], products: list[dict[str, str]], purchases: Any) -> Any:
        sampler = importlib.import_module("tensorflow_gnn.experimental.sampler")
        specs = importlib.import_module("tensorflow_gnn.sampler")
        schema = text_format.Parse(_SCHEMA, self._tfgnn.GraphSchema())
        spec = text_format.Parse(_HOPS, specs.SamplingSpec())
        number_of = {
            "user": {row["user_id"]: number for number, row in enumerate(users)},
            "product": {row["product_id"]: number for number, row in enumerate(products)},
        }
        ends = {name: np.asarray([number_of[name][row[f"{name}_id"]] for row in purchases]) for name in number_of}
        of_purchases = {
            _KEY: tf.range(len(purchases), dtype=tf.int64),
            "quantity": tf.constant([int(row["quantity"]) for row in purchases], tf.int64),
        }
        features = {
            "user": {
                _KEY: tf.constant([row["user_id"] for row in users]),
                **{name: tf.constant([int(row[name]) for row in users], tf.int64) for name in ("age", "newsletter")},
            },
            "product": {
                _KEY: tf.constant([row["product_id"] for row in products]),
                "category": tf.constant([row["category"] for row in products]),
                "price": tf.constant([float(row["price"]) for row in products], tf.float32),
            },
        }

        def edge_sampler(operation: Any) -> Any:
            is_forward = operation.edge_set_name == "purchase"
            source, target = ("user", "product") if is_forward else ("product", "user")
            return sampler.InMemUniformEdgesSampler(
                num_source_nodes=len(number_of[source]),
                source=ends[source],
                target=ends[target],
                edge_features=of_purchases,
                sample_size=operation.sample_size,
                edge_set_name=operation.edge_set_name,
                name=operation.op_name,
            )

        def node_features(node_set: str) -> Any:
            return sampler.InMemIndexToFeaturesAccessor(features[node_set], name=f"nodes_{node_set}")

        model = sampler.create_sampling_model_from_spec(
            schema, spec, edge_sampler, node_features, seed_node_dtype=tf.int64
        )

        @tf.function(input_signature=[tf.TensorSpec([1, 1], tf.int64)])
        def sample(seeds: tf.Tensor) -> Any:
            return model(tf.RaggedTensor.from_tensor(seeds)).merge_batch_to_components()

        return sample


def _read(path: pathlib.Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _put(example: tf.train.Example, key: str, values: npt.NDArray[Any]) -> None:
    feature = example.features.feature[key]
    if values.dtype == object:
        feature.bytes_list.value.extend(values)
    elif values.dtype.kind == "f":
        feature.float_list.value.extend(values)
    else:
        feature.int64_list.value.extend(values)


def _percentiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {f"p{share}_ms": round(1000 * ordered[int(len(ordered) * share / 100)], 2) for share in (50, 99)}


if __name__ == "__main__":
    main()
