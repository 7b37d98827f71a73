"""The seven ready networks as exports that serve, untrained, and requests for them.

A request is a subgraph of papers and authors, about 60 nodes of two kinds and 100 edges of two, its sizes drawn from
a log-normal distribution. Nothing is transformed: what is served is the parser, the merging and the network.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
from google.protobuf import text_format

from tfx_gnn.graph import GraphSchema, create_graph_spec_from_schema_pb
from tfx_gnn.models import NodeClassification
from tfx_gnn.models import model_fns as ready
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.training import ServedModel
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn.transform import SavedGraphTransform

NETWORKS = ("gcn", "graph_sage", "gat_v2", "mpnn", "gin", "rgcn", "hgt")

_ID = 'features { key: "#id" value { dtype: DT_STRING } }'
_SCHEMA = """
node_sets { key: "paper" value {
    %s
    features { key: "numbers" value { dtype: DT_FLOAT shape { dim { size: 16 } } } }
    features { key: "venue" value { dtype: DT_INT64 } } } }
node_sets { key: "author" value { features { key: "age" value { dtype: DT_FLOAT } } } }
edge_sets { key: "cites" value {
    source: "paper" target: "paper" features { key: "year" value { dtype: DT_FLOAT } } } }
edge_sets { key: "writes" value {
    source: "author" target: "paper" features { key: "share" value { dtype: DT_FLOAT } } } }
node_sets { key: "_readout" value { features { key: "topic" value { dtype: DT_INT64 } } } }
edge_sets { key: "_readout/seed" value { source: "paper" target: "_readout" } }
"""
_NUM_VENUES = 20
_NUM_TOPICS = 4


def export_network(name: str, folder: str, **hyperparameters: Any) -> str:
    """Exports a ready network for the classification of papers.

    Args:
        name: one of `NETWORKS`.
        folder: absent folder; the SavedModel comes into it.
        hyperparameters: beside the default ones, by name.

    Returns:
        The folder of the SavedModel.
    """
    objective = NodeClassification(label_feature="topic", num_classes=_NUM_TOPICS).objective()
    raw, visible = (objective.without_labels(create_graph_spec_from_schema_pb(_schema(ids))) for ids in (_ID, ""))
    features = {"embeddings": {"paper.venue": {"rows": _NUM_VENUES}}}
    tf_keras.utils.set_random_seed(1)
    model = getattr(ready, name)(
        visible.relax(num_components=True, num_nodes=True, num_edges=True),
        objective=objective,
        hyperparameters={"features": features, **hyperparameters},
    )
    saved_model_dir = os.path.join(folder, "Format-Serving")
    with libraries_traced_as_written():
        ServedModel(
            raw_spec=create_graph_spec_from_schema_pb(_schema(_ID)),
            transformed_spec=raw,
            transform=SavedGraphTransform(
                write_identity_transform(os.path.join(folder, "transform_graph"), _SCHEMA % _ID)
            ),
            model=model,
            objective=objective,
        ).save(saved_model_dir)
    return saved_model_dir


def requests(count: int) -> list[bytes]:
    """Draws subgraphs, the same each time.

    Args:
        count: how many.

    Returns:
        Serialized tf.Examples, with labels.
    """
    random = np.random.default_rng(1)
    return [_request(number, random) for number in range(count)]


def _request(number: int, random: np.random.Generator) -> bytes:
    papers, authors, cites, writes = (max(1, int(mean * random.lognormal(0.0, 0.7))) for mean in (30, 25, 50, 50))
    content: dict[str, Any] = {
        "nodes/paper.#size": [papers],
        "nodes/paper.#id": [f"{number}-{paper}".encode() for paper in range(papers)],
        "nodes/paper.numbers": random.normal(size=papers * 16).tolist(),
        "nodes/paper.venue": random.integers(0, _NUM_VENUES, papers).tolist(),
        "nodes/author.#size": [authors],
        "nodes/author.age": random.normal(size=authors).tolist(),
        "edges/cites.#size": [cites],
        "edges/cites.#source": random.integers(0, papers, cites).tolist(),
        "edges/cites.#target": random.integers(0, papers, cites).tolist(),
        "edges/cites.year": random.normal(size=cites).tolist(),
        "edges/writes.#size": [writes],
        "edges/writes.#source": random.integers(0, authors, writes).tolist(),
        "edges/writes.#target": random.integers(0, papers, writes).tolist(),
        "edges/writes.share": random.uniform(size=writes).tolist(),
        "nodes/_readout.#size": [1],
        "nodes/_readout.topic": [int(random.integers(_NUM_TOPICS))],
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }
    features = {key: _feature(values) for key, values in content.items()}
    record: bytes = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    return record


def _feature(values: list[Any]) -> tf.train.Feature:
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _schema(ids: str) -> GraphSchema:
    return text_format.Parse(_SCHEMA % ids, GraphSchema())


def write_identity_transform(folder: str, schema_text: str) -> str:
    """Writes a TransformGraph that changes nothing.

    Args:
        folder: absent folder.
        schema_text: the graph schema as text.

    Returns:
        The folder.
    """
    os.makedirs(os.path.join(folder, "metadata"))
    with open(os.path.join(folder, "metadata", "graph_schema.pbtxt"), "w", encoding="utf-8") as file:
        file.write(schema_text)
    specs: dict[str, tf.TypeSpec] = {}
    for one_set in graph_layout(text_format.Parse(schema_text, GraphSchema())).sets:
        for column in one_set.features:
            specs[column.key] = tf.RaggedTensorSpec([None, None, *column.shape], column.dtype, ragged_rank=1)
        for key in one_set.structure_keys:
            specs[key] = tf.RaggedTensorSpec([None, None], tf.int64, ragged_rank=1)
    module = tf.Module()
    # Of `dict` itself, Python knows no signature.
    module.transform_fn = tf.function(lambda inputs: dict(inputs), input_signature=[specs])  # noqa: PLW0108
    tf.saved_model.save(module, os.path.join(folder, "transform_fn"))
    return folder
